"""Logs through the agent: parts, tails, and following to the last byte."""

import http.client
import threading

from tests.api.pretended import PretendedAgent
from tests.api.running import WAIT_S, Caller, Running


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
    assert caller.get("/jobs/1/logs?stream=all").json["field"] == "stream"


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
    agent.report_start(agent.launched(1))
    ada.until(1, "running")

    ada.get("/jobs/1/logs")

    (request,) = agent.log_requests
    assert (request.path, request.user) == ("/home/ada/out-1.txt", "ada")


def test_a_path_that_no_attempt_has_opened_is_not_read(
    server: Running, agent: PretendedAgent
) -> None:
    ada = server.as_user("ada")
    ada.submit(workdir="/home/ada", output="/home/rota/.ssh/id_rsa")
    uid = agent.launched(1)

    waiting = ada.get("/jobs/1/logs")
    agent.report_failed_start(uid)
    ada.until(1, "failed")
    ended = ada.get("/jobs/1/logs")
    searched = ada.get("/jobs/1/logs?search=KEY")

    assert (waiting.status, waiting.body) == (200, b"")
    assert ended.status == searched.status == 404
    assert "never started" in ended.json["detail"]
    assert agent.log_requests == agent.searches == []


def test_lines_are_looked_for_on_the_node_and_told_as_grep_would(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.submit()
    uid = agent.launched(1)
    agent.write(uid, b"one\ntwo fault\nthree\nfour\nfive\nsix fault")

    plain = caller.get("/jobs/1/logs?search=fault")
    beside = caller.get("/jobs/1/logs?search=FAULT&ignore_case=1&context=1&numbers=1")
    none = caller.get("/jobs/1/logs?search=nothing")

    assert plain.body == b"two fault\nsix fault\n"
    assert plain.headers["Rota-Log-Hits"] == "2"
    assert beside.body == b"1-one\n2:two fault\n3-three\n--\n5-five\n6:six fault\n"
    assert (none.body, none.headers["Rota-Log-Next"]) == (b"", None)
    assert agent.log_requests == []


def test_a_search_that_is_stopped_by_its_bound_says_where_it_goes_on(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.submit()
    agent.write(agent.launched(1), b"".join(b"line %d\n" % n for n in range(1, 21)))

    first = caller.get("/jobs/1/logs?search=line&limit=15&numbers=1")
    offset, line = first.headers["Rota-Log-Next"], first.headers["Rota-Log-Next-Line"]
    rest = caller.get(f"/jobs/1/logs?search=line&numbers=1&offset={offset}&line={line}")

    assert first.body.splitlines()[-1] == b"15:line 15"
    assert rest.body.splitlines() == [b"%d:line %d" % (n, n) for n in range(16, 21)]
    assert rest.headers["Rota-Log-Next"] is None


def test_a_search_that_cannot_be_is_refused_by_name(caller: Caller, agent: PretendedAgent) -> None:
    caller.submit()
    agent.launched(1)

    def refusal(query: str) -> str:
        answer = caller.get(f"/jobs/1/logs?{query}")
        assert answer.status == 400, answer.body
        return str(answer.json["detail"])

    assert refusal("search=x&follow=1") == "follow: not together with search"
    assert refusal("search=x&tail=3") == "tail: not together with search"
    assert "context" in refusal("search=x&context=1000")
    assert "at most 1000 characters" in refusal(f"search={'x' * 1001}")
    assert "one line" in refusal("search=a%0Ab")


def test_an_expression_that_the_node_gave_up_on_is_the_callers_to_mend(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.submit()
    agent.launched(1)
    agent.search_error = "regex: '(a+)+$' takes too long on this log"

    answer = caller.get("/jobs/1/logs?search=(a%2B)%2B$&regex=1")

    assert (answer.status, answer.json["field"]) == (400, "search")


def test_a_log_whose_beginning_is_gone_says_where_it_begins(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.submit()
    uid = agent.launched(1)
    agent.write(uid, b"gone\nkept\n")
    agent.begins[uid] = 5

    answer = caller.get("/jobs/1/logs")

    assert (answer.body, answer.headers["Rota-Log-Begins"]) == (b"kept\n", "5")
    assert caller.get("/jobs/1/logs?offset=5").headers["Rota-Log-Begins"] is None


def test_both_streams_come_in_the_order_of_writing(caller: Caller, agent: PretendedAgent) -> None:
    caller.submit()
    uid = agent.launched(1)
    agent.write(uid, b"a\nc\nd\n")
    agent.write(uid, b"b\ne\n", "stderr")
    agent.write(uid, b"2 0 o\n4 2 eo\n6 2 o\n6 4 e\n", "order")

    assert caller.get("/jobs/1/logs?stream=both").body == b"a\nb\nc\nd\ne\n"
    assert caller.get("/jobs/1/logs?stream=both&tail=3").body == b"c\nd\ne\n"
    assert caller.get("/jobs/1/logs?stream=both&offset=4&offset_stderr=2").body == b"d\ne\n"


def test_pieces_of_both_streams_say_where_they_came_from(
    caller: Caller, agent: PretendedAgent
) -> None:
    caller.submit()
    uid = agent.launched(1)
    agent.write(uid, b"out\n")
    agent.write(uid, b"err\n", "stderr")

    body = caller.get("/jobs/1/logs?stream=both&frames=1").body

    assert body == b"o\0\0\0\4out\n" + b"e\0\0\0\4err\n"


def test_what_does_not_go_together_with_both_streams_is_refused(caller: Caller) -> None:
    caller.submit()

    assert caller.get("/jobs/1/logs?stream=both&search=x").json["field"] == "stream"
    assert caller.get("/jobs/1/logs?stream=both&offset=-5").json["field"] == "offset"


def test_both_streams_are_followed_to_their_last_byte(
    server: Running, agent: PretendedAgent
) -> None:
    caller = server.local()
    caller.submit()
    uid = agent.launched(1)
    agent.report_start(uid)
    heard: list[bytes] = []
    thread = threading.Thread(target=lambda: heard.append(follow(server, "stream=both").read()))
    thread.start()
    agent.write(uid, b"one\n")
    agent.write(uid, b"two\n", "stderr")
    agent.report_end(uid)
    thread.join(WAIT_S)

    assert sorted(heard[0].split()) == [b"one", b"two"]
