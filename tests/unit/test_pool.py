"""Equal processors behind one line: who starts when."""

from rota.core.words.presets import preset
from rota.sim.policies import rules_of
from rota.sim.pool.easy import CountedPool
from rota.sim.pool.planned import PlannedPool
from rota.sim.pool.profile import FreeProfile, Pinned, lowest, numbers_of
from rota.sim.pool.ranked import RankedPool


def started(pool, now_s: float) -> list[int]:
    return [start.job for start in pool.decide(now_s).starts]


def busy(pool, size: int = 6, run_s: float = 100) -> None:
    """Job 0 holds most of it."""
    pool.arrive(0, size, run_s)
    assert started(pool, 0) == [0]


def test_with_easy_a_short_job_passes_the_first_and_a_long_one_does_not():
    pool = CountedPool(8, preset("easy"))
    busy(pool)
    pool.arrive(1, 8, 50)
    pool.arrive(2, 2, 101)
    pool.arrive(3, 2, 100)

    assert started(pool, 0) == [3]


def test_with_easy_a_long_job_may_run_on_what_the_first_leaves_over():
    pool = CountedPool(8, preset("easy"))
    busy(pool)
    pool.arrive(1, 7, 50)
    pool.arrive(2, 1, 5000)
    pool.arrive(3, 1, 5000)

    assert started(pool, 0) == [2]


def test_where_nothing_is_spare_only_those_who_are_gone_in_time_pass():
    rules = rules_of("easy", spare=False)
    for pool in (CountedPool(8, rules), PlannedPool(8, rules)):
        busy(pool)
        pool.arrive(1, 7, 50)
        pool.arrive(2, 1, 101)
        pool.arrive(3, 1, 100)

        assert started(pool, 0) == [3]


def test_an_arrival_that_fits_beside_the_promise_starts_at_once():
    pool = CountedPool(8, preset("easy"))
    busy(pool)
    pool.arrive(1, 8, 50)
    assert started(pool, 1) == []
    pool.arrive(2, 2, 90)
    pool.arrive(3, 2, 91)

    assert started(pool, 10) == [2]


def test_shortest_first_orders_the_candidates_only():
    pool = CountedPool(8, preset("easy-sjbf"))
    busy(pool)
    pool.arrive(1, 8, 50)
    pool.arrive(2, 2, 90)
    pool.arrive(3, 2, 10)

    assert started(pool, 0) == [3]
    pool.leave(0)
    assert started(pool, 5) == []
    pool.leave(3)
    assert started(pool, 10) == [1]


def test_strict_order_lets_nobody_pass():
    pool = CountedPool(8, preset("fcfs"))
    busy(pool)
    pool.arrive(1, 8, 50)
    pool.arrive(2, 1, 1)

    assert started(pool, 0) == []


def test_skipping_starts_whoever_fits():
    pool = CountedPool(8, preset("fifo"))
    busy(pool)
    pool.arrive(1, 8, 50)
    pool.arrive(2, 1, 5000)

    assert started(pool, 0) == [2]


def test_a_job_whose_time_is_up_leaves_its_room_to_an_arrival_of_the_same_second():
    for gone, expected in ((True, [1]), (False, [])):
        pool = CountedPool(8, preset("easy"), due_is_gone=gone)
        busy(pool)
        pool.arrive(1, 8, 50)

        assert started(pool, 100) == expected


def test_a_job_that_is_taken_to_run_longer_lets_others_pass_in_the_meantime():
    pool = CountedPool(8, preset("easy"))
    busy(pool)
    pool.arrive(1, 8, 50)
    pool.arrive(2, 2, 120)
    assert started(pool, 0) == []
    pool.expect(0, 200)

    assert started(pool, 80) == [2]


def test_when_the_first_is_withdrawn_those_behind_him_are_asked_again():
    pool = CountedPool(8, preset("easy"))
    busy(pool)
    pool.arrive(1, 8, 50)
    pool.arrive(2, 2, 5000)
    assert started(pool, 0) == []
    pool.withdraw(1)

    assert started(pool, 1) == [2]


def test_with_conservative_a_newcomer_delays_nobody_who_was_promised_a_slot():
    pool = PlannedPool(8, preset("conservative"))
    busy(pool)
    pool.arrive(1, 8, 50)
    pool.arrive(2, 4, 50)
    pool.arrive(3, 2, 100)
    assert started(pool, 0) == [3]
    # 4 would fit beside 0 and 3 were it not for 1, who begins at 100.
    pool.leave(3)
    pool.arrive(4, 2, 95)

    assert started(pool, 10) == []


def test_with_conservative_slots_move_forward_when_somebody_leaves_early():
    for name in ("conservative", "conservative-rebuild"):
        pool = PlannedPool(8, preset(name))
        busy(pool)
        pool.arrive(1, 8, 50)
        pool.arrive(2, 4, 50)
        assert started(pool, 0) == []
        pool.leave(0)

        assert started(pool, 40) == [1]
        pool.leave(1)
        assert started(pool, 60) == [2]


def test_a_slot_that_somebody_outstays_is_planned_anew():
    pool = PlannedPool(8, preset("conservative"))
    busy(pool)
    pool.arrive(1, 8, 50)
    assert started(pool, 0) == []
    pool.expect(0, 150)

    assert started(pool, 100) == []
    pool.leave(0)
    assert started(pool, 150) == [1]


def test_pinned_jobs_get_the_lowest_numbers_and_keep_to_the_nodes_they_were_promised():
    pool = PlannedPool(8, preset("easy"), pinned=True)
    pool.arrive(0, 2, 100)
    pool.arrive(1, 4, 10)
    held = {start.job: numbers_of(start.held) for start in pool.decide(0).starts}
    assert held == {0: [0, 1], 1: [2, 3, 4, 5]}
    # 2 is promised 2 to 7 at 10; only a job that is gone by then may use 6 and 7.
    pool.arrive(2, 6, 50)
    pool.arrive(3, 1, 11)
    pool.arrive(4, 1, 10)

    assert [(s.job, numbers_of(s.held)) for s in pool.decide(0).starts] == [(4, [6])]


def test_whoever_has_least_left_runs_and_others_give_way():
    pool = RankedPool(8)
    pool.arrive(0, 8, 100)
    assert started(pool, 0) == [0]
    pool.arrive(1, 4, 50)

    decision = pool.decide(10)

    assert [start.job for start in decision.starts] == [1]
    assert decision.evictions == [0]
    pool.advance(60)
    pool.leave(1)
    assert started(pool, 60) == [0]
    assert pool.left_s(0) == 90


def test_weighed_by_size_a_small_job_comes_before_a_shorter_large_one():
    for weighed, expected in ((False, [0]), (True, [1])):
        pool = RankedPool(8, weighed=weighed)
        pool.arrive(0, 8, 100)
        pool.arrive(1, 2, 150)

        assert started(pool, 0) == expected


def test_a_profile_finds_the_first_gap_that_is_long_enough():
    profile = FreeProfile(8)
    profile.take(0, 10, 6)
    profile.take(15, 40, 8)

    assert profile.earliest(4, 5) == (10, 4)
    assert profile.earliest(4, 6) == (40, 4)
    assert profile.earliest(2, 15) == (0, 2)
    assert profile.earliest(4, 6, before_s=40) is None


def test_a_pinned_profile_wants_the_same_numbers_all_the_time():
    profile = Pinned(4)
    profile.take(0, 10, 0b0011)
    profile.take(10, 20, 0b1100)

    assert profile.earliest(2, 10) == (0, 0b1100)
    assert profile.earliest(2, 11) == (10, 0b0011)
    assert lowest(0b110100, 2) == 0b010100
