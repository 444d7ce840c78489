"""How long a job will run, learned from jobs that ended, with a bound that is honest.

Three numbers per job. ``estimate_s`` is what it is measured by while it waits: whether it is
gone before it is in the way of others. ``stay_s`` is how long it is taken to hold its room once
it runs; promises to others rest on it, so it is careful. ``bound_s`` is an upper bound that
holds for nine jobs of ten: a conformal quantile, which every job that ends corrects a little, so
that it keeps what it says on any workload. While it does not, the user's limit stands in.

Nothing here knows the future, and nothing is ever stopped because of a prediction.
"""

from __future__ import annotations

from math import ceil, exp, log, sqrt
from typing import NamedTuple

from rota.scheduling.later.predict_runs import Kind, RunHistory, kinds_of

#: The share of jobs that the bound is to hold for.
TARGET = 0.9
#: The estimate: three of four runs of this kind were over by then.
LIKELY = 0.75
#: Fewest runs behind an estimate, and behind a bound: a nine-in-ten bound takes nine runs.
FEW, ENOUGH = 2, 9
#: Without a limit and without a run to learn from.
ASSUMED_S = 3600.0
#: How far a job that was missed widens the next bounds; one that was covered narrows them by
#: a ninth of it. Where nine of ten are covered both are in balance.
WIDEN, NARROW = exp(0.03 * TARGET), exp(-0.03 * (1.0 - TARGET))
WIDEST = 20.0
#: Below this coverage of late the limit stands in for the bound; from that on no longer.
DRIFTED, RECOVERED = 0.75, 0.85
#: Jobs that "of late" looks back on, and jobs that tell how much work a job is.
LATE, TYPICAL = 200, 1000
#: A job may pass others as though it were this part of a typical job's work smaller: what it
#: takes from them is little beside what its wait costs itself.
ALLOWANCE = 0.2
#: Estimates are rounded up to steps of this ratio: jobs of one lane share theirs.
STEP = 1.25


class Prediction(NamedTuple):
    """What was said about a job when it was submitted."""

    #: While it waits: how long it would be in the way of others.
    estimate_s: float
    #: Once it runs: how long it is taken to hold its room.
    stay_s: float
    #: An upper bound that holds for nine jobs of ten.
    bound_s: float
    #: Three of four such jobs were over by then.
    likely_s: float
    #: The bound as learned, also while the limit stands in for it.
    learned_s: float
    #: How broad the kind was that the bound comes from; 0: none was known.
    breadth: int
    #: Whether there were any runs to learn from. If not, a job is planned with as its user said.
    known: bool = True

    @property
    def planned_s(self) -> int:
        """The estimate as passes plan with it, in whole seconds."""
        return rounded_s(self.estimate_s)


class Predictor:
    """Learns from jobs in the order in which they end. Its memory is bounded."""

    __slots__ = (
        *("_assumed_s", "_ended", "_history", "_late", "_root_work", "_widths"),
        *("covered", "judged", "trusted"),
    )

    def __init__(self, assumed_s: float = ASSUMED_S) -> None:
        self._assumed_s = assumed_s
        self._history = RunHistory()
        #: Factor on the bounds, by the breadth of the kind that they come from.
        self._widths = [1.0] * 5
        #: Mean root of processor-seconds: squared, the work of a typical job. Few giants
        #: hardly move it.
        self._root_work = 0.0
        self._ended = 0
        self._late = TARGET
        #: Whether the bound has held lately. If not, the user's limit stands in for it.
        self.trusted = True
        #: Predictions whose job has ended, and how many of them their bound held for.
        self.judged = 0
        self.covered = 0

    @property
    def coverage(self) -> float:
        """Of the jobs that ended, the share that ran no longer than their bound."""
        return self.covered / self.judged if self.judged else 1.0

    def predict(self, user: str, name: str, procs: int, limit_s: float) -> Prediction:
        """What is known when a job is submitted; ``limit_s`` 0: its user named none."""
        kinds = kinds_of(user, name, procs, limit_s)
        few, _ = self._history.find(kinds, FEW)
        most_s = limit_s or self._assumed_s
        if few is None:
            return Prediction(most_s, most_s, most_s, most_s, most_s, 0, known=False)
        unit_s = limit_s or 1.0
        likely_s = few.quantile(LIKELY) * unit_s
        runs, breadth = self._history.find(kinds, ENOUGH)
        learned_s = most_s
        if runs is not None:
            learned_s = runs.quantile(TARGET) * unit_s * self._widths[breadth]
            if not limit_s:
                most_s = max(runs.quantile(1.0), learned_s)
        if limit_s:
            likely_s, learned_s = min(likely_s, limit_s), min(learned_s, limit_s)
        allowance_s = ALLOWANCE * self._root_work * self._root_work / procs
        estimate_s = max(likely_s - allowance_s, 0.0)
        learned_s = max(learned_s, estimate_s)
        bound_s = learned_s if self.trusted else max(most_s, learned_s)
        stay_s = limit_s or max(bound_s, likely_s)
        return Prediction(estimate_s, stay_s, bound_s, likely_s, learned_s, breadth)

    def runs_of(self, kinds: tuple[Kind, ...], broad: int = FEW) -> int:
        """How many runs ``middle_s`` goes by; 0: it goes by the limit."""
        runs, _ = self._history.find(kinds, FEW, broad)
        return len(runs) if runs is not None else 0

    def middle_s(
        self, kinds: tuple[Kind, ...], limit_s: float, ran_s: float = 0.0, broad: int = FEW
    ) -> float:
        """Half of such jobs that ran for ``ran_s`` are over by then; for answers only.

        ``broad``: the fewest runs of jobs of other names that count.
        """
        runs, _ = self._history.find(kinds, FEW, broad)
        most_s = limit_s or max(self._assumed_s, 2.0 * ran_s)
        if runs is None:
            return most_s
        unit_s = limit_s or 1.0
        # A run that no other one outlasted is taken to last twice as long.
        middle_s = runs.middle_beyond(ran_s / unit_s) * unit_s or 2.0 * ran_s
        return min(middle_s, limit_s) if limit_s else middle_s

    def learn(
        self,
        user: str,
        name: str,
        procs: int,
        limit_s: float,
        run_s: float,
        made: Prediction | None = None,
    ) -> None:
        """A job has ended after ``run_s``; ``made`` is what was predicted when it came."""
        self._history.add(kinds_of(user, name, procs, limit_s), run_s / (limit_s or 1.0))
        self._ended += 1
        self._root_work += (sqrt(run_s * procs) - self._root_work) / min(self._ended, TYPICAL)
        if made is not None:
            self._judge(run_s, made)

    def _judge(self, run_s: float, made: Prediction) -> None:
        """Did the bound hold? Correct the next ones, and see whether it can be trusted."""
        self.judged += 1
        if run_s <= made.bound_s:
            self.covered += 1
        held = run_s <= made.learned_s
        width = self._widths[made.breadth] * (NARROW if held else WIDEN)
        self._widths[made.breadth] = min(max(width, 1.0 / WIDEST), WIDEST)
        self._late += (held - self._late) / LATE
        if self.trusted:
            self.trusted = self._late >= DRIFTED
        else:
            self.trusted = self._late >= RECOVERED


def rounded_s(seconds: float) -> int:
    """Up to the next step, at least a second."""
    if seconds <= 1.0:
        return 1
    return ceil(STEP ** ceil(log(seconds, STEP)))
