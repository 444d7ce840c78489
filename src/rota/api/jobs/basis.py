"""What an expected start rests on: whose run time is only assumed, and how long such jobs took.

A job without a limit or an estimate counts for what the site assumes. That is said, beside what the
last jobs of the same sweep, or of the same user and name, really took. Where the start hangs on the
end of such a job alone, these tell when it comes.
"""

from __future__ import annotations

import re
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from rota.api.views.refs import known_ref
from rota.core.facts.job import Job
from rota.core.facts.policy import Estimates
from rota.core.facts.states import JobState
from rota.scheduling.answers.prose import span
from rota.scheduling.order.lengths import run_s_of, stay_s_of
from rota.store.api import JobFilter

if TYPE_CHECKING:
    from rota.controller.loop import Host
    from rota.core.facts.array import Array
    from rota.scheduling.answers.reasons import Tree
    from rota.store.api import Store

#: The most of the last runs that are looked at.
RUNS = 12
#: An end and a start that lie so near are the same moment.
NEAR_S = 2.0
#: In the line that tells the expected start, and when that is.
EXPECTED = "expected to start"
WHEN = re.compile(rf"(?<={EXPECTED} )in \S+")


async def with_basis(host: Host, lines: list[str], tree: Tree | None) -> list[str]:
    """The lines of an answer, and behind the one with the expected start what that rests on."""
    if tree is None or tree.expected is None:
        return lines
    more, told = await _basis(host, tree)
    at = next((n for n, line in enumerate(lines, 1) if EXPECTED in line), len(lines))
    before = [WHEN.sub(told, line) for line in lines[:at]] if told else lines[:at]
    return [*before, *more, *lines[at:]]


async def _basis(host: Host, tree: Tree) -> tuple[list[str], str]:
    """A line for the job that has the room, one for the first of those that come before.

    And when the start comes by what jobs like the first of them took; empty: as planned.
    """
    lines, told = [], ""
    holder = _holder(host, tree)
    if holder is not None:
        ran_s = max(0.0, host.clock.now_s() - holder.started_s)
        stay_s = stay_s_of(host.cluster, holder.spec, ran_s)
        past = await _past(host, holder)
        # Where the start hangs on this end alone, what such jobs took says more than a guess.
        if past is not None and _hangs_on(tree, holder, stay_s):
            told = f"in {span(past.took_s - ran_s)}" if past.took_s > ran_s else "at any moment"
        lines.append(_line(host, holder, stay_s, "runs", past, counts=bool(told)))
    first = _first_ahead(host, tree)
    if first is not None and tree.ahead is not None:
        run_s = run_s_of(host.cluster, first.spec, first.spec.roles)
        lines.append(_line(host, first, run_s, "comes first", await _past(host, first)))
    return lines, told


def _hangs_on(tree: Tree, holder: Job, stay_s: float) -> bool:
    """Whether the expected start is the end of that job, and no other one comes before."""
    assert tree.expected is not None
    first = tree.ahead is None or not tree.ahead.jobs
    return first and abs(holder.started_s + stay_s - tree.expected.start_s) <= NEAR_S


def _is_assumed(host: Host, item: Job | Array) -> bool:
    """Whether nobody said how long it runs, and nothing was learned."""
    spec = item.spec
    predicted = host.cluster.policy.backfill.estimates is Estimates.PREDICTED
    return not (spec.time_limit_s or spec.estimate_s or (predicted and spec.predicted_s))


def _holder(host: Host, tree: Tree) -> Job | None:
    """The running job whose assumed end lies nearest to the expected start."""
    assert tree.expected is not None
    nodes, start_s = set(tree.expected.nodes), tree.expected.start_s
    found: list[tuple[float, int, Job]] = []
    for name in nodes & host.cluster.nodes.keys():
        for uid in host.cluster.nodes[name].live:
            job = host.cluster.jobs.get(host.cluster.live.where[uid][0])
            # What was learned counts while it waits; once it runs, how long it may stay.
            unsaid = job is not None and not (job.spec.time_limit_s or job.spec.estimate_s)
            if job is not None and job.started_s and unsaid:
                ran_s = max(0.0, host.clock.now_s() - job.started_s)
                end_s = job.started_s + stay_s_of(host.cluster, job.spec, ran_s)
                found.append((abs(end_s - start_s), job.id, job))
    return min(found, key=lambda one: one[:2])[2] if found else None


def _first_ahead(host: Host, tree: Tree) -> Job | Array | None:
    for item in tree.ahead.first if tree.ahead is not None else ():
        cluster = host.cluster
        found = (
            cluster.jobs.get(item) or cluster.arrays.get(item) or cluster.families.family_of(item)
        )
        if found is not None and _is_assumed(host, found):
            return found
    return None


class _Past(NamedTuple):
    """What jobs like one took: in words which, and half of them how long."""

    which: str
    took_s: float


async def _past(host: Host, item: Job | Array) -> _Past | None:
    lengths = await host.read(lambda store: _past_s(store, item))
    if not lengths:
        return None
    one, of = ("element", " of its sweep") if _array_of(item) else ("job", " of that name")
    many = one if len(lengths) == 1 else f"{len(lengths)} {one}s"
    return _Past(f"the last {many}{of} took {span(median(lengths))}", median(lengths))


def _line(
    host: Host,
    item: Job | Array,
    taken_s: float,
    what: str,
    past: _Past | None,
    *,
    counts: bool = False,
) -> str:
    """What is assumed of a job; ``counts``: by the past, and the assumption is for the plan."""
    name = known_ref(host.cluster, item.id) if isinstance(item, Job) else str(item.id)
    if past is None or not counts:
        told = f"this assumes {span(taken_s)} for job {name}, which {what}: no --time was given"
        return told if past is None else f"{told}; {past.which}"
    return (
        f"{past.which}: this is taken for job {name}, which {what}; the plan keeps "
        f"{span(taken_s)} for it, because no --time was given"
    )


def _array_of(item: Job | Array) -> int:
    return item.array_id if isinstance(item, Job) else item.id


def _past_s(store: Store, item: Job | Array) -> list[float]:
    """How long the last ones like it ran."""
    if array := _array_of(item):
        wanted = JobFilter(array=array, states=(JobState.COMPLETED,))
    else:
        spec = item.spec
        wanted = JobFilter(user=spec.user, name=spec.name, states=(JobState.COMPLETED,))
    runs = store.list_jobs(wanted, limit=RUNS, newest_first=True)
    return [run.ended_s - run.started_s for run in runs if run.started_s]
