"""Ports by name: which names are taken, and that they become endpoints when the task starts."""

import pytest

from rota.core.facts.health import Health
from tests.api.pretended import PretendedAgent
from tests.api.running import Caller


def test_named_ports_become_endpoints_when_the_task_has_started_and_go_with_it(
    caller: Caller, agent: PretendedAgent
):
    job = caller.submit("serve", ports=["web", "metrics"])
    other = caller.submit("serve", ports=["web"])
    uid, second = agent.launched(job), agent.launched(other)
    launch = agent.wanted[uid].launch

    agent.report_start(uid, web=30_001, metrics=30_002, unasked=1)
    agent.report_start(second, web=99_999_999)
    caller.until(job, "running")
    caller.until(other, "running")
    of_job = caller.get(f"/endpoints?job={job}").json["items"]
    named = caller.get("/endpoints?name=web").json["items"]
    agent.report_end(uid)
    caller.until(job, "completed")

    assert launch is not None
    assert launch.ports == ("web", "metrics")
    assert [(one["id"], one["address"].rpartition(":")[2]) for one in of_job] == [
        (f"{job}.0.metrics", "30002"),
        (f"{job}.0.web", "30001"),
    ]
    assert [one["job"] for one in named] == [job]
    assert caller.get("/endpoints").json["items"] == []
    assert caller.job(job)["ports"] == ["web", "metrics"]


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["9p"], "beginning with a letter"),
        (["a b"], "letters, digits"),
        (["web", "WEB"], "each name once"),
        (["x" * 41], "at most 40 characters"),
        ([f"p{n}" for n in range(17)], "at most 16 names"),
        ([""], "letters, digits"),
    ],
)
def test_a_name_that_cannot_be_a_variable_is_refused(
    caller: Caller, names: list[str], problem: str
):
    answer = caller.post("/jobs", {"command": "true", "ports": names})

    assert answer.status == 400
    assert answer.json["field"] == "ports"
    assert problem in answer.json["detail"]


HEALTH = {"port": "web", "path": "/healthz", "every_s": 5.0, "failures": 2, "delay_s": 30.0}


def test_a_job_may_name_the_port_that_it_must_answer_at(caller: Caller, agent: PretendedAgent):
    job = caller.submit("serve", ports=["web"], health=HEALTH)
    launch = agent.wanted[agent.launched(job)].launch

    again = caller.get(f"/jobs/{job}/request").json

    assert launch is not None
    assert launch.health == Health("web", "/healthz", 5, 2, 30)
    assert again["health"] == HEALTH
    assert caller.job(job)["health"] == HEALTH
    assert caller.job(caller.submit())["health"] is None


def test_a_job_that_is_found_unwell_has_failed_and_may_be_tried_again(
    caller: Caller, agent: PretendedAgent
):
    words = {"ports": ["web"], "health": {"port": "web"}, "retry_on": ["unhealthy"]}
    job = caller.submit("serve", retries=1, backoff_s=0, **words)
    for attempt in (".1", ".2"):
        agent.report_unhealthy(agent.launched(job, attempt), "port web did not answer")

    ended = caller.until(job, "failed")

    assert ended["cause"] == "unhealthy: port web did not answer"
    assert len(ended["attempts"]) == 2
    assert caller.get(f"/jobs/{job}/metrics").json["fault"] == "program"


@pytest.mark.parametrize(
    ("health", "field", "problem"),
    [
        ({"port": "grpc"}, "health.port", "one of the job's ports: web"),
        ({"port": "web", "path": "healthz"}, "health.path", "a path such as /healthz"),
        ({"port": "web", "path": "/a b"}, "health.path", "a path such as /healthz"),
        ({"port": "web", "every_s": 0}, "health.every_s", "0.1"),
        ({"port": "web", "failures": 0}, "health.failures", "1"),
        ({"port": "web", "command": "true"}, "health.command", ""),
        ({}, "health.port", ""),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused(
    caller: Caller, health: dict, field: str, problem: str
):
    answer = caller.post("/jobs", {"command": "true", "ports": ["web"], "health": health})

    assert (answer.status, answer.json["field"]) == (400, field)
    assert problem in answer.json["detail"]
