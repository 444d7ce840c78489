"""When each job of a whole line starts if the policy's own rule is played on, and nobody comes.

A pass goes by how long jobs are *taken* to run: their limits, or what was predicted. They leave
when they leave. So a play has two clocks: a job holds its room for as long as such jobs really
take, while who may pass the first job that waits is decided by what the pass believes. The site
is taken as one large node, as in ``line_plan``, and amounts are packed in the same way.

Each moment at which room comes free costs one look at the jobs that wait. A long line is played
in steps of time, of which there are some hundreds.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.policy import Backfill
from rota.scheduling.answers.line_plan import LONG, FreeSteps, guards, plan_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.facts.policy import Policy

INFINITE = float("inf")


class Rule(Enum):
    """What may pass a job that waits."""

    NOTHING = "nothing"
    #: All that fits.
    ANYTHING = "anything"
    #: What does not put off the first one, by what the pass believes.
    HARMLESS = "harmless"
    #: The shortest of these is asked first.
    SHORTEST = "shortest"
    #: Each job has room set aside.
    PLANNED = "planned"


class LinePiece(NamedTuple):
    """What a job takes, for how long it holds that, and what the pass believes of it."""

    amount: int
    run_s: float
    #: How long it counts against others while it waits.
    passes_s: float
    #: When it is taken to leave, once it runs.
    stays_s: float


def rule_of(policy: Policy) -> Rule:
    rules = policy.backfill
    if rules.kind is Backfill.NONE:
        return Rule.NOTHING if policy.order.strict else Rule.ANYTHING
    if rules.kind is Backfill.CONSERVATIVE:
        return Rule.PLANNED
    return Rule.SHORTEST if rules.shortest else Rule.HARMLESS


def play_line(
    rule: Rule,
    free: int,
    running: Sequence[LinePiece],
    line: Sequence[LinePiece],
    kinds: int = 1,
    last: int | None = None,
) -> list[float]:
    """How long each job of the line waits, in order; infinite for one that never finds room.

    ``free`` is what nobody holds now; of jobs that run the times that are left count. ``last``:
    once this place of the line is known, the others are of no interest and stay infinite.
    """
    if rule is Rule.PLANNED:
        until = len(line) if last is None else last + 1
        pieces = [(piece.amount, piece.run_s) for piece in line[:until]]
        given = [(piece.amount, piece.run_s) for piece in running]
        return [*plan_line(free, given, pieces, kinds)]
    play = _Play(rule, free, running, line, guards(kinds))
    while play.waiting and (last is None or play.starts_s[last] == INFINITE):
        play.look()
        if not play.go_on():
            break
    return play.starts_s


class _Play:
    """A line while it is played."""

    def __init__(
        self,
        rule: Rule,
        free: int,
        running: Sequence[LinePiece],
        line: Sequence[LinePiece],
        guard: int,
    ) -> None:
        self._rule, self._free, self._line, self._guard = rule, free, line, guard
        self._steps = FreeSteps(coarse=len(line) > LONG)
        self._now_s = 0.0
        #: What runs, in the order in which the pass takes it to leave.
        self._taken = [
            (piece.stays_s, place - len(running), piece.amount)
            for place, piece in enumerate(running)
        ]
        #: The same in the order in which it does.
        self._ends = [
            (self._steps.near(piece.run_s), taken)
            for piece, taken in zip(running, self._taken, strict=True)
        ]
        self._taken.sort()
        heapify(self._ends)
        self.waiting = [*range(len(line))]
        self.starts_s = [INFINITE] * len(line)
        self._amounts = {piece.amount for piece in line}
        #: Whom the pass asks first, of those that may pass another.
        self._ranks = _ranks(line) if rule is Rule.SHORTEST else []

    def look(self) -> None:
        """One pass: the first ones that fit start, and behind the next what may pass it."""
        line, first = self._line, 0
        while first < len(self.waiting) and self._fits(line[self.waiting[first]].amount):
            self._start(self.waiting[first])
            first += 1
        waiting = self.waiting[first:]
        if waiting and self._rule is not Rule.NOTHING:
            # Few amounts are asked for, by many jobs.
            small = {amount for amount in self._amounts if self._fits(amount)}
            among = [place for place in waiting[1:] if line[place].amount in small] if small else []
            if among:
                gone = self._pass_by(waiting[0], among)
                waiting = [place for place in waiting if place not in gone]
        self.waiting = waiting

    def go_on(self) -> bool:
        """To the next moment at which room comes free; False: there is none."""
        ends = self._ends
        if not ends:
            return False
        self._now_s = max(self._now_s, ends[0][0])
        while ends and ends[0][0] <= self._now_s:
            _, taken = heappop(ends)
            del self._taken[bisect_left(self._taken, taken)]
            self._free += taken[2]
        return True

    def _pass_by(self, head: int, among: list[int]) -> set[int]:
        """Start what may pass the head."""
        line, gone = self._line, set[int]()
        until_s, spare = INFINITE, 0
        if self._rule is not Rule.ANYTHING:
            until_s, spare = self._shadow(line[head].amount)
        if self._rule is Rule.SHORTEST:
            among.sort(key=self._ranks.__getitem__)
        for place in among:
            piece = line[place]
            if not self._fits(piece.amount):
                continue
            if self._now_s + piece.passes_s > until_s:
                if not self._holds(spare, piece.amount):
                    continue
                spare -= piece.amount
            self._start(place)
            gone.add(place)
        return gone

    def _shadow(self, amount: int) -> tuple[float, int]:
        """When the first one finds room as the pass believes, and what it leaves over then."""
        free, until_s = self._free, INFINITE
        for stays_s, _, held in self._taken:
            end_s = max(stays_s, self._now_s)
            if until_s < end_s:
                break
            free += held
            if self._holds(free, amount):
                until_s = end_s
        return until_s, free - amount if until_s < INFINITE else 0

    def _start(self, place: int) -> None:
        piece, now_s = self._line[place], self._now_s
        self.starts_s[place] = now_s
        self._free -= piece.amount
        taken = (now_s + piece.stays_s, place, piece.amount)
        insort(self._taken, taken)
        heappush(self._ends, (self._steps.near(now_s + piece.run_s), taken))

    def _fits(self, amount: int) -> bool:
        return self._holds(self._free, amount)

    def _holds(self, room: int, amount: int) -> bool:
        guard = self._guard
        return (((room | guard) - amount) & guard) == guard


def _ranks(line: Sequence[LinePiece]) -> list[int]:
    """Which place each job has if the shortest comes first."""
    ranks = [0] * len(line)
    for rank, place in enumerate(sorted(range(len(line)), key=lambda at: line[at].passes_s)):
        ranks[place] = rank
    return ranks
