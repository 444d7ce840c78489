"""What jobs would have been told at their submit about when they start, and what came of it.

A run knows when each job came, started and ended. It is gone through once more in order of time:
at a submit only what was known then counts. The plan takes run times as they were learned from
jobs that had ended, and bands as they were learned from jobs that had started. Beside it stands
the usual answer of schedulers: the same plan with time limits instead of run times.

Only jobs that had to wait are asked about: for the others the answer is "now", and it is right.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.resources import NOTHING
from rota.scheduling.answers.bands import SHARES, Bands, Word
from rota.scheduling.answers.line_plan import plan_line
from rota.scheduling.api import View
from rota.scheduling.later.predict import Predictor
from rota.scheduling.later.predict_runs import kinds_of
from rota.scheduling.order.keys import NO_SHARES
from rota.scheduling.order.orderings import ORDERINGS, order_key
from rota.sim.entries import Entries
from rota.sim.lengths import limit_s, taken_s
from rota.sim.measures import finished
from rota.sim.settings import BEGIN_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rota.core.facts.policy import Policy
    from rota.scheduling.answers.line_plan import Piece
    from rota.scheduling.later.predict_runs import Kind
    from rota.sim.run import Run
    from rota.sim.settings import Settings

#: What is told apart at one moment: ends come before starts, and starts before submits.
END, START, SUBMIT = 0, 1, 2
#: An answer this near is right to the second.
EXACT_S = 1.0


class Told(msgspec.Struct, frozen=True):
    """One job that had to wait: what it was told, and how long it really waited."""

    job: int
    said_s: float
    word: Word
    #: By time limits, in order.
    limits_s: float
    waited_s: float


class Foresight(msgspec.Struct, frozen=True):
    """How good the words were."""

    policy: str
    #: Jobs that had to wait, and of these the ones that were asked about.
    waited: int
    told: list[Told]

    @property
    def coverage(self) -> list[float]:
        """Of the starts, the share that each band held."""
        bands = ([each.word.bands_s[at] for each in self.told] for at in range(len(SHARES)))
        return [self._share(_holds(band, self.told)) for band in bands]

    @property
    def in_time(self) -> float:
        """The share that started by when nine in ten were to."""
        return self._share(each.waited_s <= each.word.most_s for each in self.told)

    @property
    def exact(self) -> float:
        """The share that started at the very second of the plan: no band can hold fewer."""
        return self._share(abs(each.word.planned_s - each.waited_s) < EXACT_S for each in self.told)

    @property
    def error_s(self) -> float:
        """The middle of how far off the expected start was."""
        return _middle(abs(each.word.wait_s - each.waited_s) for each in self.told)

    @property
    def limits_error_s(self) -> float:
        """The same for the plan by time limits."""
        return _middle(abs(each.limits_s - each.waited_s) for each in self.told)

    @property
    def median_wait_s(self) -> float:
        return _middle(each.waited_s for each in self.told)

    @property
    def figures(self) -> dict[str, object]:
        """All of them by name, for a summary."""
        return {
            "waited": self.waited,
            "asked": len(self.told),
            "median_wait": self.median_wait_s,
            "median_error": self.error_s,
            "median_error_by_limits": self.limits_error_s,
            "coverage": dict(zip(map(_percent, SHARES), self.coverage, strict=True)),
            "nine_in_ten": self.in_time,
            "exact": self.exact,
        }

    def _share(self, hits: Iterable[bool]) -> float:
        return sum(hits) / len(self.told) if self.told else 0.0


def foresee(run: Run, policy: Policy | None, settings: Settings, every: int = 1) -> Foresight:
    """Go through a run again; of the jobs that had to wait each ``every``-th is asked about.

    ``policy`` gives the order of the line; without one it is that of submission.
    """
    run = finished(run)
    going = _Going(run, policy, settings)
    events = [
        event
        for place, job in enumerate(run.jobs)
        for event in (
            (job.submit_s, SUBMIT, place),
            (run.start_s[place], START, place),
            (run.end_s[place], END, place),
        )
    ]
    told: list[Told] = []
    waited = 0
    for now_s, kind, place in sorted(events):
        if kind == END:
            going.ends(place)
        elif kind == START:
            going.starts(place, now_s)
        elif run.start_s[place] > now_s:
            going.submits(place)
            waited += 1
            if waited % every == 0:
                told.append(going.ask(place, now_s))
    return Foresight(run.policy, waited, told)


class _Going:
    """A run while it is gone through: who waits, who runs, and what was learned."""

    def __init__(self, run: Run, policy: Policy | None, settings: Settings) -> None:
        self._run = run
        self._taken_s = [taken_s(job, settings) for job in run.jobs]
        self._kinds: list[tuple[Kind, ...]] = [
            kinds_of(job.user, job.name, job.procs, taken)
            for job, taken in zip(run.jobs, self._taken_s, strict=True)
        ]
        self._order = _order_of(run, policy, settings)
        self._waiting: dict[int, None] = {}
        self._running: dict[int, float] = {}
        self._predictor = Predictor()
        self._bands = Bands()
        self._words: dict[int, tuple[float, Word]] = {}
        self._free = run.capacity

    def submits(self, place: int) -> None:
        self._waiting[place] = None

    def starts(self, place: int, now_s: float) -> None:
        self._waiting.pop(place, None)
        if said := self._words.pop(place, None):
            said_s, word = said
            self._bands.learn(word, now_s - said_s)
        if self._run.end_s[place] > now_s:
            self._running[place] = now_s
            self._free -= self._run.jobs[place].procs

    def ends(self, place: int) -> None:
        run, job = self._run, self._run.jobs[place]
        if self._running.pop(place, None) is not None:
            self._free += job.procs
        ran_s = run.end_s[place] - run.start_s[place]
        self._predictor.learn(job.user, job.name, job.procs, self._taken_s[place], ran_s)

    def ask(self, place: int, now_s: float) -> Told:
        line = self._order([*self._waiting], now_s)
        del line[line.index(place) + 1 :]
        learned, kinds, taken = self._predictor.middle_s, self._kinds, self._taken_s
        planned_s = self._plan(
            line, now_s, lambda at, ran_s: max(learned(kinds[at], taken[at], ran_s), 1.0)
        )
        limits_s = self._plan(line, now_s, lambda at, _: taken[at])
        word = self._bands.say(planned_s)
        self._words[place] = (now_s, word)
        job = self._run.jobs[place].id
        return Told(job, now_s, word, limits_s, self._run.start_s[place] - now_s)

    def _plan(
        self, line: Sequence[int], now_s: float, lasts_s: Callable[[int, float], float]
    ) -> float:
        """How long the last of the line waits if jobs last so long."""
        jobs = self._run.jobs
        running: list[Piece] = []
        for at, since_s in self._running.items():
            ran_s = now_s - since_s
            running.append((jobs[at].procs, max(lasts_s(at, ran_s) - ran_s, EXACT_S)))
        pieces = [(jobs[at].procs, lasts_s(at, 0.0)) for at in line]
        *_, wait_s = plan_line(max(self._free, 0), running, pieces)
        return wait_s


def _order_of(
    run: Run, policy: Policy | None, settings: Settings
) -> Callable[[list[int], float], list[int]]:
    """The order of the line at a moment, by the policy's own rule as far as jobs differ in it."""
    if policy is None or policy.order.primary == "fifo":
        return lambda waiting, _: waiting
    primary, secondary = ORDERINGS[policy.order.primary], ORDERINGS[policy.order.secondary]
    entries = Entries()
    made = [
        entries.entry(at, job, estimate or taken_s(job, settings), limit_s(job, settings))
        for at, (job, estimate) in enumerate(zip(run.jobs, run.estimate_s, strict=True))
    ]

    def order(waiting: list[int], now_s: float) -> list[int]:
        view = View(BEGIN_S + now_s, policy, NO_SHARES, NOTHING)
        return sorted(
            waiting, key=lambda at: (*order_key(made[at], view, primary, secondary, 0), at)
        )

    return order


def _holds(bands: Iterable[tuple[float, float]], told: Sequence[Told]) -> Iterable[bool]:
    return (low <= each.waited_s <= high for (low, high), each in zip(bands, told, strict=True))


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _middle(values: Iterable[float]) -> float:
    found = [*values]
    return median(found) if found else 0.0
