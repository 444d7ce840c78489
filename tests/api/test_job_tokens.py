"""What a job may do with the token of its own, and what it may not."""

from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.api.pretended import PretendedAgent
from tests.api.running import WAIT_S, Caller, Running


@pytest.fixture
def ann(server: Running) -> Caller:
    return server.as_user("ann")


@pytest.fixture
def job(ann: Caller, agent: PretendedAgent) -> int:
    made = ann.submit("train")
    agent.report_start(agent.launched(made))
    ann.until(made, "running")
    return made


@pytest.fixture
def inside(server: Running, agent: PretendedAgent, job: int) -> Caller:
    """The job itself, on a node that only the network leads to."""
    return server.network(token_of(agent, job))


def token_of(agent: PretendedAgent, job: int) -> str:
    launch = agent.wanted[agent.launched(job)].launch
    assert launch is not None
    return launch.token


def test_a_job_is_known_by_its_token_as_its_user(inside: Caller):
    status = inside.get("/status").json

    assert (status["user"], status["access"]) == ("ann", "user")


def test_a_job_reports_its_checkpoint_and_where_it_can_be_reached(inside: Caller, job: int):
    saved = inside.post(f"/jobs/{job}/checkpoint", {"data": ["epoch-1"]})
    told = inside.post(f"/jobs/{job}/endpoints", {"name": "web", "address": "far:80"})

    assert (saved.status, told.status) == (200, 200)
    assert inside.get("/endpoints?name=web").json["items"][0]["job"] == job


def test_a_job_submits_jobs_as_its_user_and_may_change_those(inside: Caller, ann: Caller, job: int):
    child = inside.submit("step", labels={"parent": "999", "kind": "step"})
    family = inside.submit("sweep", array="0-3")
    shown = ann.job(child)

    assert (shown["user"], shown["labels"]) == ("ann", {"parent": str(job), "kind": "step"})
    assert inside.patch(f"/jobs/{child}", {"priority": 40}).status == 200
    assert inside.delete(f"/jobs/{child}").status == 202
    assert inside.delete(f"/jobs/{family}").status == 202
    assert inside.get(f"/jobs/{child}/logs").status == 200


def test_a_job_changes_no_other_job_of_its_user_and_reads_none_of_their_logs(
    inside: Caller, ann: Caller, job: int
):
    other = ann.submit("other", hold=True)
    array = ann.submit("other", array="0-3", hold=True)

    refused = inside.patch(f"/jobs/{other}", {"priority": 10})
    cancelled = inside.delete(f"/jobs/{other}")
    by_list = inside.post("/jobs:cancel", {"ids": [other, array, array + 1]}).json
    everything = inside.post("/jobs:hold", {"all": True})

    assert refused.status == cancelled.status == 403
    assert refused.json["detail"] == f"job {other} belongs to ann; job {job} may not change it"
    assert cancelled.json["detail"] == (
        f"job {job} may change itself and jobs that it submitted, not job {other}"
    )
    assert len(by_list["refused"]) == 3
    assert everything.status in (200, 403)
    assert ann.job(other)["state"] == ann.job(array + 1)["state"] == "held"
    assert inside.get(f"/jobs/{other}/logs").status == 403
    assert inside.get(f"/jobs/{other}/result").status == 403
    assert inside.get(f"/jobs/{other}/request").status == 403


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/tokens", {"user": "ann"}),
        ("GET", "/tokens", None),
        ("POST", "/jobs/scheduler/trigger", None),
        ("POST", "/nodes/box:drain", None),
        ("POST", "/reservations", {"user": "ann", "gpus": 1, "duration_s": 60}),
        ("PATCH", "/users/ann", {"shares": 100}),
    ],
)
def test_a_job_has_no_rights_beyond_jobs(inside: Caller, method: str, path: str, body: Any):
    answer = inside.call(method, path, body)

    assert answer.status == 403, answer.body


def test_a_job_cannot_attach_to_terminals_not_even_its_own(
    server: Running, agent: PretendedAgent, job: int
):
    headers = {"Authorization": f"Bearer {token_of(agent, job)}"}
    for visit in ("attach", "forward?port=80"):
        url = f"ws://127.0.0.1:{server.port}/api/v1/jobs/{job}/{visit}"
        with connect(url, additional_headers=headers, compression=None, proxy=None) as wire:
            with pytest.raises(ConnectionClosed):
                wire.recv(WAIT_S)
            assert wire.close_code == 1008


def test_the_token_ends_with_the_attempt_and_the_next_one_has_another(
    server: Running, agent: PretendedAgent
):
    ann = server.as_user("ann")
    job = ann.submit("train", retries=1, backoff_s=0)
    first_uid = agent.launched(job)
    first = server.network(token_of(agent, job))
    agent.report_start(first_uid)
    ann.until(job, "running")
    before = first.get("/status").status

    agent.report_end(first_uid, code=1)
    with agent._changed:
        assert agent._changed.wait_for(lambda: set(agent.wanted) - {first_uid}, WAIT_S)
        second_uid = next(iter(set(agent.wanted) - {first_uid}))
        launch = agent.wanted[second_uid].launch
    after = first.get("/status")

    assert (before, after.status) == (200, 401)
    assert "has ended" in after.json["detail"]
    assert launch is not None
    assert server.network(launch.token).get("/status").status == 200


def test_the_secret_is_in_no_answer_and_in_no_event(
    inside: Caller, agent: PretendedAgent, job: int
):
    token = token_of(agent, job).encode()

    for path in (f"/jobs/{job}", f"/jobs/{job}/events", f"/jobs/{job}/attempts", "/tokens"):
        assert token not in inside.get(path).body
