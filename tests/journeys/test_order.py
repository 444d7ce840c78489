"""When jobs may start: dependencies, holds, begin times, priorities, and second chances."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.journeys.box import Box

UNTIL_GO = "while [ ! -e go ]; do sleep 0.02; done"


def test_a_chain_of_dependencies_runs_in_order(home: Box) -> None:
    home.submit("--hold", "--shell", "echo first >> order")
    home.submit("--after-ok", "@", "--shell", "echo second >> order")
    last = home.submit("--after-any", "@", "--after-ok", "@~1", "--shell", "echo third >> order")
    waiting = home.why(last)

    home.rota("release", "@~2")

    assert home.ended(last)["state"] == "completed"
    assert home.read("order").split() == ["first", "second", "third"]
    assert f"waits for job {last - 2}" in waiting or f"waits for job {last - 1}" in waiting


def test_a_failed_parent_cancels_its_children_and_is_named(home: Box) -> None:
    parent = home.job(f"{UNTIL_GO}; exit 2")
    child = home.job(["true"], depends_on=[{"kind": "after-ok", "job": parent}])
    grandchild = home.job(["true"], depends_on=[{"kind": "after-ok", "job": child}])
    janitor = home.job(["true"], depends_on=[{"kind": "after-not-ok", "job": parent}])

    (home.work / "go").touch()

    ends = [home.ended(job) for job in (child, grandchild, janitor)]
    assert [end["state"] for end in ends] == ["cancelled", "cancelled", "completed"]
    assert ends[0]["cause_code"] == "dependency"
    assert str(parent) in ends[0]["cause"]
    assert str(child) in ends[1]["cause"]
    assert str(parent) in home.rota("why", str(child)).stdout


def test_a_child_that_keeps_waiting_survives_its_parents_failure(home: Box) -> None:
    parent = home.ran("exit 1")["id"]
    child = home.submit("--keep-waiting", "--after-ok", str(parent), "--", "true")
    assert home.state_of(child) == "queued"

    home.rota("update", str(child), "--no-dependencies")

    assert home.ended(child)["state"] == "completed"


def test_elements_of_two_arrays_depend_index_by_index(home: Box) -> None:
    first = home.submit("--array", "0-2", "--shell", "exit $((ROTA_ARRAY_INDEX == 1))")
    second = home.submit("--array", "0-2", "--after-ok", f"{first}_*", "--", "true")

    home.rota("wait", str(second), check=False)

    states = [home.show(f"{second}_{index}")["state"] for index in range(3)]
    assert states == ["completed", "cancelled", "completed"]


def test_a_cycle_of_dependencies_is_refused(home: Box) -> None:
    one = home.job(["true"], hold=True)
    two = home.job(["true"], hold=True, depends_on=[{"kind": "after-ok", "job": one}])

    line = home.refusal("update", str(one), "--after-ok", str(two))

    assert "cycle" in line or "depend" in line
    assert home.show(one)["depends_on"] == []


def test_held_jobs_wait_until_they_are_released(home: Box) -> None:
    job = home.submit("--hold", "--", "true")
    held = (home.state_of(job), home.why(job))

    home.rota("release", str(job))

    assert home.ended(job)["state"] == "completed"
    assert held[0] == "held"
    assert f"rota release {job}" in held[1]


def test_a_job_with_a_begin_time_starts_then_and_says_so_before(home: Box) -> None:
    job = home.submit("--begin", "now+1h", "--", "true")
    reason = home.why(job)

    home.rota("update", str(job), "--begin", "now+1s")
    ended = home.ended(job)

    assert ended["state"] == "completed"
    assert ended["begin_at"] <= ended["started_at"]
    assert "begin time" in reason


def test_higher_priority_starts_first_and_equal_ones_in_order(home: Box) -> None:
    blocker = home.job(UNTIL_GO, resources={"cpus": 4})
    for name, priority in (("a", 50), ("b", 50), ("low", 25), ("high", 75), ("c", 50)):
        home.job(
            f"echo {name} >> order", resources={"cpus": 4}, priority=priority, name=f"p-{name}"
        )
    bumped = home.submit("--cpus", "4", "--shell", "echo bumped >> order")
    home.rota("update", str(bumped), "--priority", "100")

    (home.work / "go").touch()

    home.ended(blocker)
    until(lambda: len(home.read("order").split()) == 6, "all to run")
    assert home.read("order").split() == ["bumped", "high", "a", "b", "c", "low"]


def test_a_large_job_that_waits_is_passed_by_a_short_one(home: Box) -> None:
    blocker = home.job(UNTIL_GO, resources={"cpus": 2})
    large = home.job(["true"], resources={"cpus": 4})
    small = home.ran(["true"], resources={"cpus": 1}, time_limit_s=60)

    waiting = home.show(large)
    (home.work / "go").touch()

    assert small["state"] == "completed"
    assert (waiting["state"], waiting["reason"]) == ("queued", "not enough free cpus")
    assert home.ended(large)["state"] == home.ended(blocker)["state"] == "completed"


def test_requeue_runs_a_job_again_under_its_id(home: Box) -> None:
    job = home.job(f"echo run >> runs; test $ROTA_ATTEMPT = 2 || {{ {UNTIL_GO}; }}")
    until(lambda: home.read("runs") == "run\n", "the first run")

    home.rota("requeue", str(job))

    ended = home.ended(job)
    assert ended["state"] == "completed"
    assert home.read("runs") == "run\nrun\n"
    assert [attempt["number"] for attempt in ended["attempts"]] == [1, 2]


def test_redo_submits_a_finished_job_again_with_other_options_and_its_dependents(
    home: Box,
) -> None:
    job = home.submit("--name", "first", "--env", "A=1", "--shell", "echo $A $ROTA_CPUS")
    child = home.submit("--after-ok", str(job), "--", "true")
    home.ended(child)

    ids = [
        int(line)
        for line in home.rota(
            "redo", str(job), "--with-dependents", "--cpus", "2", "--env", "A=2"
        ).stdout.split()
    ]

    assert [home.ended(each)["state"] for each in ids] == ["completed", "completed"]
    assert home.output(job) == "1 1\n"
    assert home.output(ids[0]) == "2 2\n"
    assert home.show(ids[1])["depends_on"][0]["job"] == ids[0]


def test_a_waiting_job_can_be_given_another_command_and_other_resources(home: Box) -> None:
    job = home.submit("--hold", "--", "echo", "old")

    home.rota("update", str(job), "--cpus", "2", "--time", "5m", "--", "echo", "new")
    home.rota("release", str(job))

    ended = home.ended(job)
    assert home.output(job) == "new\n"
    assert (ended["resources"]["cpus"], ended["time_limit_s"]) == (2, 300)


def test_the_same_idempotency_key_submits_once(home: Box) -> None:
    body = {"command": ["true"], "workdir": "/"}
    key = {"Idempotency-Key": f"once-{time.time_ns()}"}

    answers = [home.api("POST", "/jobs", body, key) for _ in range(2)]

    assert [status for status, _ in answers] == [201, 200]
    assert answers[0][1]["id"] == answers[1][1]["id"]
