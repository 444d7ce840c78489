"""Intervals: they hold the mean, tell chance from effect, and come out the same every time."""

from math import inf

from rota.sim.bootstrap import difference, intervals
from tests.sim.runs import steady


def test_equal_waits_leave_no_doubt():
    both = intervals(steady(100, [50]))

    assert both.mean_wait == (50, 50, 50)
    assert both.mean_bounded_slowdown == (1.5, 1.5, 1.5)


def test_an_interval_holds_the_mean_and_stays_within_the_blocks():
    # Two blocks: waits 0 and waits 100. A draw takes 0, 1 or 2 of each: means 0, 50 or 100.
    run = steady(8, [0, 0, 0, 0, 100, 100, 100, 100])

    both = intervals(run, blocks=2)

    assert both.mean_wait == (50, 0, 100)
    assert both.mean_bounded_slowdown == (1.5, 1, 2)


def test_bursts_widen_an_interval_although_the_waits_are_the_same():
    burst = steady(1000, [0] * 500 + [100] * 500)
    mixed = steady(1000, [0, 100])

    wide, narrow = intervals(burst).mean_wait, intervals(mixed).mean_wait

    assert wide.value == narrow.value == 50
    assert narrow.high - narrow.low < 1 < 20 < wide.high - wide.low


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    run = steady(500, [0, 3, 50, 7, 900, 1, 20])

    assert intervals(run, seed=7) == intervals(run, seed=7)
    assert intervals(run, seed=7) != intervals(run, seed=8)


def test_a_trace_too_short_for_blocks_has_no_interval():
    assert intervals(steady(99, [1])) is None
    assert intervals(steady(100, [1])) is not None
    assert difference(steady(99, [1]), steady(99, [2])) is None


def test_jobs_that_never_ran_do_not_spoil_an_interval():
    run = steady(101, [10])
    run.start_s[3] = run.end_s[3] = inf

    assert intervals(run).mean_wait == (10, 10, 10)


def test_a_paired_difference_is_sure_where_the_single_means_are_not():
    waits = [0] * 500 + [1000] * 500
    easy = steady(1000, waits)
    better = steady(1000, [wait * 0.9 for wait in waits], "better")

    paired = difference(better, easy).mean_wait

    assert paired.value == -50
    assert paired.low < -50 < paired.high
    assert paired.excludes_zero
    assert intervals(easy).mean_wait.low < intervals(better).mean_wait.high


def test_a_difference_that_changes_its_sign_may_be_chance():
    one = steady(1000, [0] * 20 + [100] * 20)
    other = steady(1000, [100] * 20 + [0] * 20)

    assert not difference(one, other).mean_wait.excludes_zero


def test_runs_over_other_jobs_have_no_paired_difference():
    assert difference(steady(100, [1]), steady(101, [1])) is None
