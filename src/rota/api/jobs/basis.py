"""What an expected start rests on: whose run time is only assumed, and how long such jobs took.

A job without a limit or an estimate counts for what the site assumes. That is said, beside what the
last jobs of the same sweep, or of the same user and name, really took.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

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

#: So many of the last runs are looked at.
RUNS = 12
#: An end and a start that lie so near are the same moment.
NEAR_S = 2.0
#: In the line that tells the expected start.
EXPECTED = "expected to start"


async def with_basis(host: Host, lines: list[str], tree: Tree | None) -> list[str]:
    """The lines of an answer, and behind the one with the expected start what that rests on."""
    if tree is None or tree.expected is None:
        return lines
    more = await _basis(host, tree)
    at = next((n for n, line in enumerate(lines, 1) if EXPECTED in line), len(lines))
    return [*lines[:at], *more, *lines[at:]]


async def _basis(host: Host, tree: Tree) -> list[str]:
    """A line for the job that has the room, one for the first of those that come before."""
    lines = []
    holder = _holder(host, tree)
    if holder is not None:
        ran_s = max(0.0, host.clock.now_s() - holder.started_s)
        stay_s = stay_s_of(host.cluster, holder.spec, ran_s)
        # Where the start hangs on this end alone, what such jobs took says more than a guess.
        hangs = _hangs_on(tree, holder, stay_s)
        lines.append(await _line(host, holder, stay_s, "runs", ran_s if hangs else None))
    first = _first_ahead(host, tree)
    if first is not None and tree.ahead is not None:
        run_s = run_s_of(host.cluster, first.spec, first.spec.roles)
        lines.append(await _line(host, first, run_s, "comes first"))
    return lines


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


async def _line(
    host: Host, item: Job | Array, taken_s: float, what: str, ran_s: float | None = None
) -> str:
    name = known_ref(host.cluster, item.id) if isinstance(item, Job) else str(item.id)
    told = f"this assumes {span(taken_s)} for job {name}, which {what}: no --time was given"
    lengths = await host.read(lambda store: _past_s(store, item))
    if not lengths:
        return told
    kind = ("element", " of its sweep") if _array_of(item) else ("job", " of that name")
    many = kind[0] if len(lengths) == 1 else f"{len(lengths)} {kind[0]}s"
    like_s = median(lengths)
    told = f"{told}; the last {many}{kind[1]} took {span(like_s)}"
    if ran_s is None:
        return told
    left = f"in {span(like_s - ran_s)}" if like_s > ran_s else "at any moment"
    return f"{told}: by that it would start {left}"


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
