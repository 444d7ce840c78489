"""Members, saves and emptied nodes over REST."""

import re
from typing import Any

import pytest

from tests.api.pretended import PretendedAgent
from tests.api.running import Caller

DRIVER = {"name": "driver", "resources": {"cpus": 1}}
WORKERS = {"name": "worker", "count": 2, "min_count": 1, "resources": {"cpus": 0.5}}


def test_a_job_of_several_roles_starts_as_one_and_shows_them(
    caller: Caller, agent: PretendedAgent
) -> None:
    job = caller.submit(roles=[DRIVER, WORKERS])

    agent.launched(job)
    launches = [want.launch for want in agent.wanted.values() if want.launch is not None]
    assert [launch.environment["ROTA_ROLE"] for launch in launches] == [
        *("driver", "worker", "worker")
    ]
    shown = caller.job(job)
    assert shown["tasks"] == 3
    assert [(role["name"], role["count"], role["min_count"]) for role in shown["roles"]] == [
        ("driver", 1, 0),
        ("worker", 2, 1),
    ]
    assert shown["roles"][1]["resources"]["cpus"] == 0.5


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"roles": [DRIVER, DRIVER]}, "roles: .* same name"),
        ({"roles": [DRIVER], "tasks": 2}, "tasks: each role has its own count"),
        ({"roles": [DRIVER], "resources": {"cpus": 2}}, "each role has its own resources"),
        (
            {"roles": [{"name": "a", "count": 2, "min_count": 3}]},
            "roles.min_count: 3 is more than count \\(2\\)",
        ),
        ({"roles": [{"name": ""}]}, "roles.name: .* is not valid"),
        ({"roles": [{"name": "a", "count": 0}]}, "count"),
        ({"roles": [{"name": "a", "cpus": 1}]}, "cpus"),
        ({"roles": [DRIVER], "nodes": 2}, "nodes: roles lie where they fit"),
        ({"save_every_s": 60}, "save_every_s: it needs save_signal"),
        ({"save_signal": "KILL"}, "save_signal: .*KILL.* is not valid; expected a signal"),
        (
            {"save_signal": "USR1", "checkpoint_signal": "USR1"},
            "save_signal: USR1 is checkpoint_signal already",
        ),
    ],
)
def test_members_and_saves_that_cannot_be_are_refused_in_one_line(
    caller: Caller, fields: dict[str, Any], said: str
) -> None:
    answer = caller.post("/jobs", {"command": "true", **fields})

    detail = str(answer.json["detail"])
    assert answer.status == 400
    assert "\n" not in detail
    assert re.search(said, detail), detail


def test_how_a_job_is_asked_to_save_can_be_changed_and_must_stay_whole(caller: Caller) -> None:
    job = caller.submit(checkpoint_signal="USR1")

    early = caller.patch(f"/jobs/{job}", {"save_every_s": 60})
    same = caller.patch(f"/jobs/{job}", {"save_signal": "usr1"})
    changed = caller.patch(f"/jobs/{job}", {"save_signal": "usr2", "save_every_s": 60})
    torn = caller.patch(f"/jobs/{job}", {"save_signal": ""})
    other = caller.patch(f"/jobs/{job}", {"checkpoint_signal": "USR2"})
    gone = caller.patch(f"/jobs/{job}", {"save_signal": "", "save_every_s": 0})

    assert "it needs save_signal" in early.json["detail"]
    assert "is checkpoint_signal already" in same.json["detail"]
    assert (changed.json["save_signal"], changed.json["save_every_s"]) == ("USR2", 60)
    assert "it needs save_signal" in torn.json["detail"]
    assert "is checkpoint_signal already" in other.json["detail"]
    assert (gone.json["save_signal"], gone.json["save_every_s"]) == ("", 0)


def test_a_job_is_asked_to_save_over_rest(caller: Caller, agent: PretendedAgent) -> None:
    job = caller.submit(save_signal="sigusr2", save_every_s=600)
    early = caller.post(f"/jobs/{job}/save")
    agent.report_start(agent.launched(job))
    caller.until(job, "running")

    asked = caller.post(f"/jobs/{job}/save")

    assert (early.status, asked.status) == (409, 200)
    shown = caller.job(job)
    assert (shown["save_signal"], shown["save_every_s"]) == ("USR2", 600)
    assert (shown["state"], shown["phase"]) == ("running", "checkpointing")
    assert shown["save_asked_at"] is not None


def test_a_node_is_emptied_over_rest_and_says_so(caller: Caller, agent: PretendedAgent) -> None:
    late = caller.post("/nodes/box:drain", {"deadline_at": 5})

    drained = caller.post(
        "/nodes/box:drain", {"migrate": True, "deadline_at": "2126-01-01T00:00:00Z"}
    )
    resumed = caller.post("/nodes/box:resume", {})

    assert late.json["detail"] == "deadline_at: the moment is in the past; give a future time"
    assert (drained.json["migrates"], drained.json["deadline_at"]) == (True, "2126-01-01T00:00:00Z")
    assert (resumed.json["migrates"], resumed.json["deadline_at"]) == (False, None)
