"""POST /policy:replay: the past under other rules, in a process of its own."""

import sys
from pathlib import Path

import pytest

from rota.core.facts.policy import DEFAULT
from tests.api.pretended import PretendedAgent
from tests.api.running import Caller, Running


def test_the_jobs_of_the_period_are_played_under_both_policies(
    caller: Caller, agent: PretendedAgent
) -> None:
    first = caller.submit(project="vision")
    agent.report_start(agent.launched(first))
    agent.report_end(agent.launched(first))
    caller.until(first, "completed")

    found = caller.post("/policy:replay", {"policy": "sjf", "last_s": 3600})

    assert found.status == 200, found.body
    assert (found.json["name"], found.json["jobs"], found.json["unit"]) == ("sjf", 1, "processors")
    assert [row["name"] for row in found.json["projects"]] == ["vision"]
    assert found.json["notes"]
    assert caller.get("/policy").json["changed"] == {}


def test_a_period_without_jobs_leaves_nothing_to_replay(caller: Caller) -> None:
    found = caller.post("/policy:replay", {"policy": "sjf"})

    assert (found.status, found.json["detail"]) == (
        409,
        "no job was submitted in this period, so there is nothing to replay",
    )


def test_rules_and_limits_are_checked_before_anything_is_played(caller: Caller) -> None:
    for body, words in (
        ({"policy": "sjff"}, "did you mean sjf?"),
        ({"policy": "sjf", "jobs": 0}, "jobs"),
        ({"policy": "sjf", "last_s": 1}, "last_s"),
        ({"policy": "sjf", "days": 3}, "days"),
        ({"policy": "sjf", "patience_s": 241}, "patience_s"),
    ):
        found = caller.post("/policy:replay", body)
        assert found.status == 400
        assert words in found.json["detail"]


def test_what_others_waited_is_for_operators(server: Running) -> None:
    body = {"policy": "sjf"}

    assert server.as_user("ada").post("/policy:replay", body).status == 403
    assert server.as_user("olga", "operator").post("/policy:replay", body).status == 409
    assert server.host.cluster.policy is DEFAULT


def test_a_replay_that_takes_too_long_is_given_up_in_a_line(
    caller: Caller, agent: PretendedAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = caller.submit()
    agent.report_start(agent.launched(job))
    agent.report_end(agent.launched(job))
    caller.until(job, "completed")
    endless = tmp_path / "python"
    endless.write_text("#!/bin/sh\nexec sleep 600\n")
    endless.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(endless))

    found = caller.post("/policy:replay", {"policy": "sjf", "patience_s": 1})

    assert (found.status, found.json["detail"]) == (
        409,
        "the replay is not done after 1 s: ask for fewer jobs, a shorter period, or more"
        " patience_s",
    )
