"""Deadlines that are promised: asked for, told and counted at every door."""

import time
from typing import Any

from rota.cli.jobs.plan import plan_lines
from rota.cli.jobs.show import claim_pairs
from rota.cli.shared.foretold import promise_line
from tests.api.pretended import PretendedAgent
from tests.api.running import Caller

JOB = {"command": "true", "resources": {"cpus": 4}, "time_limit_s": 1800}


def by(hours: float) -> dict[str, Any]:
    return {**JOB, "deadline_at": time.time() + 3600 * hours, "promise": True}


def hold_the_node(caller: Caller, agent: PretendedAgent) -> str:
    caller.submit(resources={"cpus": 4}, time_limit_s=3600)
    first = agent.launched(1)
    agent.report_start(first)
    caller.until(1, "running")
    return first


def test_a_yes_is_told_at_submit_shown_with_the_job_and_listed_as_a_reservation(
    caller: Caller, agent: PretendedAgent
) -> None:
    hold_the_node(caller, agent)

    said = caller.post("/jobs", by(3)).json
    job = caller.get(f"/jobs/{said['id']}").json
    (kept,) = caller.get("/reservations").json["items"]

    assert said["promise"]["answer"] == "yes"
    assert promise_line(said["promise"]).startswith("promised: done by")
    assert job["promise"] == "open"
    assert ", promised" in dict(claim_pairs(job))["deadline"]  # type: ignore[operator]
    assert (kept["kind"], kept["job_id"], kept["nodes"]) == ("promise", said["id"], ["box"])


def test_a_no_refuses_the_job_and_names_what_can_be_promised(
    caller: Caller, agent: PretendedAgent
) -> None:
    hold_the_node(caller, agent)

    refused = caller.post("/jobs", by(0.75))

    assert refused.status == 409
    assert refused.json["field"] == "deadline_at"
    assert "can be promised" in refused.json["detail"]


def test_a_plan_answers_without_a_submit(caller: Caller, agent: PretendedAgent) -> None:
    hold_the_node(caller, agent)

    yes, no = (caller.post("/plan", by(hours)).json for hours in (3, 0.75))

    assert yes["promise"]["answer"] == "yes"
    assert no["promise"]["answer"] == "no"
    assert any(line.startswith("  promised: done by") for line in plan_lines(yes))
    assert any("not promised: " in line for line in plan_lines(no))
    assert caller.get("/reservations").json["items"] == []


def test_a_chance_comes_from_what_became_of_earlier_words(
    caller: Caller, agent: PretendedAgent
) -> None:
    hold_the_node(caller, agent)
    caller.submit(resources={"cpus": 4}, estimate_s=60, priority=75)

    said = caller.post("/jobs", by(9)).json
    job = caller.get(f"/jobs/{said['id']}").json

    assert said["promise"]["answer"] == "chance"
    assert 50 <= said["promise"]["percent"] < 100
    assert promise_line(said["promise"]).endswith(f"with {said['promise']['percent']} %")
    assert job["promise"] == ""


def test_a_kept_promise_is_counted_in_stats_and_metrics(
    caller: Caller, agent: PretendedAgent
) -> None:
    said = caller.post("/jobs", by(3)).json
    uid = agent.launched(said["id"])
    agent.report_start(uid)
    agent.report_end(uid)
    caller.until(said["id"], "completed")

    total = caller.get("/stats").json["total"]
    metrics = caller.get("/metrics").body.decode()

    assert (total["promises_kept"], total["promises_broken"]) == (1, 0)
    assert 'rota_promises_total{outcome="kept"} 1.0' in metrics


def test_a_promise_without_a_limit_is_refused_by_its_field(caller: Caller) -> None:
    refused = caller.post("/jobs", {**by(3), "time_limit_s": 0})

    assert refused.status == 400
    assert refused.json["field"] == "time_limit_s"
    assert refused.json["detail"] == "time_limit_s: a promise needs a time limit"
