"""Jobs that give way at any moment: whoever has least left to do runs, and equals keep order."""

import random

import pytest

from rota.sim.ranked_run import play_ranked
from rota.sim.trace import TraceJob

from .runs import job

TOTAL = 8


def a_log(seed: int) -> list[TraceJob]:
    chance = random.Random(seed)
    jobs, now_s = [], 0
    for number in range(1, chance.randint(3, 25)):
        now_s += chance.choice([0, 0, 1, 2, 3])
        jobs.append(
            job(number, now_s, chance.choice([0, 1, 2, 5, 30]), chance.choice([1, 2, 4, 8]))
        )
    return jobs


def ends_second_by_second(jobs: list[TraceJob], *, weighed: bool) -> list[int]:
    """Every second the line is put in order, and whoever fits works for that second."""
    left, ends, now_s = [each.run_s for each in jobs], [-1] * len(jobs), 0
    while -1 in ends:
        here = [at for at, each in enumerate(jobs) if each.submit_s <= now_s and ends[at] < 0]
        here.sort(key=lambda at: left[at] * (jobs[at].procs if weighed else 1))
        free = TOTAL
        for at in here:
            if not left[at]:
                ends[at] = now_s
            elif jobs[at].procs <= free:
                free -= jobs[at].procs
                left[at] -= 1
                ends[at] = -1 if left[at] else now_s + 1
        now_s += 1
    return ends


@pytest.mark.parametrize("weighed", [False, True])
def test_jobs_end_when_they_do_if_the_line_is_put_in_order_every_second(weighed: bool):
    for seed in range(60):
        jobs = a_log(seed)

        run = play_ranked(jobs, TOTAL, "srtf", weighed=weighed)

        assert run.end_s == ends_second_by_second(jobs, weighed=weighed), seed


def test_equals_keep_their_order_though_fractions_are_not_exact():
    # At 0.1 both have 0.7 left, and 0.8 - 0.1 comes out a hair above that.
    run = play_ranked([job(1, 0, 0.8), job(2, 0.1, 0.7)], 1, "srtf", weighed=False)

    assert run.preemptions == [0, 0]
    assert run.end_s == pytest.approx([0.8, 1.5])
