"""Parts that are killed: nothing is lost, nothing is submitted twice."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.engines.conformance.bench import MARK, PATIENCE_S, processes
from tests.engines.conformance.scenarios import Power
from tests.journeys.box import FINAL, until

if TYPE_CHECKING:
    from tests.engines.conformance.bench import Bench

UNTIL_GO = "while [ ! -e go ]; do sleep 0.05; done"
#: In the storm, where every part is killed; 0: as many as the backend bears.
STORM = int(os.environ.get("ROTA_ENGINE_STORM", "0"))
#: An engine that is slow to begin takes so long for each of many, on a busy machine.
EACH_S = 4.0
#: Slurm may take back what it has acknowledged; each such loss is another attempt.
TRIES = {"retries": 5, "backoff_s": 0}


def crowd(bench: Bench, count: int = 0) -> list[int]:
    """Many jobs, once some have run and others have not."""
    count = count or bench.sizes.crowd
    jobs = bench.submit_many([f"{MARK}; sleep 0.2"] * count, **TRIES)
    begun = count // 10 + 1
    until(lambda: len(bench.marks()) >= begun, "the first of them to run", patience_s(begun))
    return jobs


def ended(bench: Bench, jobs: list[int]) -> list[dict[str, Any]]:
    def idle() -> bool:
        bench.tend()
        return not bench.box.api("GET", "/jobs?state=active&limit=1")[1]["items"]

    until(idle, "all to end", patience_s(len(jobs)))
    return [bench.until(job) for job in jobs]


def each_once(bench: Bench, jobs: list[int]) -> int:
    """All have completed, and no attempt ran twice; how many attempts the engine lost."""
    ends = ended(bench, jobs)
    marks = bench.marks()
    attempts = [attempt for end in ends for attempt in end["attempts"]]
    last = [end["attempts"][-1]["uid"] for end in ends]

    odd = [(end["cause"], attempts_of(end)) for end in ends if end["state"] != "completed"]
    assert odd == []
    assert len(marks) == len(set(marks)), "an attempt ran twice"
    assert set(last) <= set(marks) <= {attempt["uid"] for attempt in attempts}
    causes = [attempt["cause_code"] for attempt in attempts if attempt["uid"] not in last]
    # What never began was given back, or was handed in early and called back.
    assert set(causes) <= {"node_lost", "start_failed", "preempted"}
    return causes.count("node_lost")


def patience_s(count: int) -> float:
    return max(4 * PATIENCE_S, EACH_S * count)


def attempts_of(end: dict[str, Any]) -> list[tuple[str, str]]:
    return [(attempt["uid"], attempt["cause"]) for attempt in end["attempts"]]


@pytest.mark.scenario(43)
def test_a_controller_killed_among_many_jobs_loses_and_doubles_none(bench: Bench):
    jobs = crowd(bench)

    bench.restart("controller")

    assert each_once(bench, jobs) == 0


@pytest.mark.scenario(44)
def test_an_agent_killed_among_many_jobs_loses_and_doubles_none(bench: Bench):
    jobs = crowd(bench)

    bench.restart("agent")

    assert each_once(bench, jobs) == 0


@pytest.mark.scenario(45)
def test_both_killed_among_many_jobs_lose_and_double_none(bench: Bench):
    jobs = crowd(bench)

    bench.restart("controller")
    bench.restart("agent")

    assert each_once(bench, jobs) == 0


@pytest.mark.scenario(46)
@pytest.mark.timeout(900 + 2 * EACH_S * STORM)
def test_everything_killed_in_a_storm_loses_and_doubles_none(bench: Bench):
    jobs = crowd(bench, STORM)

    bench.restart("engine")
    until(lambda: half_ran(bench, len(jobs)), "half of them to run", patience_s(len(jobs)))
    bench.restart("controller")
    bench.restart("agent")
    lost = each_once(bench, jobs)

    ran = len(bench.marks())
    figures = f"{bench.name}: {len(jobs)} jobs, {ran} runs, {lost} lost by the engine"
    print(figures)
    assert bench.forgets or not lost, figures


def half_ran(bench: Bench, count: int) -> bool:
    bench.tend()
    return len(bench.marks()) >= count // 2


@pytest.mark.scenario(47)
def test_while_the_engine_is_away_jobs_run_on_and_new_ones_start_when_it_is_back(bench: Bench):
    runs = bench.submit(f"{MARK}; {UNTIL_GO}")
    uid = bench.began(runs)

    with bench.fault("away"):
        late = bench.submit_many([MARK] * 4)
        (bench.box.work / "go").touch()
        until(lambda: not processes(uid), "an end that nobody sees")
        time.sleep(2)  # So that those who ask hear nothing more than once.
    ends = [bench.until(job) for job in (runs, *late)]

    assert {end["state"] for end in ends} == {"completed"}
    assert {len(end["attempts"]) for end in ends} == {1}
    assert sorted(bench.marks()) == sorted(end["attempts"][0]["uid"] for end in ends)


@pytest.mark.scenario(48)
def test_a_journal_that_is_lost_is_made_again_from_what_the_engine_has(bench: Bench):
    jobs = bench.submit_many([f"{MARK}; {UNTIL_GO}"] * 4)
    uids = [bench.began(job) for job in jobs]

    bench.restart("journal")
    (bench.box.work / "go").touch()
    ends = [bench.until(job) for job in jobs]

    assert {end["state"] for end in ends} == {"completed"}
    assert sorted(bench.marks()) == sorted(uids)


@pytest.mark.scenario(49)
def test_one_that_ended_and_was_purged_before_anybody_looked_is_accounted_for(bench: Bench):
    job = bench.submit(f"{MARK}; {UNTIL_GO}", **TRIES)
    uid = bench.began(job)
    (inside,) = bench.look_inside(uid)

    with bench.fault("unserved"):
        (bench.box.work / "go").touch()
        until(lambda: bench.look_inside(uid)[0].phase == "ended", "its end inside")
        with bench.fault("purged", inside.id):
            until(lambda: not bench.look_inside(uid), "the engine to know nothing")
    until(lambda: bench.box.api("GET", f"/jobs/{job}")[1]["state"] in FINAL, "it", PATIENCE_S)
    shown = bench.until(job)

    assert shown["state"] == "completed"
    assert len(bench.marks()) == len(set(bench.marks())) == len(shown["attempts"])
    assert Power.REUSE not in bench.has or len(shown["attempts"]) == 1  # Slurm has an accounting.
