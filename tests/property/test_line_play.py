"""The quick play of a line against the plainest one: sums made anew at each moment, no packing."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.scheduling.answers.line_plan import FreeSteps, pack
from rota.scheduling.answers.line_play import LinePiece, Rule, play_line

KINDS = 2
Amounts = tuple[int, ...]


class Wish(NamedTuple):
    amounts: Amounts
    run_s: float
    believed_s: float

    @property
    def piece(self) -> LinePiece:
        return LinePiece(pack(self.amounts), self.run_s, self.believed_s, self.believed_s)


class Run(NamedTuple):
    end_s: float
    #: When the pass takes it to end, and its place in the line; those that ran before come first.
    believed_s: float
    place: int
    amounts: Amounts


def less(room: Amounts, amounts: Amounts) -> Amounts:
    return tuple(have - want for have, want in zip(room, amounts, strict=True))


def more(room: Amounts, amounts: Amounts) -> Amounts:
    return tuple(have + back for have, back in zip(room, amounts, strict=True))


def shadow(free: Amounts, runs: list[Run], asked: Amounts, now_s: float) -> tuple[float, Amounts]:
    """When the pass believes that there is room for this, and what is left over then."""
    ends_s = sorted({max(run.believed_s, now_s) for run in runs})
    for end_s in ends_s:
        room = free
        for run in runs:
            if max(run.believed_s, now_s) <= end_s:
                room = more(room, run.amounts)
        if min(less(room, asked)) >= 0:
            return end_s, less(room, asked)
    return inf, (0,) * KINDS


class Plain:
    """A line that is played moment by moment."""

    def __init__(self, rule: Rule, free: Amounts, running: list[Wish], line: list[Wish]) -> None:
        self.rule, self.free, self.line = rule, free, line
        self.runs = [
            Run(wish.run_s, wish.believed_s, at - len(running), wish.amounts)
            for at, wish in enumerate(running)
        ]
        self.waits, self.waiting, self.now_s = [inf] * len(line), [*range(len(line))], 0.0

    def play(self) -> list[float]:
        while self.waiting:
            while self.waiting and self.fits(self.waiting[0], self.free):
                self.start(self.waiting[0])
            if len(self.waiting) > 1 and self.rule is not Rule.NOTHING:
                self.let_pass()
            if not self.runs:
                break
            self.now_s = max(self.now_s, min(run.end_s for run in self.runs))
            for run in [run for run in self.runs if run.end_s <= self.now_s]:
                self.free = more(self.free, run.amounts)
                self.runs.remove(run)
        return self.waits

    def fits(self, place: int, room: Amounts) -> bool:
        return min(less(room, self.line[place].amounts)) >= 0

    def start(self, place: int) -> None:
        wish, now_s = self.line[place], self.now_s
        self.free = less(self.free, wish.amounts)
        self.runs.append(Run(now_s + wish.run_s, now_s + wish.believed_s, place, wish.amounts))
        self.waits[place] = now_s
        self.waiting.remove(place)

    def let_pass(self) -> None:
        line, (first, *behind) = self.line, self.waiting
        until_s, spare = inf, (0,) * KINDS
        if self.rule is not Rule.ANYTHING:
            until_s, spare = shadow(self.free, self.runs, line[first].amounts, self.now_s)
        if self.rule is Rule.SHORTEST:
            behind.sort(key=lambda place: (line[place].believed_s, place))
        for place in behind:
            harmless = self.now_s + line[place].believed_s <= until_s
            if self.fits(place, self.free) and (harmless or self.fits(place, spare)):
                if not harmless:
                    spare = less(spare, line[place].amounts)
                self.start(place)


amounts = st.tuples(st.integers(0, 4), st.integers(0, 3))
seconds = st.integers(1, 9).map(float)
wishes = st.builds(Wish, amounts, seconds, seconds)
RULES = (Rule.NOTHING, Rule.ANYTHING, Rule.HARMLESS, Rule.SHORTEST)


@given(st.sampled_from(RULES), amounts, st.lists(wishes, max_size=4), st.lists(wishes, max_size=10))
@settings(max_examples=400, deadline=None)
def test_a_line_is_played_as_by_plain_sums(
    rule: Rule, free: Amounts, running: list[Wish], line: list[Wish]
) -> None:
    pieces = [wish.piece for wish in line]

    waits = play_line(rule, pack(free), [wish.piece for wish in running], pieces, KINDS)

    assert waits == Plain(rule, free, running, line).play()


def test_on_steps_what_ends_now_ends_now_whatever_ends_before_it_were_owed() -> None:
    steps = FreeSteps(coarse=True)

    steps.near(0.5)

    assert steps.near(0.0) == 0.0
