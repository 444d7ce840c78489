"""One past under the present rules and under others: who gains, who loses.

Both are played, because what really happened also holds what no rule can help: a node that was
away, a restart. ``python -m rota.sim.trial`` answers a ``Question`` from standard input, for a
controller that must not be kept waiting.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import msgspec

from rota.controller.past import Comparison, Figures, Gain, Question
from rota.controller.tick.plugins import load_plugins
from rota.core.facts.errors import RotaError
from rota.sim.cluster.run import play
from rota.sim.figures import summarise
from rota.sim.history import history_of
from rota.sim.measures import mean, measure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rota.controller.past import Past
    from rota.core.facts.policy import Policy
    from rota.sim.history import History
    from rota.sim.run import Run

#: A start that moves by less does not count as earlier or later.
SAME_S = 1.0


class Waits(msgspec.Struct, frozen=True):
    """One job's wait under both."""

    user: str
    project: str
    before_s: float
    after_s: float


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
    )


def _play(history: History, policy: Policy) -> Run:
    return play(
        history.jobs,
        history.nodes,
        policy,
        begin_s=history.begin_s,
        particulars=history.particulars,
        site=history.site,
        load=load_plugins,
    )


def _waits(history: History, before: Run, after: Run) -> tuple[list[Waits], int]:
    """The jobs that really ran, and how many of those did not in both replays."""
    first, second = _by_job(before), _by_job(after)
    both = [job for job in history.jobs if job.id in first and job.id in second]
    waits = [
        Waits(job.user, job.group, first[job.id], second[job.id])
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
    )


def _gains(named: Iterable[tuple[str, Waits]]) -> list[Gain]:
    """By name, those who gain most first."""
    groups: dict[str, list[Waits]] = {}
    for name, wait in named:
        groups.setdefault(name, []).append(wait)
    gains = [_gain(name, waits) for name, waits in groups.items()]
    return sorted(gains, key=lambda gain: (gain.wait_after_s - gain.wait_before_s, gain.name))


def _gain(name: str, waits: Sequence[Waits]) -> Gain:
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
    question = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Question)
    try:
        answer = compare(question.past, question.policy)
    except RotaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
