"""The order ``due``: length, priority and share as one moment, and what it bounds."""

import pytest
from msgspec.structs import replace

from rota.core.facts.policy import DEFAULT
from rota.scheduling.order.orderings import credit_s, due_s, passing_s, set_back_s
from rota.testing.stage import Stage
from tests.unit.test_orderings import entry, in_order, view
from tests.unit.test_waiting_bounds import node, spec

RULES = DEFAULT.order
HOUR_S, DAY_S = 3600.0, 86400.0


def due_order(*entries, **ratios):
    return in_order([*entries], view(DEFAULT, **ratios), "due", "fifo")


def test_a_short_job_comes_before_a_long_one_that_is_not_yet_due():
    long, short = entry(1, run_s=HOUR_S, waited_s=HOUR_S), entry(2, run_s=60.0)

    assert due_order(long, short) == [2, 1]


def test_a_long_job_that_is_due_comes_before_a_short_one():
    long, short = entry(1, run_s=HOUR_S, waited_s=21 * HOUR_S), entry(2, run_s=60.0)

    assert due_order(long, short) == [1, 2]


def test_what_is_ready_after_the_longest_due_time_never_comes_before():
    most_s = float(RULES.due_max_s + RULES.share_s)
    old = entry(1, user="heavy", run_s=100 * DAY_S, waited_s=most_s + 1.0)
    new = entry(2, user="light", run_s=1.0)

    assert due_order(old, new, heavy=1000.0) == [1, 2]


@pytest.mark.parametrize("high", [67, 75, 100])
def test_a_job_of_the_high_band_comes_before_the_middle_whatever_they_take(high):
    middle = entry(1, run_s=1.0, waited_s=12 * HOUR_S)
    urgent = entry(2, priority=high, run_s=30 * DAY_S)

    assert due_order(middle, urgent) == [2, 1]


def test_priority_zero_is_never_due():
    assert due_s(entry(priority=0, waited_s=300 * DAY_S), RULES) == float("inf")


def test_without_use_nothing_is_set_back_and_never_more_than_the_most():
    found = [set_back_s(ratio, RULES) for ratio in (0.0, 1.0, 10.0**9)]

    assert found == [0.0, RULES.share_s / 2, RULES.share_s]


def test_of_equal_jobs_the_account_that_used_less_comes_first():
    jobs = entry(1, user="heavy", waited_s=60.0), entry(2, user="light")

    assert due_order(*jobs, heavy=2.0, light=0.1) == [2, 1]


def test_jobs_that_may_pass_are_asked_by_length_until_the_long_one_has_waited():
    short = entry(1, run_s=60.0)
    fresh, old = (entry(2, run_s=600.0, waited_s=wait_s) for wait_s in (0.0, 9.1 * HOUR_S))

    assert passing_s(short, RULES) < passing_s(fresh, RULES)
    assert passing_s(old, RULES) < passing_s(short, RULES)


def test_the_longest_job_that_waited_thrice_the_longest_due_time_is_asked_before_what_comes():
    young = entry(1, run_s=1.0)
    fresh, old = (entry(2, run_s=1e9, waited_s=wait_s) for wait_s in (0.0, 3.0 * RULES.due_max_s))

    assert passing_s(old, RULES) < passing_s(young, RULES) < passing_s(fresh, RULES)


def test_the_middle_priority_is_worth_nothing_and_the_higher_more():
    worth = [credit_s(priority, RULES) for priority in (1, 25, 50, 60, 75, 100)]

    assert worth == sorted(worth)
    assert worth[2] == 0.0


@pytest.mark.parametrize(("trust_s", "passes"), [(3600, True), (600, False)])
def test_from_trust_s_on_only_a_limit_lets_a_job_past_the_first(trust_s, passes):
    policy = replace(DEFAULT, backfill=replace(DEFAULT.backfill, trust_s=trust_s))
    stage = Stage([node("n0", cpus=4)], policy, checked=False)
    stage.submit(spec(cpus=3, time_limit_s=7200))
    stage.submit(spec(cpus=4, time_limit_s=7200))
    stage.run()
    stage.now_s += 1200

    # Jobs of its kind take a minute, as far as is known; its limit would let it stay for a day.
    told = {"predicted_s": 60, "predicted_most_s": 120, "priority": 25}
    quick = stage.submit(spec(cpus=1, time_limit_s=86400, **told))
    stage.run()

    assert (quick in stage.started_s) is passes
