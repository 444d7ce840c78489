"""One key, one run: whatever becomes of answers, messages and ids."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.engines.conformance.bench import MARK, PATIENCE_S
from tests.engines.conformance.bench_slurm import HEIR
from tests.engines.conformance.scenarios import Power
from tests.journeys.box import FINAL, until

if TYPE_CHECKING:
    from tests.engines.conformance.bench import Bench

COUNT = 4


def once(bench: Bench, jobs: list[int]) -> None:
    """Each has completed, in one attempt, and each attempt ran exactly once."""
    ends = [bench.until(job) for job in jobs]

    assert {end["state"] for end in ends} == {"completed"}
    assert {len(end["attempts"]) for end in ends} == {1}
    assert sorted(bench.marks()) == sorted(end["attempts"][0]["uid"] for end in ends)


@pytest.mark.scenario(33)
def test_a_submit_that_is_answered_after_the_end_of_its_job_changes_nothing(bench: Bench):
    with bench.fault("late"):
        jobs = bench.submit_many([MARK] * COUNT)
        until(lambda: len(bench.marks()) == COUNT, "all to run")
        if Power.SERVER in bench.has:
            for job in jobs:
                bench.until(job)

    once(bench, jobs)
    again = bench.submit(MARK)
    bench.until(again, "completed")
    once(bench, [*jobs, again])


@pytest.mark.scenario(34)
def test_a_submit_that_fails_and_happened_all_the_same_is_found(bench: Bench):
    with bench.fault("error"):
        jobs = bench.submit_many([MARK] * COUNT)
        until(lambda: len(bench.marks()) == COUNT, "all to run")

    once(bench, jobs)


@pytest.mark.scenario(35)
def test_a_submit_that_is_never_answered_is_found(bench: Bench):
    with bench.fault("silent"):
        jobs = bench.submit_many([MARK] * COUNT)
        until(lambda: len(bench.marks()) == COUNT, "all to run")

    once(bench, jobs)


@pytest.mark.scenario(36)
def test_a_submit_that_arrives_twice_runs_once(bench: Bench):
    with bench.fault("twice"):
        jobs = bench.submit_many([f"{MARK}; sleep 1"] * COUNT)
        until(lambda: len(bench.marks()) >= COUNT, "all to run")

    once(bench, jobs)
    for job in jobs:
        uid = bench.uid(job)
        until(lambda key=uid: all(j.phase == "ended" for j in bench.look_inside(key)), "its end")


@pytest.mark.scenario(37)
def test_a_desired_set_that_is_told_twice_starts_nothing_twice(bench: Bench):
    with bench.fault("repeat"):
        jobs = bench.submit_many([MARK] * COUNT)
        for job in jobs:
            bench.until(job)

    once(bench, jobs)


@pytest.mark.scenario(38)
def test_a_message_that_is_lost_in_a_session_is_told_in_the_next(bench: Bench):
    with bench.fault("gap"):
        first = bench.submit(MARK)
        until(lambda: not bench.session.fault, "the gap")
        later = [bench.submit(MARK) for _ in range(COUNT)]
        jobs = [first, *later]
        for job in jobs:
            until(lambda n=job: state(bench, n) in FINAL, "its end", PATIENCE_S)

    once(bench, jobs)


def state(bench: Bench, job: int) -> str:
    return str(bench.box.api("GET", f"/jobs/{job}")[1]["state"])


@pytest.mark.scenario(39)
def test_an_end_that_is_reported_twice_is_one_end(bench: Bench):
    with bench.fault("again"):
        jobs = bench.submit_many([f"{MARK}; exit 3"] * COUNT)
        ends = [bench.until(job) for job in jobs]

    assert {(end["state"], end["exit_code"], len(end["attempts"])) for end in ends} == {
        ("failed", 3, 1)
    }
    assert sorted(bench.marks()) == sorted(end["attempts"][0]["uid"] for end in ends)


@pytest.mark.scenario(40)
def test_strangers_with_similar_keys_are_left_alone(bench: Bench):
    lives(bench, [f"{bench.cluster}x:abc", f"x{bench.cluster}:abc.0.1", f"{bench.cluster}"])


@pytest.mark.scenario(41)
def test_keys_of_another_rota_are_left_alone(bench: Bench):
    lives(bench, ["0123456789abcdef0123456789abcdef:0000.0.1"])


def lives(bench: Bench, keys: list[str]) -> None:
    """Jobs of others run on, whatever this Rota looks at, ends and adopts."""
    with ExitStack() as strangers:
        for key in keys:
            strangers.enter_context(bench.fault("stranger", f"rota:{key}"))
        cancelled, done = bench.submit(["sleep", "60"]), bench.submit(MARK)
        bench.began(cancelled)
        bench.cancel(cancelled)
        bench.until(done, "completed")
        bench.restart("agent")
        bench.until(bench.submit(["true"]), "completed")

        found = [[job.phase for job in bench.look_inside(f"rota:{key}")] for key in keys]

    assert found == [["running"]] * len(keys)


@pytest.mark.scenario(42)
def test_a_number_that_now_belongs_to_another_job_is_not_believed(bench: Bench):
    with bench.fault("closed"):
        job = bench.submit(MARK, retries=1, backoff_s=0)
        first = bench.uid(job)
        number = until(lambda: bench.look_inside(first), "the job inside")[0].id
        with bench.fault("renamed", number):
            until(lambda: bench.uid(job) != first, "another attempt", PATIENCE_S)
            heir = bench.look_inside(HEIR)

    shown = bench.until(job)

    assert [(other.id, other.phase) for other in heir] == [(number, "waiting")]
    assert (shown["state"], len(shown["attempts"])) == ("completed", 2)
    assert shown["attempts"][0]["cause_code"] == "node_lost"
    assert bench.marks() == [bench.uid(job)]
