"""The pool and the general pass decide the same where a site is a pool: one core, two speeds."""

import random

import pytest

from rota.sim.cluster_run import play
from rota.sim.machine import as_tasks, one_node
from rota.sim.policies import rules_of
from rota.sim.pool_run import play_pool
from rota.sim.settings import Settings
from rota.sim.trace import TraceJob

TOTAL = 8


def a_log(seed: int) -> list[TraceJob]:
    """Jobs in bursts, most with too long an estimate, two users."""
    chance = random.Random(seed)
    jobs, now_s = [], 0
    for number in range(1, 41):
        now_s += chance.choice([0, 0, 1, 3, 10, 40])
        run_s = chance.choice([1, 5, 20, 60, 100])
        estimate_s = int(run_s * chance.choice([1, 1, 1.5, 4, 10]))
        size = chance.randint(1, TOTAL)
        jobs.append(TraceJob(number, now_s, run_s, size, estimate_s, user=chance.choice("ab")))
    return jobs


@pytest.mark.parametrize(
    "policy",
    [
        *("fcfs", "fifo", "sjf", "saf", "easy", "easy-sjbf", "sjf-easy"),
        *("conservative", "conservative-rebuild"),
    ],
)
def test_both_start_every_job_at_the_same_moment(policy: str):
    for seed in range(8):
        jobs = a_log(seed)
        rules = rules_of(policy)
        whole = [as_tasks(job, "processors", 0) for job in jobs]

        pool = play_pool(jobs, TOTAL, policy, rules, Settings())
        core = play(whole, one_node(TOTAL, gpus=False), rules, name=policy)

        assert pool.start_s == core.start_s, seed
