"""Where a job may run and how firm its claim is: asked for, shown, changed, refused."""

from typing import Any

import pytest

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller

WISHES = {
    "nodes": 2,
    "node_list": ["box", "crate"],
    "exclude": ["shed"],
    "constraints": ["rack=a|b", "gpu_mem>40", "!slow", "ssd?5"],
    "tolerate": ["team=vision", "*"],
    "near": ["app=web@rack"],
    "apart": ["app=db?3"],
    "topology": "rack",
    "exclusive": True,
    "data": ["imagenet"],
    "cluster": "",
    "engine": "",
    "vdc": "",
}
CLAIM = {
    "qos": "best-effort",
    "estimate_s": 600,
    "preemptible": True,
    "preempt_mode": "checkpoint",
    "preempt_retries": 7,
    "checkpoint_signal": "USR1",
    "restart_cost_s": 120,
    "type": "training",
}


def test_every_wish_is_shown_in_the_words_it_was_asked_in(caller: Caller) -> None:
    job_id = caller.submit(
        tasks=4, min_tasks=2, deadline_at="2096-01-01T00:00:00Z", **WISHES | CLAIM
    )

    job = caller.job(job_id)

    assert job["placement"] == WISHES
    assert {key: job[key] for key in CLAIM} == CLAIM
    assert (job["tasks"], job["min_tasks"]) == (4, 2)
    assert job["deadline_at"] == "2096-01-01T00:00:00Z"


def test_the_request_of_a_job_makes_the_same_job_again(caller: Caller) -> None:
    first = caller.submit(tasks=4, resources={"gpus": 0.5}, **WISHES | CLAIM)

    again = caller.post("/jobs", caller.get(f"/jobs/{first}/request").json)

    twin = caller.job(again.json["id"])
    assert twin["placement"] == caller.job(first)["placement"]
    assert {key: twin[key] for key in CLAIM} == CLAIM
    assert twin["resources"]["gpus"] == 0.5


def test_a_patch_replaces_what_it_names_and_leaves_the_rest(caller: Caller) -> None:
    job_id = caller.submit(tasks=4, hold=True, **WISHES | CLAIM)

    changed = caller.patch(
        f"/jobs/{job_id}",
        {"constraints": [], "near": ["app=cache"], "tasks": 6, "min_tasks": 3, "qos": "guaranteed"},
    )

    assert changed.status == 200, changed.body
    job = changed.json
    assert job["placement"] == WISHES | {"constraints": [], "near": ["app=cache"]}
    assert (job["tasks"], job["min_tasks"], job["qos"]) == (6, 3, "guaranteed")
    assert job["type"] == "training"


def test_a_share_of_a_gpu_is_shared_and_ends_with_whole_ones(caller: Caller) -> None:
    job_id = caller.submit(resources={"gpus": 0.25}, hold=True)

    asked = caller.job(job_id)["resources"]
    whole = caller.patch(f"/jobs/{job_id}", {"resources": {"gpus": 2}}).json["resources"]

    assert (asked["gpus"], asked["shared"], asked["device"]) == (0.25, True, "gpu")
    assert (whole["gpus"], whole["shared"]) == (2, False)


def test_nodes_without_tasks_mean_one_task_on_each(caller: Caller) -> None:
    job_id = caller.submit(nodes=3)

    job = caller.job(job_id)

    assert (job["tasks"], job["placement"]["nodes"]) == (3, 3)


@pytest.mark.parametrize(
    ("name", "number"),
    [("critical", 100), ("urgent", 80), ("high", 75), ("low", 25), ("batch", 10), ("scavenger", 0)],
)
def test_a_band_is_a_priority(caller: Caller, name: str, number: int) -> None:
    assert caller.job(caller.submit(priority=name))["priority"] == number


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"constraints": ["a b"]}, "constraints", "expected ssd, !ssd, rack=a"),
        ({"constraints": ["mem>lots"]}, "constraints", "compares with a number"),
        ({"constraints": ["ssd?1000"]}, "constraints", "1 to 100"),
        ({"tolerate": ["a=b=c"]}, "tolerate", "KEY=VALUE"),
        ({"near": ["=x"]}, "near", "a label of jobs"),
        ({"topology": "a rack"}, "topology", "the name of a label"),
        ({"node_list": ["a"], "exclude": ["a"]}, "exclude", "node_list as well"),
        ({"qos": "gold"}, "qos", "guaranteed, burstable, best-effort"),
        ({"preempt_mode": "kill"}, "preempt_mode", "requeue, checkpoint, suspend, cancel"),
        ({"checkpoint_signal": "KILL"}, "checkpoint_signal", "USR1"),
        ({"type": "game"}, "type", "training, inference, workflow"),
        ({"deadline_at": "2001-01-01T00:00:00Z"}, "deadline_at", "is in the past"),
        ({"deadline_at": "soon"}, "deadline_at", "2026-11-15T18:00:00Z"),
        ({"tasks": 2, "min_tasks": 3}, "min_tasks", "3 is more than tasks (2)"),
        ({"resources": {"gpus": 1.5}}, "resources.gpus", "0.001 to 0.999"),
        ({"priority": "top"}, "priority", "critical (100)"),
    ],
)
def test_a_bad_wish_is_one_line_with_field_value_and_what_is_allowed(
    caller: Caller, fields: dict[str, Any], field: str, words: str
) -> None:
    answer = caller.post("/jobs", {"command": "true", **fields})

    assert answer.status == 400
    assert answer.json["field"] == field
    assert words in answer.json["detail"]
    assert "\n" not in answer.json["detail"]


def test_a_node_that_does_not_exist_cannot_be_asked_for(
    caller: Caller, agent: PretendedAgent
) -> None:
    answer = caller.post("/jobs", {"command": "true", "node_list": ["bix"]})

    assert answer.status == 400
    assert answer.json["detail"] == "node_list: there is no node 'bix'; known nodes: box"


def test_of_a_running_job_estimate_and_deadline_may_change(
    caller: Caller, agent: PretendedAgent
) -> None:
    job_id = caller.submit()
    agent.launched(job_id)

    changed = caller.patch(f"/jobs/{job_id}", {"estimate_s": 60, "preemptible": True})
    moved = caller.patch(f"/jobs/{job_id}", {"constraints": ["rack=a"]})

    assert (changed.json["estimate_s"], changed.json["preemptible"]) == (60, True)
    assert moved.status == 409


def test_a_stranger_does_not_see_where_a_job_wants_to_run(caller: Caller, server: Any) -> None:
    job_id = caller.submit(near=["secret=plan"])

    assert server.as_user("eve").job(job_id)["placement"] is None


def test_a_running_job_says_that_its_work_is_saved(caller: Caller, agent: PretendedAgent) -> None:
    job_id = caller.submit()
    early = caller.post(f"/jobs/{job_id}/checkpoint", {"saved_at": "2001-01-01T00:00:00Z"})
    agent.report_start(agent.launched(job_id))
    caller.until(job_id, "running")

    said = caller.post(f"/jobs/{job_id}/checkpoint")

    assert early.status in (200, 409)
    assert said.json["saved_at"] == caller.get(f"/jobs/{job_id}/checkpoint").json["saved_at"]
    assert said.json["saved_at"] == caller.job(job_id)["checkpoint_at"]
    ahead = caller.post(f"/jobs/{job_id}/checkpoint", {"saved_at": "2096-01-01T00:00:00Z"})
    assert (ahead.status, ahead.json["field"]) == (400, "saved_at")


def test_only_the_owner_reports_a_checkpoint_and_only_of_a_job_that_runs(
    caller: Caller, server: Any
) -> None:
    waiting = caller.submit(hold=True)
    array = caller.submit(array="0-1", hold=True)

    assert caller.post(f"/jobs/{waiting}/checkpoint").status == 409
    assert caller.post(f"/jobs/{array}/checkpoint").status == 409
    assert server.as_user("eve").post(f"/jobs/{waiting}/checkpoint").status == 403
    assert caller.get(f"/jobs/{waiting}/checkpoint").json["saved_at"] is None
