"""Submitting over HTTP: what comes back, and that it is taken once, whole or not at all."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rota.store.memory import DiskFault
from tests.api.pretended import PretendedAgent
from tests.api.running import WAIT_S, Caller, Running, running


def test_a_submit_answers_with_id_uid_and_state(caller: Caller) -> None:
    answer = caller.post("/jobs", {"command": ["true"]})

    assert answer.status == 201
    assert answer.json["id"] == 1
    assert answer.json["state"] == "queued"
    assert caller.job(answer.json["uid"])["id"] == 1


def test_a_held_job_is_submitted_as_held(caller: Caller) -> None:
    answer = caller.post("/jobs", {"command": "true", "hold": True})

    assert answer.json["state"] == "held"
    assert caller.job(1)["reason"] == "held"


def test_an_array_takes_a_block_of_ids(caller: Caller) -> None:
    answer = caller.post("/jobs", {"command": "true", "array": "0-99%4"})

    assert answer.json["array_id"] == answer.json["id"] == 1
    assert answer.json["count"] == 100
    assert caller.submit() == 102


def test_a_repeat_under_the_same_key_gives_the_same_body(caller: Caller) -> None:
    first = caller.post("/jobs", {"command": "true"}, Idempotency_Key="k1")

    second = caller.post("/jobs", {"command": "true"}, Idempotency_Key="k1")

    assert (first.status, second.status) == (201, 200)
    assert first.body == second.body
    assert len(caller.list()["items"]) == 1


def test_keys_of_different_users_do_not_meet(server: Running) -> None:
    ada, bob = server.as_user("ada"), server.as_user("bob")

    first = ada.post("/jobs", {"command": "true"}, Idempotency_Key="k")
    second = bob.post("/jobs", {"command": "true"}, Idempotency_Key="k")

    assert first.json["id"] != second.json["id"]


def test_a_repeated_key_of_an_ended_job_still_finds_it(
    caller: Caller, agent: PretendedAgent
) -> None:
    first = caller.post("/jobs", {"command": "true"}, Idempotency_Key="k")
    agent.report_end(agent.launched(1))
    caller.until(1, "completed")

    second = caller.post("/jobs", {"command": "true"}, Idempotency_Key="k")

    assert second.status == 200
    assert second.body == first.body


def test_a_batch_gives_one_id_per_entry(caller: Caller) -> None:
    answer = caller.post(
        "/jobs:batch",
        {"jobs": [{"command": "true"}, {"command": "true", "array": "0-9"}, {"command": "true"}]},
    )

    assert answer.status == 201
    assert answer.json == {"ids": [1, 2, 13]}


def test_a_batch_with_one_bad_entry_changes_nothing(caller: Caller) -> None:
    good, bad = {"command": "true"}, {"command": "true", "resources": {"cpus": -1}}

    answer = caller.post("/jobs:batch", {"jobs": [good, good, good, bad]})

    assert answer.status == 400
    assert answer.json["field"] == "jobs[3].resources.cpus"
    assert caller.list()["items"] == []


def test_an_entry_that_the_controller_refuses_is_named_too(caller: Caller) -> None:
    jobs = [{"command": "true"}, {"command": "true", "queue": "nowhere"}]

    answer = caller.post("/jobs:batch", {"jobs": jobs})

    assert answer.json["field"] == "jobs[1].queue"
    assert caller.list()["items"] == []


def test_a_batch_can_be_repeated_under_its_key(caller: Caller) -> None:
    body = {"jobs": [{"command": "true"}, {"command": "true"}]}

    first = caller.post("/jobs:batch", body, Idempotency_Key="b")
    second = caller.post("/jobs:batch", body, Idempotency_Key="b")

    assert (first.status, second.status) == (201, 200)
    assert first.json == second.json


def test_a_shell_line_of_two_megabytes_becomes_a_script(
    caller: Caller, agent: PretendedAgent
) -> None:
    line = "echo " + "x" * 2_000_000

    job_id = caller.submit(line)

    launch = agent.wanted[agent.launched(job_id)].launch
    assert launch is not None
    assert launch.script == f"#!/bin/sh\n{line}\n".encode()


def test_environment_and_script_reach_the_node_as_they_were_submitted(
    caller: Caller, agent: PretendedAgent
) -> None:
    script = "#!/bin/sh\n# ä\nexit 3 # no newline at the end"

    answer = caller.post(
        "/jobs",
        {"script": script, "script_args": ["a b"], "env": {"A": "1"}, "variables": {"B": "2"}},
    )

    launch = agent.wanted[agent.launched(answer.json["id"])].launch
    assert launch is not None
    assert launch.script == script.encode()
    assert launch.argv == ("a b",)
    assert launch.environment["A"] == "1"
    assert launch.environment["B"] == "2"


def test_the_submitter_is_who_asks_whatever_the_body_says(server: Running) -> None:
    answer = server.as_user("ada").post("/jobs", {"command": "true", "user": "bob"})

    assert answer.status == 400
    assert answer.json["field"] == "user"


def test_a_sweep_fills_its_values_in(caller: Caller) -> None:
    job_id = caller.submit(
        ["train", "--lr={lr}"],
        name="lr {lr}",
        parameters={"names": ["lr"], "rows": [["0.1"], [0.01]]},
    )

    element = caller.job(f"{job_id}_1")

    assert element["name"] == "lr 0.01"
    assert element["command"] == ["train", "--lr=0.01"]
    assert element["parameters"] == {"lr": "0.01"}


def test_a_full_disk_is_told_as_unavailable_and_nothing_is_kept(
    server: Running, caller: Caller
) -> None:
    server.disk.fault = DiskFault.FULL

    answer = caller.post("/jobs", {"command": "true"})

    server.disk.fault = None
    assert answer.status == 503
    assert answer.headers["Retry-After"]
    assert caller.list()["items"] == []
    assert caller.submit() == 1


def test_a_full_inbox_is_told_as_busy_and_takes_nothing(socket_folder: Path) -> None:
    with running(socket_folder, inbox_size=2) as server, ThreadPoolExecutor(4) as pool:
        caller = server.local()
        caller.get("/status")
        _until(lambda: server.host.meters.ticks > 0)
        server.store.may_commit.clear()
        ticks = server.host.meters.ticks
        waiting = [pool.submit(server.local().post, "/jobs", {"command": "true"})]
        # The first one's commit must hang before the others come, or they share its tick.
        _until(lambda: server.host.meters.ticks > ticks)
        waiting += [pool.submit(server.local().post, "/jobs", {"command": "true"}) for _ in "ab"]
        _until(lambda: server.host.waiting == 2)

        answer = caller.post("/jobs", {"command": "true"})

        server.store.may_commit.set()
        taken = [each.result().status for each in waiting]
        listed = caller.list()["items"]
    assert answer.status == 429
    assert answer.json["code"] == "busy"
    assert float(answer.headers["Retry-After"]) > 0
    assert taken == [201, 201, 201]
    assert len(listed) == 3


def _until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


def test_a_body_that_is_too_large_is_refused_before_it_is_read(caller: Caller) -> None:
    caller.connection.putrequest("POST", "/api/v1/jobs")
    caller.connection.putheader("Content-Length", str(33 * 1024 * 1024))
    caller.connection.endheaders()

    response = caller.connection.getresponse()

    assert response.status == 413
    assert json.loads(response.read())["code"] == "too_large"
