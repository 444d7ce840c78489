"""A Scheduler that lived through a story beside one that is new in each step.

    python -m tests.property.lived              0 of 10,723 jobs differ over 230 stories
    python -m tests.property.lived 3 wfp3 f1    other stories, of these policies only
    python -m tests.property.lived lanes        0 of 10,036 jobs differ over 100 stories, each
                                                with ageing, shares and about 500 lanes

The twin forgets everything before each step but what was promised: a restart, ``rota why`` and a
what-if are such a Scheduler. Jobs count that one of the two started or evicted; a job differs if
the other did not at the same moment.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from rota.core.facts.policy import Backfill
from rota.core.words.presets import PRESETS
from tests.property import crowds
from tests.property.stories import Story

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.testing.stage import Stage

#: With hundreds of lanes a story is not played to its end: so many steps of it.
LANES, LANES_STEPS, CONSERVATIVE_STEPS = 500, 80, 4
SWARM_JOBS, SWARM_STEPS = 24, 100
#: The figure of one word: stories, the jobs of each that something is decided of, and how many
#: come, of which seven in ten are there at the beginning: more than ``LANES`` lanes.
STORIES, DECIDED, COME = 100, 100, 750


class Played(NamedTuple):
    """One story: the jobs that something was decided of, and where the two decided differently."""

    name: str
    jobs: int
    differ: int
    #: Where they parted first; empty: nowhere.
    first: str
    #: The most that waited at a time.
    lanes: int = 0


def crowd(
    name: str, seed: int, count: int, steps: int,
    *, preempt: bool = False, most: int = 0, depth: int = 0,
) -> Played:  # fmt: skip
    """A story of ageing and shares; with preemption, or as the policy has it.

    ``most``: it ends when something was decided of so many jobs. ``depth``: of the promises.
    """
    rules, story = crowds.policy(name, preempt=preempt), crowds.jobs(seed, count)
    if depth:
        rules = replace(rules, backfill=replace(rules.backfill, depth=depth))
    starts = (256, 2)[seed % 2]
    lived, twin = (crowds.tell(crowds.stage(rules, starts=starts), story) for _ in range(2))
    told = f"{name} with {count} jobs, seed {seed}{', preempting' * preempt}"
    return _played(told, lived, twin, steps, most=most)


def many_lanes(number: int) -> Played:
    """One of the stories of the figure, of each policy in turn."""
    return crowd([*PRESETS][number % len(PRESETS)], number, COME, COME, most=DECIDED)


def lanes(name: str, seed: int) -> Played:
    """The same with hundreds of lanes."""
    many = PRESETS[name].backfill.kind is Backfill.CONSERVATIVE
    return crowd(name, seed, LANES, CONSERVATIVE_STEPS if many else LANES_STEPS)


def swarm(name: str, seed: int) -> Played:
    """A story that draws its features by the seed."""
    story = Story(name, seed, SWARM_JOBS)
    told = f"{name}, seed {seed}, {sorted(story.has)}"
    return _played(told, story.stage(), story.stage(), SWARM_STEPS, story.happens)


def _played(
    name: str,
    lived: Stage,
    twin: Stage,
    steps: int,
    happens: Callable[[int, Stage], None] = lambda step, stage: None,
    most: int = 0,
) -> Played:
    first, jobs, differ, lanes = "", set[int](), set[int](), 0
    for step in range(steps):
        if 0 < most <= len(jobs) or not (_advance(lived) and _advance(twin, anew=True)):
            break
        # One may have been woken more often: on to a moment that both come to.
        while lived.now_s != twin.now_s:
            behind = min(lived, twin, key=lambda stage: stage.now_s)
            if not _advance(behind, anew=behind is twin):
                break
        for stage in (lived, twin):
            happens(step, stage)
        known, anew = _decided(lived), _decided(twin)
        jobs |= {job for _, _, job in known + anew}
        lanes = max(lanes, len(lived.cluster.lanes.by_number))
        if known != anew:
            first = first or f"{known} and a new one {anew}"
            differ |= {job for _, _, job in {*known} ^ {*anew}} or {known[0][2]}
    return Played(name, len(jobs), len(differ), first, lanes)


def _advance(stage: Stage, *, anew: bool = False) -> bool:
    if anew:
        crowds.forget(stage)
    return stage.step()


def _decided(stage: Stage) -> list[tuple[float, str, int]]:
    """What was decided since this was last asked, and when, in however many passes."""
    found = [
        (at_s - stage.begin_s, type(one).__name__, one.job)
        for at_s, plan in stage.plans
        for one in (*plan.evictions, *plan.starts)
    ]
    stage.plans.clear()
    return found


def stories(seed: int, names: list[str]) -> Iterator[Played]:
    """Of each policy: hundreds of lanes, six crowds of which three preempt, three swarms."""
    for name in names:
        yield lanes(name, seed)
        for number in range(3 * seed, 3 * seed + 3):
            yield crowd(name, number, 60, 200)
            yield crowd(name, number, 60, 200, preempt=True)
            yield swarm(name, number)


def main(words: list[str]) -> int:
    began_s, found = time.monotonic(), list[Played]()
    if words == ["lanes"]:
        played_all = (many_lanes(number) for number in range(STORIES))
    else:
        played_all = stories(int(words[0]) if words else 1, words[1:] or [*PRESETS])
    for played in played_all:
        found.append(played)
        if played.first:
            print(f"{played.name}: {played.differ} jobs differ, first {played.first}", flush=True)
    differ, jobs = sum(one.differ for one in found), sum(one.jobs for one in found)
    least = min(one.lanes for one in found)
    took = f"{least} lanes at a time in the shortest, {time.monotonic() - began_s:.0f} s"
    print(f"{differ} of {jobs:,} jobs differ over {len(found)} stories ({took})")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
