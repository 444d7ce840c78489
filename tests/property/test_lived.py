"""A Scheduler that lived through a story decides as a new one would, under every policy.

Otherwise a restart, ``rota why``, a what-if and the live pass would disagree on who comes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rota.core.facts.policy import Backfill
from rota.core.words.presets import PRESETS
from rota.testing.stage import Stage
from tests.property import crowds
from tests.property.stories import Story

if TYPE_CHECKING:
    from collections.abc import Callable

#: Stories of few jobs to their end, and one with hundreds of lanes, for every policy: together
#: more than a hundred stories and 10,000 jobs.
STORIES, JOBS, STEPS = 4, 60, 200
LANES, LANES_STEPS, CONSERVATIVE_STEPS = 500, 80, 4
#: Stories in which features meet: preemption, reservations, exclusive nodes, taints, gangs,
#: predictions, quotas, hard shares and bounds on passing.
SWARM, SWARM_JOBS, SWARM_STEPS = 6, 24, 100


def first_difference(name: str, seed: int, count: int, steps: int) -> str:
    """Where two Schedulers part in a story of ageing and shares."""
    rules, story = crowds.policy(name), crowds.jobs(seed, count)
    starts = (256, 2)[seed % 2]
    lived, twin = (crowds.tell(crowds.stage(rules, starts=starts), story) for _ in range(2))
    difference = parting(lived, twin, steps)
    return f"seed {seed}: {difference}" if difference else ""


def difference_in_swarm(name: str, seed: int) -> str:
    """Where two Schedulers part in a story that draws its features by the seed."""
    story = Story(name, seed, SWARM_JOBS)
    difference = parting(story.stage(), story.stage(), SWARM_STEPS, story.happens)
    return f"seed {seed}, {sorted(story.has)}: {difference}" if difference else ""


def parting(
    lived: Stage,
    twin: Stage,
    steps: int,
    happens: Callable[[int, Stage], None] = lambda step, stage: None,
) -> str:
    """Where two Schedulers part, of which the twin forgets everything before each step."""
    for step in range(steps):
        if not (advance(lived) and advance(twin, anew=True)):
            break
        # One may have been woken more often: on to a moment that both come to.
        while lived.now_s != twin.now_s:
            behind = min(lived, twin, key=lambda stage: stage.now_s)
            if not advance(behind, anew=behind is twin):
                break
        for stage in (lived, twin):
            happens(step, stage)
        known, anew = decided(lived), decided(twin)
        if known != anew:
            return f"{known} and a new one {anew}"
    return ""


def advance(stage: Stage, *, anew: bool = False) -> bool:
    if anew:
        crowds.forget(stage)
    return stage.step()


def decided(stage: Stage) -> list[tuple[float, str, int]]:
    """What was decided since this was last asked, and when, in however many passes."""
    found = [
        (at_s - stage.begin_s, type(one).__name__, one.job)
        for at_s, plan in stage.plans
        for one in (*plan.evictions, *plan.starts)
    ]
    stage.plans.clear()
    return found


@pytest.mark.parametrize("name", PRESETS)
def test_a_scheduler_that_lived_decides_as_a_new_one(name):
    assert first_difference(name, 1, 30, 60) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_a_scheduler_that_lived_decides_as_a_new_one_to_the_end_of_many_stories(name):
    found = [first_difference(name, seed, JOBS, STEPS) for seed in range(STORIES)]

    assert found == [""] * STORIES


@pytest.mark.parametrize("name", PRESETS)
def test_a_scheduler_that_lived_decides_as_a_new_one_whichever_features_meet(name):
    assert difference_in_swarm(name, 1) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_a_scheduler_that_lived_decides_as_a_new_one_in_a_swarm_of_features(name):
    found = [difference_in_swarm(name, seed) for seed in range(2, 2 + SWARM)]

    assert found == [""] * SWARM


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_a_scheduler_that_lived_decides_as_a_new_one_with_many_lanes(name):
    many = PRESETS[name].backfill.kind is Backfill.CONSERVATIVE
    steps = CONSERVATIVE_STEPS if many else LANES_STEPS

    assert first_difference(name, 10, LANES, steps) == ""
