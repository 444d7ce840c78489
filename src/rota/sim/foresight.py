"""What jobs would have been told at their submit about when they start, and what came of it.

A run knows when each job came, started and ended. It is gone through once more in order of time:
at a submit only what was known then counts. The plan plays the line on by the policy's own rule,
with run times as they were learned from jobs that had ended, and bands as they were learned from
jobs that had started. Beside it stands the usual answer of schedulers: each job in order at the
earliest room, and time limits instead of run times.

Only jobs that had to wait are asked about: for the others the answer is "now", and it is right.
"""

from __future__ import annotations

from itertools import zip_longest
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.resources import NOTHING
from rota.scheduling.answers.bands import SHARES, Bands, Word
from rota.scheduling.answers.line_plan import plan_line
from rota.scheduling.answers.line_play import LinePiece, Rule, play_line, rule_of
from rota.scheduling.answers.words import Said, ToldWords
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
    from rota.scheduling.later.predict_runs import Kind
    from rota.sim.run import Run
    from rota.sim.settings import SimSettings

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
    def shared(self) -> list[float]:
        """The same with starts on the very edge of a band counted in part (``Word.edges``)."""
        held = zip(*(each.word.held(each.waited_s) for each in self.told), strict=True)
        return [sum(each) / len(self.told) for each in held] or [0.0] * len(SHARES)

    @property
    def in_time(self) -> float:
        """The share that started by when nine in ten were to."""
        return self._share(each.word.has_started(each.waited_s) for each in self.told)

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
            "coverage_edges_shared": dict(zip(map(_percent, SHARES), self.shared, strict=True)),
            "nine_in_ten": self.in_time,
            "exact": self.exact,
        }

    def _share(self, hits: Iterable[bool]) -> float:
        return sum(hits) / len(self.told) if self.told else 0.0


def foresee(run: Run, policy: Policy | None, settings: SimSettings, every: int = 1) -> Foresight:
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

    def __init__(self, run: Run, policy: Policy | None, settings: SimSettings) -> None:
        self._run = run
        self._taken_s = [taken_s(job, settings) for job in run.jobs]
        #: What the policy took them to run, where it was another time.
        self._estimate_s = [
            estimate or taken
            for estimate, taken in zip_longest(run.estimate_s, self._taken_s, fillvalue=0.0)
        ]
        self._kinds: list[tuple[Kind, ...]] = [
            kinds_of(job.user, job.name, job.procs, taken)
            for job, taken in zip(run.jobs, self._taken_s, strict=True)
        ]
        self._order = _order_of(run, policy, settings)
        self._rule = Rule.HARMLESS if policy is None else rule_of(policy)
        self._waiting: dict[int, None] = {}
        self._running: dict[int, float] = {}
        self._predictor = Predictor()
        self._bands = Bands()
        self._words = ToldWords()
        self._free = run.capacity

    def submits(self, place: int) -> None:
        self._waiting[place] = None

    def starts(self, place: int, now_s: float) -> None:
        self._waiting.pop(place, None)
        self._words.start(place, now_s, self._bands)
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
        at = line.index(place)
        self._words.pass_time(now_s, self._bands)
        word = self._bands.say(self._played(line, at, now_s))
        self._words.keep(place, Said(now_s, word))
        job = self._run.jobs[place].id
        limits_s = self._by_limits(line[: at + 1], now_s)
        return Told(job, now_s, word, limits_s, self._run.start_s[place] - now_s)

    def _played(self, line: Sequence[int], last: int, now_s: float) -> float:
        """How long one of the line waits if the rule is played on with learned run times."""
        jobs, taken, estimates = self._run.jobs, self._taken_s, self._estimate_s
        running = [
            LinePiece(
                jobs[at].procs,
                max(self._lasts_s(at, now_s - since_s) - (now_s - since_s), EXACT_S),
                0.0,
                max(taken[at] - (now_s - since_s), EXACT_S),
            )
            for at, since_s in self._running.items()
        ]
        pieces = [
            LinePiece(jobs[at].procs, self._lasts_s(at, 0.0), estimates[at], taken[at])
            for at in line
        ]
        return play_line(self._rule, max(self._free, 0), running, pieces, last=last)[last]

    def _lasts_s(self, at: int, ran_s: float) -> float:
        """How long such jobs took that ran for so long."""
        return max(self._predictor.middle_s(self._kinds[at], self._taken_s[at], ran_s), EXACT_S)

    def _by_limits(self, line: Sequence[int], now_s: float) -> float:
        """How long the last of the line waits if each job stays for as long as it may."""
        jobs, taken = self._run.jobs, self._taken_s
        running = [
            (jobs[at].procs, max(taken[at] - (now_s - since_s), EXACT_S))
            for at, since_s in self._running.items()
        ]
        pieces = [(jobs[at].procs, float(taken[at])) for at in line]
        *_, wait_s = plan_line(max(self._free, 0), running, pieces)
        return wait_s


def _order_of(
    run: Run, policy: Policy | None, settings: SimSettings
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
