"""Logs through the agent: parts, tails, and following to the last byte."""

import http.client
import threading

from tests.api.running import WAIT_S, Caller, PretendedAgent, Running


def test_a_log_is_passed_on_byte_by_byte(caller: Caller, agent: PretendedAgent) -> None:
    caller.submit()
    uid = agent.launched(1)
    agent.write(uid, b"out \xff\x00\r\n" * 100_000)
    agent.write(uid, b"err", "stderr")

    answer = caller.get("/jobs/1/logs")

    assert answer.body == b"out \xff\x00\r\n" * 100_000
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert caller.get("/jobs/1/logs?stream=stderr").body == b"err"
    assert caller.get("/jobs/1/logs?offset=799995").body == b" \xff\x00\r\n"


def test_the_last_lines_are_cut_by_the_server(caller: Caller, agent: PretendedAgent) -> None:
    caller.submit()
    agent.write(agent.launched(1), b"1\n2\n3")

    assert caller.get("/jobs/1/logs?tail=2").body == b"2\n3"
    assert caller.get("/jobs/1/logs?tail=0").body == b""


def test_a_job_that_never_started_has_an_empty_log(caller: Caller) -> None:
    caller.submit()

    answer = caller.get("/jobs/1/logs")

    assert (answer.status, answer.body) == (200, b"")


def test_logs_of_what_does_not_exist_are_refused(caller: Caller) -> None:
    caller.submit()
    caller.submit(array="0-3")

    assert caller.get("/jobs/77/logs").status == 404
    assert caller.get("/jobs/1/logs?task=1").status == 404
    assert caller.get("/jobs/1/logs?attempt=2").status == 404
    assert caller.get("/jobs/2/logs").status == 400
    assert caller.get("/jobs/1/logs?stream=both").json["field"] == "stream"


def test_an_absent_node_is_told_as_unavailable(server: Running, caller: Caller) -> None:
    agent = PretendedAgent(server.socket_path)
    caller.submit()
    agent.report_start(agent.launched(1))
    caller.until(1, "running")
    agent.close()
    while caller.get("/nodes/box").json["state"] != "down":
        pass

    answer = caller.get("/jobs/1/logs")

    assert answer.status == 503
    assert "not connected" in answer.json["detail"]


def follow(server: Running, query: str = "") -> http.client.HTTPResponse:
    return server.stream(f"/jobs/1/logs?follow=1&{query}")


def test_following_waits_for_the_start_and_ends_with_the_last_byte(
    server: Running, agent: PretendedAgent
) -> None:
    caller = server.local()
    caller.submit(hold=True)
    heard: list[bytes] = []
    thread = threading.Thread(target=lambda: heard.append(follow(server).read()))
    thread.start()
    caller.post("/jobs:release", {"ids": [1]})
    uid = agent.launched(1)
    agent.write(uid, b"first ")
    agent.report_start(uid)

    agent.write(uid, b"last")
    agent.report_end(uid)
    thread.join(WAIT_S)

    assert heard == [b"first last"]


def test_following_goes_on_with_the_next_attempt(server: Running, agent: PretendedAgent) -> None:
    caller = server.local()
    caller.submit(retries=1, backoff_s=0)
    first = agent.launched(1)
    agent.write(first, b"one ")
    heard: list[bytes] = []
    thread = threading.Thread(target=lambda: heard.append(follow(server).read()))
    thread.start()
    with agent._changed:
        assert agent._changed.wait_for(lambda: agent.log_requests, WAIT_S)

    agent.report_end(first, code=1)
    second = _other_attempt(agent, first)
    agent.write(second, b"two")
    agent.report_end(second)
    thread.join(WAIT_S)

    assert heard == [b"one two"]
    assert caller.get("/jobs/1/logs?attempt=1").body == b"one "


def _other_attempt(agent: PretendedAgent, uid: str) -> str:
    with agent._changed:
        assert agent._changed.wait_for(lambda: set(agent.wanted) - {uid}, WAIT_S)
        return next(iter(set(agent.wanted) - {uid}))


def test_following_an_ended_job_gives_its_end(server: Running, agent: PretendedAgent) -> None:
    caller = server.local()
    caller.submit()
    uid = agent.launched(1)
    agent.write(uid, b"1\n2\n3\n")
    agent.report_end(uid)
    caller.until(1, "completed")

    assert follow(server, "tail=1").read() == b"3\n"
    assert follow(server, "offset=2").read() == b"2\n3\n"


def test_a_path_of_its_own_is_read_with_the_rights_of_the_owner(
    server: Running, agent: PretendedAgent
) -> None:
    ada = server.as_user("ada")
    ada.submit(workdir="/home/ada", output="out-%j.txt")
    agent.launched(1)

    ada.get("/jobs/1/logs")

    (request,) = agent.log_requests
    assert (request.path, request.user) == ("/home/ada/out-1.txt", "ada")
