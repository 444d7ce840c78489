"""What a user hears of what happens, and how far back; what comes before a request is bounded."""

import json
import socket
from collections.abc import Iterator
from http.client import HTTPResponse

import pytest

from rota.api.door import heads
from tests.api.running import WAIT_S, Caller, Running


def events(response: HTTPResponse) -> Iterator[dict]:
    for line in response:
        if line.startswith(b"data:"):
            yield json.loads(line[5:])


def until(stream: Iterator[dict], kind: str, job: int) -> list[dict]:
    """What is heard up to an event, and that event."""
    heard = []
    for event in stream:
        heard.append(event)
        if (event["kind"], event["job"]) == (kind, job):
            return heard
    raise AssertionError(heard)


def test_a_user_hears_of_jobs_of_their_own_and_not_of_others(server: Running) -> None:
    ann, bob = server.as_user("ann"), server.as_user("bob")
    bobs, anns = bob.submit(hold=True), ann.submit(hold=True)
    bob.post("/jobs:cancel", {"ids": [bobs]})
    ann.post("/jobs:cancel", {"ids": [anns]})

    heard = until(events(server.stream("/events?after=0", ann.token)), "job-settled", anns)
    all_heard = until(events(server.stream("/events?after=0")), "job-settled", anns)

    assert {event["job"] for event in heard} - {None} == {anns}
    assert {event["job"] for event in all_heard} - {None} == {anns, bobs}


def test_a_job_that_is_named_is_heard_of_by_anybody(server: Running) -> None:
    job = server.as_user("bob").submit(hold=True)
    ann = server.as_user("ann")

    first = next(events(server.stream(f"/events?after=0&job={job}", ann.token)))

    assert first["job"] == job
    assert "spec" not in first["detail"]


@pytest.mark.parametrize("after", [2**53, 2**70])
def test_a_place_in_the_log_that_no_log_has_is_refused(caller: Caller, after: int) -> None:
    by_query = caller.get(f"/events?after={after}")
    by_header = caller.get("/events", Last_Event_ID=str(after))

    assert (by_query.status, by_query.json["field"]) == (400, "after")
    assert (by_header.status, by_header.json["field"]) == (400, "Last-Event-ID")
    assert str(after) in by_query.json["detail"]


def test_a_user_goes_back_only_so_far_without_naming_a_job(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.api.watch.live.HISTORY_MAX", 3)
    ann = server.as_user("ann")
    job, *_ = [ann.submit(hold=True) for _ in range(6)]

    refused = ann.get("/events?after=0")

    assert (refused.status, refused.json["field"]) == (400, "after")
    assert "or name a job" in refused.json["detail"]
    assert next(events(server.stream("/events?after=0", server.as_user("o", "operator").token)))
    assert next(events(server.stream(f"/events?after=0&job={job}", ann.token)))


def test_headers_without_end_are_cut_off(server: Running) -> None:
    with socket.create_connection(("127.0.0.1", server.port), WAIT_S) as line:
        line.settimeout(WAIT_S)
        line.sendall(b"GET /api/v1/jobs HTTP/1.1\r\nX-Long: ")
        sent = 0
        try:
            while sent < 64 << 20:
                sent += line.send(b"x" * 65_536)
        except OSError:
            pass

    assert sent < 32 << 20


def test_headers_that_do_not_come_are_not_waited_for(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "HEAD_S", 0.2)
    with socket.create_connection(("127.0.0.1", server.port), WAIT_S) as line:
        line.settimeout(WAIT_S)
        line.sendall(b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\n")

        answer = line.recv(1000)

    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_connection_that_is_used_at_leisure_is_not_taken_for_a_slow_one(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "HEAD_S", 0.2)
    ann = server.as_user("ann")

    job = ann.submit(hold=True)

    waited = ann.get(f"/jobs/wait?ids={job}&timeout_s=0.5")

    assert (waited.status, job in waited.json["pending"]) == (200, True)
    assert ann.get("/jobs").status == 200


def test_a_token_makes_none_that_outlives_it(server: Running) -> None:
    made = server.local().post("/tokens", {"user": "ann", "expires_s": 3600}).json
    short = server.network(made["token"])

    refused = short.post("/tokens", {"expires_s": 7200})
    unnamed = short.post("/tokens", {})
    shorter = short.post("/tokens", {"expires_s": 60})

    assert (refused.status, refused.json["field"]) == (400, "expires_s")
    assert "2h is longer than the " in refused.json["detail"]
    assert unnamed.json["expires_at"] == made["expires_at"]
    assert shorter.status == 201


def test_a_token_makes_none_that_may_more(server: Running) -> None:
    ann = server.as_user("ann")

    assert ann.post("/tokens", {"access": "operator"}).status == 403
    assert ann.post("/tokens", {"user": "bob"}).status == 403
    assert ann.post("/tokens", {"access": "viewer"}).status == 201
