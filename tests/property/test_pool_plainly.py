"""The pool and its profiles against the plainest code: second by second, everybody asked anew."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.words.presets import preset
from rota.sim.policies import rules_of
from rota.sim.pool.api import INFINITE
from rota.sim.pool.easy import CountedPool
from rota.sim.pool.profile import FreeProfile, Pinned, Slot

TOTAL = 5
#: Nothing changes from then on, and no job of these runs longer.
LAST_S, LONGEST_S = 40, 12

takes = st.tuples(
    st.integers(0, 25), st.sampled_from((0, 1, 3, 7, 12, INFINITE)), st.integers(0, 2**TOTAL - 1)
)
deeds = st.lists(
    st.one_of(
        takes,
        takes,
        st.sampled_from(("give back", "join")),
        st.integers(0, 30).map(lambda now_s: ("advance", now_s)),
    ),
    max_size=14,
)


def played(profile: FreeProfile, free: list[int], story: list, take, give_back) -> int:
    """The same deeds in a profile and second by second; gives the present."""
    now_s, held = 0, []
    for deed in story:
        if deed == "join":
            profile.join()
        elif deed == "give back":
            start_s, end_s, some = held.pop() if held else (0, 0, 0)
            profile.give_back(start_s, end_s, some)
            change(free, max(start_s, now_s), end_s, lambda had, s=some: give_back(had, s))
        elif deed[0] == "advance":
            profile.advance(deed[1])
            now_s = max(now_s, deed[1])
        else:
            start_s, length_s, some = deed
            held.append((start_s, start_s + length_s, some))
            profile.take(*held[-1])
            change(free, max(start_s, now_s), start_s + length_s, lambda had, s=some: take(had, s))
    return now_s


def change(free: list[int], start_s: int, end_s: float, how) -> None:
    for second in range(start_s, int(min(end_s, len(free)))):
        free[second] = how(free[second])


def questions(now_s: int) -> list[tuple[int, int, float]]:
    bounds = (now_s, now_s + 3, now_s + 9, INFINITE)
    return [
        (size, run_s, b) for size in (1, 2, TOTAL) for run_s in (1, 4, LONGEST_S) for b in bounds
    ]


@settings(max_examples=150)
@given(deeds)
def test_counted_room_is_found_at_the_first_second_from_which_it_stays(story):
    profile, free = FreeProfile(TOTAL), [TOTAL] * (LAST_S + LONGEST_S)
    now_s = played(profile, free, story, lambda had, some: had - some, lambda had, some: had + some)

    for size, run_s, before_s in questions(now_s):
        fitting = [
            second for second in range(now_s, LAST_S) if min(free[second : second + run_s]) >= size
        ]
        first = Slot(fitting[0], size) if fitting and fitting[0] < before_s else None
        assert profile.earliest(size, run_s, before_s) == first
        assert profile.fits_now(size, run_s) == (Slot(now_s, size) if now_s in fitting else None)


@settings(max_examples=150)
@given(deeds)
def test_pinned_room_is_the_lowest_numbers_that_stay_free(story):
    profile, free = Pinned(TOTAL), [2**TOTAL - 1] * (LAST_S + LONGEST_S)
    now_s = played(
        profile, free, story, lambda had, some: had & ~some, lambda had, some: had | some
    )

    for size, run_s, before_s in questions(now_s):
        slots = [plain_slot(free, second, size, run_s) for second in range(now_s, LAST_S)]
        first = next(filter(None, slots), None)
        early = first is not None and first.start_s < before_s
        assert profile.earliest(size, run_s, before_s) == (first if early else None)
        assert profile.fits_now(size, run_s) == slots[0]


@settings(max_examples=150)
@given(
    runners=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 3)), max_size=4),
    jobs=st.lists(st.tuples(st.integers(1, TOTAL), st.integers(1, 9)), min_size=1, max_size=8),
    gone=st.integers(0, 3),
    now_s=st.integers(0, 3),
)
def test_a_slot_moves_to_where_it_would_be_if_it_were_given_back_first(runners, jobs, gone, now_s):
    profile = FreeProfile(TOTAL)
    for end_s, size in runners[:]:
        if size <= profile.free[0]:
            profile.take(0, end_s, size)
        else:
            runners.remove((end_s, size))
    slots = []
    for size, run_s in jobs:
        slots.append(profile.earliest(size, run_s))
        profile.take(slots[-1].start_s, slots[-1].start_s + run_s, size)
    profile.advance(now_s)
    for end_s, size in runners[gone:]:
        profile.give_back(now_s, end_s, size)

    for (_, run_s), slot in zip(jobs, slots, strict=True):
        if slot.start_s <= now_s:
            continue
        plain = FreeProfile(TOTAL)
        plain.times, plain.free = [*profile.times], [*profile.free]
        plain.give_back(slot.start_s, slot.start_s + run_s, slot.held)
        best = plain.earliest(slot.held, run_s)
        plain.take(best.start_s, best.start_s + run_s, best.held)

        assert profile.moved(slot, run_s) == best
        profile.join()
        plain.join()
        assert (profile.times, profile.free) == (plain.times, plain.free)


def plain_slot(free: list[int], second: int, size: int, run_s: int) -> Slot | None:
    numbers = [
        number
        for number in range(TOTAL)
        if all(some >> number & 1 for some in free[second : second + run_s])
    ]
    held = sum(1 << number for number in numbers[:size])
    return Slot(second, held) if len(numbers) >= size else None


class PlainPool:
    """The rules in a few lines: in every pass all who wait are asked, from the first on."""

    def __init__(self, kind: str, *, spares: bool, gone: bool) -> None:
        self.kind, self.spares, self.gone = kind, spares, gone
        #: By job: size and time; when it is taken to end and size.
        self.waiting: dict[int, tuple[int, float]] = {}
        self.running: dict[int, tuple[float, int]] = {}

    def decide(self, now_s: float) -> list[int]:
        if self.gone:
            self.running = {job: one for job, one in self.running.items() if one[0] > now_s}
        free = TOTAL - sum(size for _, size in self.running.values())
        starts: list[int] = []
        for job, (size, run_s) in [*self.waiting.items()]:
            if size > free:
                break
            starts.append(job)
            free -= size
            self.start(job, now_s + run_s)
        if self.waiting and self.kind != "fcfs":
            starts += self._pass_by(now_s, free)
        return starts

    def _pass_by(self, now_s: float, free: int) -> list[int]:
        head, starts = next(iter(self.waiting)), []
        shadow_s, spare = self.promise(self.waiting[head][0], now_s)
        others = [(run_s, job, size) for job, (size, run_s) in self.waiting.items() if job != head]
        if self.kind == "easy-sjbf":
            others.sort()
        for run_s, job, size in others:
            in_time = now_s + run_s <= shadow_s or self.kind == "fifo"
            if size <= free and (in_time or size <= spare):
                free -= size
                spare -= 0 if in_time else size
                starts.append(job)
                self.start(job, now_s + run_s)
        return starts

    def promise(self, wanted: int, now_s: float) -> tuple[float, int]:
        """When the first finds room, and what it leaves over then."""
        ends = sorted(self.running.values())
        for end_s, _ in ends:
            free = TOTAL - sum(size for until_s, size in ends if until_s > end_s)
            if free >= wanted:
                return max(end_s, now_s), free - wanted if self.spares else 0
        raise AssertionError("an empty pool has room for everybody")

    def start(self, job: int, end_s: float) -> None:
        self.running[job] = (end_s, self.waiting.pop(job)[0])


steps = st.lists(
    st.tuples(
        st.sampled_from(("come", "come", "come", "go", "withdraw", "expect", "hold", "time")),
        st.integers(0, 9),
        st.integers(1, TOTAL),
        st.sampled_from((1, 2, 5, 9, 30)),
    ),
    max_size=60,
)
rules = {
    "fcfs": preset("fcfs"),
    "fifo": preset("fifo"),
    "easy": preset("easy"),
    "easy-sjbf": preset("easy-sjbf"),
    "easy without spare": rules_of("easy", spare=False),
}


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("kind", rules)
@given(story=steps)
def test_a_pool_starts_whom_a_look_at_everybody_starts(kind, gone, story):
    pool = CountedPool(TOTAL, rules[kind], due_is_gone=gone)
    plain = PlainPool(kind.partition(" ")[0], spares="without" not in kind, gone=gone)
    now_s = 0.0
    for number, (what, which, size, run_s) in enumerate(story):
        waiting, running = sorted(plain.waiting), sorted(plain.running)
        if what == "come":
            pool.arrive(number, size, run_s)
            plain.waiting[number] = (size, run_s)
        elif what == "hold" and size + sum(one for _, one in plain.running.values()) <= TOTAL:
            pool.hold(number, size, now_s + run_s)
            plain.running[number] = (now_s + run_s, size)
        elif what == "withdraw" and waiting:
            pool.withdraw(waiting[which % len(waiting)])
            del plain.waiting[waiting[which % len(waiting)]]
        elif what == "go" and running:
            pool.leave(running[which % len(running)])
            del plain.running[running[which % len(running)]]
        elif what == "expect" and running:
            job = running[which % len(running)]
            pool.expect(job, float(which))
            plain.running[job] = (float(which), plain.running[job][1])
        now_s += which if what == "time" else 0

        assert [start.job for start in pool.decide(now_s).starts] == plain.decide(now_s)
        assert pool.first == next(iter(plain.waiting), None)
        if plain.waiting and kind.startswith("easy"):
            first_size = next(iter(plain.waiting.values()))[0]
            assert max(pool.shadow_s, now_s) == plain.promise(first_size, now_s)[0]
