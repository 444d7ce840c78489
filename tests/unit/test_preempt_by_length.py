"""Preemption by length: a short job takes the room of one that runs more than twice as long."""

import pytest

from rota.core.facts.policy import Estimates, PreemptBy, PreemptMode
from rota.core.words.presets import PRESETS
from rota.sim.cluster.run import play
from rota.sim.machine import SimMachine, plain_nodes
from rota.sim.run import Run
from rota.sim.trace import TraceJob

LAB = PRESETS["lab"]
HOUR_S = 3600
#: A victim has so long to save its work.
GRACE_S = LAB.preempt.grace_s


def played(*jobs: tuple[float, float, float], overrun: str = "kill") -> Run:
    """Jobs on one machine that each of them needs whole: submit, run time, what its user says."""
    listed = [
        TraceJob(number, submit_s, run_s, 4, said_s, user=f"u{number}")
        for number, (submit_s, run_s, said_s) in enumerate(jobs, 1)
    ]
    return play(listed, plain_nodes(SimMachine(capacity=4), gpus=False), LAB, overrun=overrun)


def test_the_preset_learns_run_times_and_asks_victims_to_save():
    assert LAB.preempt.by is PreemptBy.LENGTH
    assert LAB.preempt.mode is PreemptMode.CHECKPOINT
    assert LAB.backfill.estimates is Estimates.PREDICTED


def test_a_job_that_takes_half_as_long_gets_the_room_and_the_other_goes_on_later():
    run = played((0, 4 * HOUR_S, 4 * HOUR_S), (600, HOUR_S, 2 * HOUR_S))

    assert run.start_s[1] == 600 + GRACE_S
    assert run.end_s == [4 * HOUR_S + HOUR_S, 600 + GRACE_S + HOUR_S]
    assert (run.preemptions, run.lost_s) == ([1, 0], 0)


def test_a_job_that_takes_more_than_half_as_long_waits():
    run = played((0, 4 * HOUR_S, 4 * HOUR_S), (600, HOUR_S, 2 * HOUR_S + 1))

    assert run.start_s[1] == 4 * HOUR_S


def test_a_job_that_only_just_started_is_spared_until_it_has_run_for_a_while():
    run = played((0, 4 * HOUR_S, 4 * HOUR_S), (10, 60, 60))

    assert run.start_s[1] == LAB.preempt.min_runtime_s + GRACE_S


def test_a_job_gives_way_ten_times_and_then_runs_on():
    shorts = [(600 + 2000 * number, 60, 60) for number in range(11)]

    run = played((0, 40 * HOUR_S, 40 * HOUR_S), *shorts)

    assert run.preemptions[0] == LAB.preempt.max_per_job == 10
    assert run.start_s[1:11] == [at + GRACE_S for at, _, _ in shorts[:10]]
    assert run.start_s[11] == run.end_s[0]


def test_a_job_that_outlives_what_was_said_gives_way_from_then_on():
    run = played((0, 10 * HOUR_S, 900), (60, 600, 600), overrun="extend")

    assert run.start_s[1] == 900 + GRACE_S


@pytest.mark.parametrize("said_s", [0, HOUR_S])
def test_of_equally_long_jobs_the_first_keeps_its_room(said_s):
    run = played((0, HOUR_S, said_s), (600, HOUR_S, said_s))

    assert run.preemptions == []


def test_a_job_that_outlives_what_was_said_is_taken_to_last_twice_as_long_each_time():
    longest = (1000, 20 * HOUR_S, 20 * HOUR_S)

    run = played((0, 10 * HOUR_S, 900), (60, 1000, 1000), longest, overrun="extend")

    # At 900 s it is taken to last 1800 s, of which 1000 s are more than half.
    assert run.start_s[1] == 1800 + GRACE_S
