"""What was lent comes back: no job within the limits of its account waits while others borrow.

All jobs are equal in size, so whatever an account holds beyond its own limit is room for a job of
another. Nothing ends by itself: room comes from accounts that borrow, or not at all.
"""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from rota.core.changes import events as ev
from rota.core.facts.policy import PreemptMode, PreemptRules
from rota.core.facts.tenant import Limits, Quota, User
from rota.core.words.presets import PRESETS
from rota.testing.stage import Stage, node, spec

#: How many jobs each account may run by its own right; together all that there is room for.
OWN = {"ann": 4, "ben": 3, "cem": 1}
CPUS = 2
#: Within so many passes everything has come back, and nobody is evicted any more.
STEPS_MAX = 100
SETTLED_S = 100.0


def site(name: str, chance: Random) -> Stage:
    """Somebody has borrowed everything when the others come."""
    mode = chance.choice((PreemptMode.REQUEUE, PreemptMode.CHECKPOINT, PreemptMode.CANCEL))
    rules = PreemptRules(
        enabled=True, mode=mode, min_runtime_s=0, max_per_job=1000, gap=chance.choice((0, 100))
    )
    stage = Stage(
        [node(name, cpus=CPUS * sum(OWN.values()) // 2) for name in "ab"],
        replace(PRESETS[name], preempt=rules),
        starts_per_pass=chance.choice((1, 3, 256)),
    )
    for user, own in OWN.items():
        quota = Quota(soft=Limits(cpu_milli=1000 * CPUS * own), borrow=True)
        stage.tell(ev.UserSet(user=User(user, quota=quota)))
    first = chance.choice(tuple(OWN))
    for _ in range(12):
        submit(stage, chance, first)
    stage.run()
    return stage


def submit(stage: Stage, chance: Random, user: str, *, willing: bool = False) -> None:
    """``willing``: half of them may be evicted by anybody of higher priority, too."""
    wish = spec(
        cpus=CPUS,
        user=user,
        priority=chance.choice((10, 50, 90)),
        time_limit_s=chance.choice((0, 100_000, 200_000)),
        grace_s=chance.choice((0, 5)),
        preemptible=willing and chance.random() < 0.5,
    )
    stage.submit(wish, runs_s=100_000.0)


def live(stage: Stage) -> dict[str, int]:
    """How many jobs of each account have room, or will have it when others have left."""
    found = dict.fromkeys(OWN, 0)
    for job in stage.running:
        found[stage.cluster.jobs[job].spec.user] += 1
    return found


def wronged(stage: Stage) -> list[int]:
    """Jobs within the limits of their account that wait although somebody borrows."""
    held = live(stage)
    lent = sum(max(0, held[user] - own) for user, own in OWN.items())
    jobs = stage.cluster.jobs
    return [
        job
        for job in stage.waiting
        if lent and held[jobs[job].spec.user] < OWN[jobs[job].spec.user]
    ]


def others_come(stage: Stage, chance: Random, *, willing: bool = False) -> None:
    for user in OWN:
        for _ in range(chance.choice((0, 1, 3))):
            submit(stage, chance, user, willing=willing)


def settle(stage: Stage) -> list[int]:
    """Passes until nothing but the ends of jobs is ahead; who was evicted in the last of them."""
    stage.run()
    begun_s = stage.now_s
    for _ in range(STEPS_MAX):
        if stage.now_s > begun_s + SETTLED_S or not stage.step():
            break
    late_s = begun_s + SETTLED_S / 2
    return [eviction.job for at_s, p in stage.plans if at_s > late_s for eviction in p.evictions]


@pytest.mark.parametrize("name", PRESETS)
def test_no_job_within_its_own_limits_waits_while_others_borrow(name):
    for seed in range(4):
        chance = Random(seed)
        stage = site(name, chance)
        for _ in range(3):
            others_come(stage, chance)

            evicted = settle(stage)

            assert wronged(stage) == [], f"seed {seed}"
            assert evicted == [], f"seed {seed}: it does not come to rest"


def test_two_jobs_do_not_evict_each_other_in_turn():
    for seed in range(4):
        chance = Random(seed)
        stage = site("fifo", chance)
        others_come(stage, chance, willing=True)

        assert settle(stage) == [], f"seed {seed}"
