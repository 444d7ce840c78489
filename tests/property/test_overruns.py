"""Jobs start as if a new Scheduler were asked at every second, though many runs last longer.

What a run is taken to last is renewed at moments of its own. No event tells of them: a Scheduler
that is not called then would leave room empty that a promise no longer needs.
"""

from random import Random

import pytest
from msgspec.structs import replace

from rota.core.facts.policy import DEFAULT, Estimates, Policy
from rota.core.words.presets import PRESETS
from rota.testing.stage import Stage, node, spec
from tests.property import crowds
from tests.property.sites import Submission

JOBS, SPREAD_S, DENSE_S = 24, 200, 700
EASY = PRESETS["easy"]
POLICIES = {
    "default": DEFAULT,
    "easy, predicted": replace(
        EASY, backfill=replace(EASY.backfill, estimates=Estimates.PREDICTED)
    ),
    "easy, users' estimates": EASY,
}


def jobs(seed: int) -> list[Submission]:
    """Of one account, so that no share fades in between; half of them say no limit."""
    chance = Random(seed)
    found = []
    for _ in range(JOBS):
        runs_s = chance.randrange(5, 120)
        believed_s = max(1, int(runs_s * chance.choice((0.1, 0.3, 0.7, 1.0, 2.0))))
        wish = spec(
            cpus=chance.choice((1, 1, 2, 3, 6, 8)),
            predicted_s=believed_s,
            predicted_most_s=believed_s + chance.randrange(5),
            estimate_s=believed_s,
            time_limit_s=chance.choice((0, 2 * runs_s + believed_s)),
            priority=chance.choice((45, 50, 55)),
        )
        found.append(Submission(wish, float(chance.randrange(SPREAD_S)), float(runs_s)))
    return sorted(found, key=lambda one: one.at_s)


def starts(policy: Policy, story: list[Submission], *, every_second: bool) -> dict[int, float]:
    """When each job started; ``every_second``: a new Scheduler is asked, and then another."""
    stage = crowds.tell(Stage([node("a", cpus=8), node("b", cpus=8)], policy), story)
    if every_second:
        for at_s in range(DENSE_S):
            stage.look_later(float(at_s))
    while stage.step():
        if every_second:
            crowds.forget(stage)
    return {job: at_s - stage.begin_s for job, at_s in stage.started_s.items()}


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", [4, 9, 18])
def test_no_moment_is_missed_at_which_a_run_proves_longer_than_believed(name, seed):
    story = jobs(seed)

    called = starts(POLICIES[name], story, every_second=False)
    dense = starts(POLICIES[name], story, every_second=True)

    assert called == dense
    assert len(called) == JOBS
