"""Logs through the pool: against the rules read word by word, and where they are easily missed."""

import random

import pytest

from rota.sim.policies import rules_of
from rota.sim.pool_run import play_pool, ranges
from rota.sim.settings import Events, SimOverrun, SimSettings
from rota.sim.trace import TraceJob

from .plain_rules import PlainRules
from .runs import job

SINGLE_EXTEND = SimSettings(events=Events.SINGLE, overrun=SimOverrun.EXTEND)


def a_log(seed: int, total: int) -> list[TraceJob]:
    """Many things at the same second; estimates that are too long, too short, exact or absent."""
    chance = random.Random(seed)
    jobs, now_s = [], 0
    for number in range(1, chance.randint(4, 22)):
        now_s += chance.choice([0, 0, 0, 1, 2, 5, 20])
        run_s = chance.choice([1, 2, 3, 5, 10, 20, 60])
        estimate_s = chance.choice([run_s, run_s, run_s + 7, run_s * 4, max(run_s // 2, 1), 10, 0])
        jobs.append(job(number, now_s, run_s, chance.randint(1, total), estimate_s=estimate_s))
    return jobs


@pytest.mark.parametrize("spare", [True, False])
@pytest.mark.parametrize("overrun", SimOverrun)
@pytest.mark.parametrize("events", Events)
@pytest.mark.parametrize("policy", ["easy", "conservative", "conservative-rebuild"])
def test_every_start_and_every_node_follows_from_the_rules_as_written(
    policy: str, events: Events, overrun: SimOverrun, spare: bool
):
    settings = SimSettings(events=events, overrun=overrun, spare=spare, pinned=True)
    for seed in range(25):
        total = 1 + seed % 8
        jobs = a_log(seed, total)
        plain = PlainRules(
            total,
            policy,
            single=events is Events.SINGLE,
            kill=overrun is SimOverrun.KILL,
            spare=spare,
        )

        run = play_pool(jobs, total, policy, rules_of(policy, spare=spare), settings)

        found = zip(run.start_s, run.nodes, strict=True)
        right = [(start_s, ranges(sorted(numbers))) for start_s, numbers in plain.play(jobs)]
        assert [*found] == right, seed


@pytest.mark.parametrize("policy", ["fcfs", "fifo", "easy", "conservative", "sjf"])
def test_two_who_outstay_their_estimates_at_the_same_second_both_keep_their_room(policy: str):
    # By what was said both are gone at 10. The third fits only when one of them really is.
    jobs = [
        job(1, 0, 30, 2, estimate_s=10),
        job(2, 0, 40, 2, estimate_s=10),
        job(3, 5, 1, 2, estimate_s=1),
    ]

    run = play_pool(jobs, 4, policy, rules_of(policy), SINGLE_EXTEND)

    assert run.start_s == [0, 0, 30]


def test_whoever_is_due_gets_the_lowest_numbers_that_are_free_when_somebody_leaves_early():
    # 3 was promised 2-3 at 2. At that moment 0-1 fall free before their time.
    jobs = [
        job(1, 1, 1, 2, estimate_s=3),
        job(2, 1, 1, 1, estimate_s=1),
        job(3, 1, 3, 2, estimate_s=3),
    ]

    run = play_pool(jobs, 4, "conservative", rules_of("conservative"), SimSettings(pinned=True))

    assert run.start_s == [1, 1, 2]
    assert run.nodes == ["0-1", "2", "0-1"]


def test_a_job_without_length_keeps_its_promise_and_takes_nobodys_processors():
    jobs = [job(1, 0, 4, 2, estimate_s=4), job(2, 0, 0, 4), job(3, 1, 4, 2, estimate_s=4)]

    run = play_pool(jobs, 4, "conservative", rules_of("conservative"), SimSettings())

    assert run.start_s == [0, 4, 4]


def test_fractions_that_add_up_to_the_promise_let_a_candidate_pass():
    # 2 is promised 0.1 + 4. 3.1 + 1 is no more than that, although the difference is below 1.
    jobs = [job(1, 0.1, 4, 1), job(2, 0.1, 5, 2), job(3, 3.1, 1, 1)]

    run = play_pool(jobs, 2, "easy", rules_of("easy"), SimSettings())

    assert run.start_s == [0.1, 0.1 + 4, 3.1]
