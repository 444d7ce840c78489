"""Ports by name: which names are taken, and that they become endpoints when the task starts."""

import pytest

from tests.api.running import Caller, PretendedAgent


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
