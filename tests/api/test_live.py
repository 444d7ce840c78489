"""News as it happens: server-sent events, and waiting for jobs to end."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.api.door import server as server_module
from tests.api.pretended import PretendedAgent
from tests.api.running import WAIT_S, Caller, Running, running


def open_events(server: Running, query: str = "") -> http.client.HTTPResponse:
    response = server.stream(f"/events?{query}")
    assert response.status == 200
    assert response.headers["Content-Type"].startswith("text/event-stream")
    assert response.readline() == b": rota\n"
    return response


def events(response: http.client.HTTPResponse) -> Iterator[dict]:
    """Decoded events until the stream ends."""
    name = number = b""
    for line in response:
        if line.startswith(b"id: "):
            number = line[4:].strip()
        elif line.startswith(b"event: "):
            name = line[7:].strip()
        elif line.startswith(b"data: "):
            event = json.loads(line[6:])
            assert event["kind"] == name.decode()
            assert event["seq"] == int(number)
            yield event


def test_events_arrive_as_they_are_committed(server: Running, caller: Caller) -> None:
    stream = events(open_events(server))

    caller.submit()

    event = next(stream)
    assert (event["kind"], event["job"]) == ("job-submitted", 1)
    assert "spec" not in event["detail"]


def test_a_number_that_no_event_can_have_is_refused_in_one_line(caller: Caller) -> None:
    answer = caller.get(f"/events?after={2**70}")

    assert answer.status == 400
    assert "after" in answer.json["detail"]


def test_a_late_reader_catches_up_and_goes_on_without_gap(server: Running, caller: Caller) -> None:
    for _ in range(3):
        caller.submit()

    stream = events(open_events(server, "after=1"))
    seen = [next(stream) for _ in range(2)]
    caller.submit()
    seen.append(next(stream))

    assert [event["seq"] for event in seen] == [2, 3, 4]


def test_events_can_be_limited_to_one_job(server: Running, caller: Caller) -> None:
    caller.submit()
    stream = events(open_events(server, "after=0&job=1"))
    caller.submit()
    caller.delete("/jobs/1")

    assert [next(stream)["kind"] for _ in range(2)] == ["job-submitted", "job-settled"]


def test_tokens_are_news_for_admins_only(server: Running) -> None:
    ada = server.as_user("ada")
    ada.submit()

    first = next(events(server.stream("/events?after=0", ada.token)))

    assert first["kind"] == "job-submitted"


def test_streams_end_cleanly_when_the_server_stops(
    socket_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # They are to end by themselves, long before they would be cut off.
    monkeypatch.setattr(server_module, "GRACE_S", 2 * WAIT_S)
    with running(socket_folder) as server:
        _check_that_streams_end(server)


def _check_that_streams_end(server: Running) -> None:
    server.local().submit()
    response = open_events(server)
    waiting, following = server.local().connection, server.local().connection
    waiting.request("GET", "/api/v1/jobs/wait?ids=1&timeout_s=60")
    following.request("GET", "/api/v1/jobs/1/logs?follow=1")
    _until_waiting(server, 2)

    server.begin_stop()

    assert list(events(response)) == []
    assert json.loads(waiting.getresponse().read()) == {"done": [], "pending": [1]}
    assert following.getresponse().read() == b""


def _until_waiting(server: Running, count: int = 1) -> None:
    """Until so many callers wait for job 1."""
    deadline_s = time.monotonic() + WAIT_S
    while len(found := server.host.watch._waiters.get(1, ())) < count:
        assert time.monotonic() < deadline_s, f"{len(found)} of {count} wait"
        time.sleep(0.001)


def test_waiting_ends_with_the_job(server: Running, agent: PretendedAgent) -> None:
    caller = server.local()
    caller.submit()
    uid = agent.launched(1)
    found: list[dict] = []
    thread = threading.Thread(
        target=lambda: found.append(server.local().get("/jobs/wait?ids=1&timeout_s=30").json)
    )
    thread.start()
    _until_waiting(server)

    agent.report_end(uid, code=3)
    thread.join(WAIT_S)

    assert found == [{"done": [{"id": 1, "state": "failed", "exit_code": 3}], "pending": []}]


def test_waiting_gives_up_in_time_and_names_what_is_pending(caller: Caller) -> None:
    caller.submit()
    caller.submit()
    caller.delete("/jobs/1")

    answer = caller.get("/jobs/wait?ids=1,2&timeout_s=0.01").json

    assert answer["pending"] == [2]
    assert answer["done"][0]["state"] == "cancelled"


def test_waiting_for_an_array_waits_for_its_last_element(
    server: Running, agent: PretendedAgent
) -> None:
    caller = server.local()
    caller.submit(array="0-1")
    uids = [agent.launched(2), agent.launched(3)]
    found: list[dict] = []
    thread = threading.Thread(
        target=lambda: found.append(server.local().get("/jobs/wait?ids=1&timeout_s=30").json)
    )
    thread.start()
    agent.report_end(uids[0])
    caller.until(2, "completed")
    assert thread.is_alive()

    agent.report_end(uids[1])
    thread.join(WAIT_S)

    assert found[0]["done"][0]["state"] == "completed"


def test_waiting_for_a_job_that_never_was_is_not_found(caller: Caller) -> None:
    assert caller.get("/jobs/wait?ids=99").status == 404
