"""What jobs are worth when one wants the room of another: by priority, or by length.

By length a job that is taken to run half as long is worth 100 more. A run that outlives what it
was taken to last is taken to last twice as long, so it is worth 100 less from then on: a job of
which nobody knew how long it is gives way to shorter ones in the end.
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import heappop, heappush
from math import log2
from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.policy import PreemptBy
from rota.scheduling.order.lengths import run_s_of
from rota.scheduling.order.orderings import effective_priority, worth_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rota.core.cluster import Cluster
    from rota.core.facts.job import Job
    from rota.scheduling.api import Entry, View

INFINITE = float("inf")
#: What half the length is worth.
HALVED = 100.0
#: Nothing is taken to last longer than this many seconds.
LONGEST_S = 1e12


class Length(NamedTuple):
    """How long a running job may be taken to run."""

    #: 0: it does not run yet.
    started_s: float
    #: What it was taken to run when it started, and its limit.
    run_s: float
    limit_s: float


class Fading:
    """From when on some running jobs are worth no more than any amount, as far as they are now."""

    __slots__ = ("_amounts", "_first_s")

    def __init__(self, lengths: Iterable[Length], now_s: float) -> None:
        #: From each amount on up to the next one, the first moment of any job.
        self._amounts: list[float] = []
        self._first_s: list[float] = []
        spans = sorted([span for each in lengths for span in _spans(each, now_s)])
        open_spans: list[tuple[float, float]] = []
        amounts = sorted({edge for low, high, _ in spans for edge in (low, high)})
        at = 0
        for amount in amounts:
            while at < len(spans) and spans[at][0] <= amount:
                heappush(open_spans, (spans[at][2], spans[at][1]))
                at += 1
            while open_spans and open_spans[0][1] <= amount:
                heappop(open_spans)
            self._amounts.append(amount)
            self._first_s.append(open_spans[0][0] if open_spans else INFINITE)

    def below_s(self, amount: float) -> float:
        """When the first that is worth more than this no longer is; infinite: never."""
        at = bisect_right(self._amounts, amount) - 1
        return self._first_s[at] if at >= 0 else INFINITE


def _spans(length: Length, now_s: float) -> Iterator[tuple[float, float, float]]:
    """Each time that a job is taken to last twice as long: what it is worth from then on, what
    it was worth before, and when."""
    started_s, run_s, limit_s = length
    while run_s < limit_s and run_s < LONGEST_S:
        low, high = _of_length(min(2.0 * run_s, limit_s)), _of_length(run_s)
        if started_s + run_s > now_s and low < high:
            yield low, high, started_s + run_s
        run_s *= 2.0


class Worth:
    """Made for each pass, in which no job starts to run or leaves."""

    def __init__(self, cluster: Cluster, view: View) -> None:
        self._cluster = cluster
        self._view = view
        self.by_length = cluster.policy.preempt.by is PreemptBy.LENGTH
        self._lengths: dict[int, Length] = {}
        #: By node; the empty name stands for all of them.
        self._fading: dict[str, Fading] = {}

    def of(self, entry: Entry) -> float:
        """A job that waits."""
        if self.by_length:
            return _of_length(entry.run_s)
        return effective_priority(entry, self._view)

    def of_running(self, job: Job) -> float:
        """A job whose wait is over, so that age does not count."""
        if self.by_length:
            return _of_length(self._lasts_s(job))
        return worth_of(job.spec, 0.0, self._view)

    def fades_on_s(self, name: str, below: float) -> float:
        """When the first job on a node that is worth more than this no longer is; infinite: never.

        That one is worth less already is known, and was looked at.
        """
        if not self.by_length:
            return INFINITE
        return self._fading_on(name).below_s(below)

    def fades_s(self, below: float) -> float:
        """The same on all nodes."""
        return self._fading_on("").below_s(below) if self.by_length else INFINITE

    def _fading_on(self, name: str) -> Fading:
        known = self._fading.get(name)
        if known is None:
            nodes, where, jobs = (self._cluster.nodes, self._cluster.live.where, self._cluster.jobs)
            every = (nodes[name],) if name else nodes.values()
            here = {where[uid][0] for node in every for uid in node.live}
            lengths = [self._length(jobs[job]) for job in here]
            running = [each for each in lengths if each.started_s]
            known = self._fading[name] = Fading(running, self._view.now_s)
        return known

    def _length(self, job: Job) -> Length:
        known = self._lengths.get(job.id)
        if known is None:
            run_s = max(run_s_of(self._cluster, job.spec, job.spec.roles), 1.0)
            limit_s = float(job.spec.time_limit_s or INFINITE)
            known = self._lengths[job.id] = Length(job.started_s, run_s, limit_s)
        return known

    def _lasts_s(self, job: Job) -> float:
        """How long a running job is taken to run, all in all."""
        started_s, run_s, limit_s = self._length(job)
        while started_s and started_s + run_s <= self._view.now_s and run_s < limit_s:
            run_s *= 2.0
        return min(run_s, limit_s)


def _of_length(run_s: float) -> float:
    return -HALVED * log2(max(run_s, 1.0)) if run_s < INFINITE else -INFINITE
