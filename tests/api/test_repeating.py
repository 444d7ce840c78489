"""What is made once, however often it is asked for."""

import asyncio
import time

import pytest

from rota.store.memory import MemoryDisk
from tests.api.running import WAIT_S, Caller, Running

#: Where something is made, and two requests for it.
CREATES = {
    "/queues": ({"name": "night"}, {"name": "day"}),
    "/vdcs": (
        {"name": "a", "clusters": [{"name": "local"}]},
        {"name": "b", "clusters": [{"name": "local"}]},
    ),
    "/reservations": (
        {"nodes": ["box"], "user": "ann", "duration_s": 60},
        {"nodes": ["box"], "user": "ann", "duration_s": 61},
    ),
    "/allocations": ({"resources": {"cpus": 1}}, {"resources": {"cpus": 2}}),
    "/tokens": ({"user": "ann"}, {"user": "ben"}),
    "/slurm/sbatch": ({"script": "#!/bin/sh\n"}, {"script": "#!/bin/sh\ntrue\n"}),
    "/jobs": ({"command": "true"}, {"command": "false"}),
    "/jobs:batch": ({"jobs": [{"command": "true"}]}, {"jobs": []}),
}

pytestmark = pytest.mark.usefixtures("agent")


@pytest.mark.parametrize("path", CREATES)
def test_a_repeat_gets_the_first_answer_and_another_request_is_refused(
    caller: Caller, path: str
) -> None:
    body, other = CREATES[path]

    first = caller.post(path, body, Idempotency_Key="k")
    again = caller.post(path, body, Idempotency_Key="k")
    another = caller.post(path, other, Idempotency_Key="k")

    assert (first.status, again.status) == (201, 200), (first.body, again.body)
    assert again.json == first.json
    assert again.headers["location"] == first.headers["location"]
    if path != "/jobs:batch":
        assert (another.status, another.json["code"]) == (422, "key_reused")


@pytest.mark.parametrize("path", [p for p in CREATES if not p.startswith(("/jobs", "/tokens"))])
def test_a_repeat_after_a_restart_gets_the_first_answer(
    server: Running, caller: Caller, path: str
) -> None:
    body, other = CREATES[path]
    first = caller.post(path, body, Idempotency_Key="k")

    server.restart()
    again = server.local().post(path, body, Idempotency_Key="k")
    another = server.local().post(path, other, Idempotency_Key="k")

    assert (again.status, again.json, another.status) == (200, first.json, 422)


def test_the_secret_of_a_token_is_on_no_disk(server: Running, caller: Caller) -> None:
    owner = _own(caller)
    first = caller.post("/tokens", {"user": "ann"}, Idempotency_Key="k").json

    server.restart()
    again = server.local().post("/tokens", {"user": "ann"}, Idempotency_Key="k")

    assert again.status == 409
    assert "shown once" in again.json["detail"]
    kept = asyncio.run_coroutine_threadsafe(
        server.host.read(lambda store: store.answer(f"{owner}\x1fk")), server.loop
    ).result(WAIT_S)
    assert first["token"].encode() not in kept


def _own(caller: Caller) -> str:
    return caller.get("/status").json["user"]


def test_a_refused_request_leaves_its_key_free(caller: Caller) -> None:
    refused = caller.post("/queues", {"name": "default"}, Idempotency_Key="k")

    made = caller.post("/queues", {"name": "night"}, Idempotency_Key="k")

    assert (refused.status, made.status) == (409, 201)


def test_a_request_that_rota_died_over_is_not_done_again(server: Running, caller: Caller) -> None:
    owner = _own(caller)
    server.store.may_commit.clear()
    lost = server.local()
    lost.connection.request(
        "POST", "/api/v1/queues", b'{"name": "night"}', {"Idempotency-Key": "k"}
    )
    deadline_s = time.monotonic() + WAIT_S
    while server.store.answer(f"{owner}\x1fk") is None:
        assert time.monotonic() < deadline_s
    as_it_died = MemoryDisk(faulty=True)
    as_it_died.log = bytearray(server.disk.log)
    server.store.may_commit.set()

    server.restart(as_it_died)
    again = server.local().post("/queues", {"name": "night"}, Idempotency_Key="k")

    assert again.status == 409
    assert "look whether it was done" in again.json["detail"]


def test_a_new_thing_says_where_it_is(caller: Caller) -> None:
    made = caller.post("/queues", {"name": "night"})

    assert caller.get(made.headers["location"]).json["name"] == "night"


def test_keys_are_of_one_user(server: Running, caller: Caller) -> None:
    others = server.as_user("ben", "operator")

    first = caller.post("/queues", {"name": "night"}, Idempotency_Key="k")
    second = others.post("/queues", {"name": "day"}, Idempotency_Key="k")

    assert (first.status, second.status) == (201, 201)


def test_two_at_once_make_one(server: Running) -> None:
    callers = [server.local() for _ in range(4)]
    for one in callers:
        one.connection.request(
            "POST", "/api/v1/tokens", b'{"user": "ann"}', {"Idempotency-Key": "k"}
        )

    answers = [one.connection.getresponse() for one in callers]

    assert sorted(answer.status for answer in answers) == [200, 200, 200, 201]
    assert len({answer.read() for answer in answers}) == 1


@pytest.mark.parametrize("key", ["x" * 201, "a\xadb"])
def test_a_key_that_cannot_be_kept_is_refused(caller: Caller, key: str) -> None:
    answer = caller.post("/queues", {"name": "night"}, Idempotency_Key=key)

    assert (answer.status, answer.json["field"]) == (400, "Idempotency-Key")
