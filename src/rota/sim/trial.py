"""One past under the present rules and under others: who gains, who loses.

Both are played, because what really happened also holds what no rule can help: a node that was
away, a restart. ``python -m rota.sim.trial`` answers a ``PastQuestion`` from standard input, for a
controller that must not be kept waiting.
"""

from __future__ import annotations

import os
import random
import sys
from typing import TYPE_CHECKING

import msgspec

from rota.controller.past import Comparison, Figures, Gain, PastQuestion
from rota.controller.tick.plugins import load_plugins
from rota.core.facts.errors import RotaError
from rota.sim.cluster.run import play
from rota.sim.figures import summarise
from rota.sim.history import history_of
from rota.sim.measures import mean, measure, quantile
from rota.sim.verdict import DAY_S, DRAWS, LEAST, LEFT_OUT, JobPair, verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.controller.past import Past
    from rota.core.facts.policy import Policy
    from rota.sim.history import SiteHistory
    from rota.sim.run import Run

#: A start that moves by less does not count as earlier or later.
SAME_S = 1.0


class JobWaits(msgspec.Struct, frozen=True):
    """One job's wait under both."""

    user: str
    project: str
    before_s: float
    after_s: float
    day: int = 0


def compare(past: Past, policy: Policy) -> Comparison:
    """Play a past twice: under the rules of its site, and under these."""
    history = history_of(past)
    before = _play(history, past.site.policy)
    after = _play(history, policy)
    waits, missing = _waits(history, before, after)
    notes = [*history.notes]
    if missing:
        notes.insert(0, f"{missing} ran in one of the two replays only, and are not compared")
    moments = [job.submit_s for job in history.jobs] or [0.0]
    return Comparison(
        jobs=len(waits),
        first_s=history.begin_s + moments[0],
        last_s=history.begin_s + moments[-1],
        recorded_mean_wait_s=mean([*history.waited_s.values()]),
        before=_figures(before),
        after=_figures(after),
        unit=before.unit,
        users=_gains((wait.user, wait) for wait in waits),
        projects=_gains((wait.project, wait) for wait in waits if wait.project),
        notes=notes,
        verdict=verdict(
            "the other rules",
            [JobPair(w.user or w.project, w.day, w.before_s, w.after_s) for w in waits],
        ),
        most_s=foretold_most_s(waits),
    )


def foretold_most_s(waits: Sequence[JobWaits]) -> dict[str, float]:
    """How long jobs of each project wait on average at the most; "": of all together.

    The upper end of an interval for the mean under the other rules, by drawing days again, and
    never less than the mean under the present rules. Few days say little about others: then it
    is twice the mean.
    """
    groups: dict[str, list[JobWaits]] = {"": [*waits]}
    for wait in waits:
        if wait.project:
            groups.setdefault(wait.project, []).append(wait)
    return {name: _most_s(own) for name, own in groups.items() if own}


def _most_s(waits: Sequence[JobWaits]) -> float:
    before_s, after_s = mean([w.before_s for w in waits]), mean([w.after_s for w in waits])
    days: dict[int, list[float]] = {}
    for wait in waits:
        days.setdefault(wait.day, []).append(wait.after_s)
    if len(days) < LEAST:
        return max(before_s, 2.0 * after_s)
    sums = [(sum(own), len(own)) for own in days.values()]
    chance = random.Random(0)
    means = []
    for _ in range(DRAWS):
        again = chance.choices(sums, k=len(sums))
        means.append(sum(total for total, _ in again) / sum(count for _, count in again))
    return max(before_s, quantile(sorted(means), 1.0 - LEFT_OUT / 2))


def _play(history: SiteHistory, policy: Policy) -> Run:
    return play(
        history.jobs,
        history.nodes,
        policy,
        begin_s=history.begin_s,
        particulars=history.particulars,
        site=history.site,
        load=load_plugins,
    )


def _waits(history: SiteHistory, before: Run, after: Run) -> tuple[list[JobWaits], int]:
    """The jobs that really ran, and how many of those did not in both replays."""
    first, second = _by_job(before), _by_job(after)
    both = [job for job in history.jobs if job.id in first and job.id in second]
    waits = [
        JobWaits(
            *(job.user, job.group, first[job.id], second[job.id]),
            int((history.begin_s + job.submit_s) // DAY_S),
        )
        for job in both
        if job.id in history.waited_s
    ]
    return waits, len(history.waited_s) - len(waits)


def _by_job(run: Run) -> dict[int, float]:
    waits_s = measure(run).waits_s
    return {job.id: wait_s for job, wait_s in zip(run.jobs, waits_s, strict=True)}


def _figures(run: Run) -> Figures:
    summary = summarise(run)
    return Figures(
        mean_wait_s=summary["mean_wait"],
        median_wait_s=summary["median_wait"],
        p95_wait_s=summary["p95_wait"],
        mean_bounded_slowdown=summary["mean_bounded_slowdown"],
        utilization=summary["utilization"],
        preemptions=summary["preemptions"],
        max_wait_s=summary["max_wait"],
    )


def _gains(named: Iterable[tuple[str, JobWaits]]) -> list[Gain]:
    """By name, the largest gain first."""
    groups: dict[str, list[JobWaits]] = {}
    for name, wait in named:
        groups.setdefault(name, []).append(wait)
    gains = [_gain(name, waits) for name, waits in groups.items()]
    return sorted(gains, key=lambda gain: (gain.wait_after_s - gain.wait_before_s, gain.name))


def _gain(name: str, waits: Sequence[JobWaits]) -> Gain:
    return Gain(
        name=name,
        jobs=len(waits),
        wait_before_s=mean([wait.before_s for wait in waits]),
        wait_after_s=mean([wait.after_s for wait in waits]),
        earlier=sum(wait.after_s < wait.before_s - SAME_S for wait in waits),
        later=sum(wait.after_s > wait.before_s + SAME_S for wait in waits),
    )


def main() -> int:
    """Exits with 1 and a line on standard error when the rules cannot be played."""
    os.nice(10)
    question = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=PastQuestion)
    try:
        answer = compare(question.past, question.policy)
    except RotaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
