"""The pool against plain rules: nobody is passed over, delayed or squeezed in."""

import random
from heapq import heappop, heappush

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.words.presets import preset
from rota.sim.pool.api import INFINITE
from rota.sim.pool.easy import CountedPool
from rota.sim.pool.line import PoolLine
from rota.sim.pool.planned import PlannedPool

TOTAL = 8
SIZES = st.integers(1, TOTAL)
TIMES = st.sampled_from([1, 2, 5, 9, 30])
#: Seconds since the one before, size, estimate, share of it that the job really runs.
JOBS = st.lists(
    st.tuples(st.sampled_from([0, 0, 1, 3, 12]), SIZES, TIMES, st.sampled_from([0.2, 0.6, 1.0])),
    max_size=40,
)


@given(
    st.lists(st.tuples(SIZES, TIMES), max_size=200),
    st.integers(0, TOTAL),
    TIMES,
    st.integers(0, TOTAL),
    st.randoms(use_true_random=False),
)
def test_a_line_chooses_whom_a_plain_look_at_everybody_chooses(
    jobs: list[tuple[int, int]], free: int, window_s: int, spare: int, chance: random.Random
):
    line = PoolLine()
    waiters = [((float(number),), size, run_s, number) for number, (size, run_s) in enumerate(jobs)]
    for waiter in chance.sample(waiters, len(waiters)):
        line.add(waiter)
    for waiter in chance.sample(waiters, len(waiters) // 3):
        line.remove(waiter)
        waiters.remove(waiter)

    assert [*line] == waiters
    assert line.choose(free, 0, window_s, spare) == plainly(waiters, free, window_s, spare)


def plainly(waiters, free: int, window_s: float, spare: int):
    chosen = []
    for waiter in waiters:
        _, size, run_s, _ = waiter
        if size <= free and (run_s <= window_s or size <= spare):
            free -= size
            spare -= size if run_s > window_s else 0
            chosen.append(waiter)
    return chosen


def play(pool, jobs, watch=None) -> dict[int, float]:
    """Batch by batch; ``watch`` sees the pool after each pass."""
    comes, now_s = [], 0
    for gap_s, size, estimate_s, share in jobs:
        now_s += gap_s
        comes.append((now_s, size, estimate_s, estimate_s * share))
    starts: dict[int, float] = {}
    ends: list[tuple[float, int]] = []
    used, at, wake_s = 0, 0, INFINITE
    while at < len(comes) or ends or wake_s != INFINITE:
        moments = [come[0] for come in comes[at : at + 1]] + [end[0] for end in ends[:1]]
        now_s = min([*moments, wake_s])
        while ends and ends[0][0] <= now_s:
            job = heappop(ends)[1]
            pool.leave(job)
            used -= comes[job][1]
        while at < len(comes) and comes[at][0] <= now_s:
            pool.arrive(at, comes[at][1], comes[at][2])
            at += 1
        decision = pool.decide(now_s)
        wake_s = decision.wake_s
        for start in decision.starts:
            starts[start.job] = now_s
            used += comes[start.job][1]
            heappush(ends, (now_s + comes[start.job][3], start.job))
        assert used <= TOTAL
        if watch is not None:
            watch(now_s, at, starts)
    assert len(starts) == len(jobs)
    return starts


@pytest.mark.parametrize("policy", ["fcfs", "fifo", "easy", "easy-sjbf"])
@given(jobs=JOBS)
def test_everybody_starts_and_nothing_is_given_out_twice(policy: str, jobs):
    starts = play(CountedPool(TOTAL, preset(policy)), jobs)

    assert sorted(starts) == list(range(len(jobs)))


@given(jobs=JOBS)
def test_fcfs_starts_jobs_in_the_order_they_came(jobs):
    starts = play(CountedPool(TOTAL, preset("fcfs")), jobs)

    moments = [starts[job] for job in range(len(jobs))]
    assert moments == sorted(moments)


@given(jobs=JOBS)
def test_with_exact_estimates_conservative_starts_nobody_later_than_strict_order(jobs):
    jobs = [(gap_s, size, run_s, 1.0) for gap_s, size, run_s, _ in jobs]

    strict = play(CountedPool(TOTAL, preset("fcfs")), jobs)
    planned = play(PlannedPool(TOTAL, preset("conservative")), jobs)

    assert all(planned[job] <= strict[job] for job in strict)


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("policy", ["conservative", "conservative-rebuild", "easy"])
@given(jobs=JOBS)
def test_a_planned_pool_starts_everybody(policy: str, pinned: bool, jobs):
    starts = play(PlannedPool(TOTAL, preset(policy), pinned=pinned), jobs)

    assert sorted(starts) == list(range(len(jobs)))


@given(jobs=JOBS)
def test_a_slot_once_given_is_only_ever_exchanged_for_an_earlier_one(jobs):
    pool = PlannedPool(TOTAL, preset("conservative"))
    promised: dict[int, float] = {}

    def watch(now_s: float, came: int, starts: dict[int, float]) -> None:
        for job in range(came):
            slot_s = starts[job] if job in starts else pool.slot_s(job)
            assert slot_s <= promised.get(job, slot_s)
            promised[job] = slot_s

    play(pool, jobs, watch)


@given(jobs=JOBS)
def test_easy_never_delays_the_first_beyond_the_start_that_it_was_first_promised(jobs):
    pool = CountedPool(TOTAL, preset("easy"))
    promised: dict[int, float] = {}

    def watch(now_s: float, came: int, starts: dict[int, float]) -> None:
        first = next((job for job in range(came) if job not in starts), None)
        for job, shadow_s in promised.items():
            assert starts.get(job, 0) <= shadow_s
        if first is not None:
            promised.setdefault(first, pool.shadow_s)

    play(pool, jobs, watch)


@given(jobs=JOBS)
def test_counting_and_planning_agree_on_easy(jobs):
    counted = play(CountedPool(TOTAL, preset("easy")), jobs)
    planned = play(PlannedPool(TOTAL, preset("easy")), jobs)

    assert counted == planned
