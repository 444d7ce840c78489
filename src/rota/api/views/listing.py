"""Lists of jobs: rows of the store merged with elements of arrays that have no row yet.

What has no row is taken from memory first, the rows are read after that; where both know a job
the row wins. So a job that moves from one to the other in between is listed once.
"""

from __future__ import annotations

from heapq import nlargest, nsmallest
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from rota.api.auth import may_look_into
from rota.api.turns import UserTurns
from rota.api.views.lookup import cut_element
from rota.api.views.reasons import Reasons
from rota.api.views.views import JobView, Page, collapsed_view, job_view
from rota.core.facts.indices import IndexSet
from rota.core.facts.job import Job
from rota.core.facts.states import FINAL, JobState
from rota.store.api import JobFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.controller.loop import Host
    from rota.core.cluster import Cluster
    from rota.core.facts.array import Array
    from rota.core.facts.job import JobSpec
    from rota.core.facts.tenant import Actor
    from rota.store.api import Store

#: Rows read at a time when a filter has to look into each of them.
SIEVE_ROWS = 1000
#: After this many rows a filter that looks into them gives up for the page; the cursor goes on.
SIEVE_MAX = 200_000


#: Pages of one user that are made at the same time.
_PAGES = UserTurns(4)


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What a listing wants. ``ids`` may name arrays, which stand for all their elements."""

    states: frozenset[JobState] = frozenset()
    user: str = ""
    project: str = ""
    queue: str = ""
    name: str = ""
    #: All of these: ``key`` or ``key=value``.
    labels: tuple[str, ...] = ()
    type: str = ""
    #: Bound to this engine.
    engine: str = ""
    #: A part of the name, in large or small letters.
    search: str = ""
    #: The lowest and the highest priority wanted.
    priorities: tuple[int, int] = (0, 100)
    array: int = 0
    ids: tuple[int, ...] = ()
    limit: int = 100
    after: int = 0
    newest_first: bool = False
    collapse: bool = False

    def wants(self, spec: JobSpec) -> bool:
        """Whether a spec passes the filters on what was submitted."""
        return (
            (not self.user or spec.user == self.user)
            and (not self.project or spec.project == self.project)
            and (not self.queue or spec.queue == self.queue)
            and (not self.name or spec.name == self.name)
            and self.priorities[0] <= spec.priority <= self.priorities[1]
        )

    @property
    def looks_into_rows(self) -> bool:
        """Whether a filter is about what the store has no column for."""
        return bool(self.labels or self.type or self.engine or self.search)

    def picks(self, spec: JobSpec, actor: Actor) -> bool:
        """Whether a spec passes those filters. Labels that the actor may not see do not count."""
        if self.type and spec.type != self.type:
            return False
        if self.engine and spec.placement.engine != self.engine:
            return False
        if self.search and self.search.lower() not in spec.name.lower():
            return False
        if self.labels and not may_look_into(actor, spec.user):
            return False
        return all(_is_labelled(spec, label) for label in self.labels)

    def beyond(self, item: int) -> bool:
        if not self.after:
            return True
        return item < self.after if self.newest_first else item > self.after

    def within(self, item: int, last: int) -> bool:
        """Whether an id comes not later than another in the order of the listing."""
        return item >= last if self.newest_first else item <= last

    def in_state(self, state: JobState) -> bool:
        return not self.states or state in self.states


def _is_labelled(spec: JobSpec, label: str) -> bool:
    key, equals, value = label.partition("=")
    return key in spec.labels and (not equals or spec.labels[key] == value)


async def list_page(host: Host, query: Query, actor: Actor) -> Page:
    """One page, in the order of ids."""
    # Rows that were read and wait for their turn in the loop are in memory, large as they may be.
    async with _PAGES.of(actor.user):
        return await _list_page(host, query, actor)


async def _list_page(host: Host, query: Query, actor: Actor) -> Page:
    reasons = Reasons(host.scheduler, host.clock.now_s())
    rest = _without_rows(host.cluster, query, actor, reasons)
    found: dict[int, JobView] = dict(islice(rest, query.limit + 1))
    for job in _touched(host.cluster, query, actor):
        found[job.id] = job_view(job, actor, reasons.of(job))
    filters = _filters(host.cluster, query)
    rows, looked_to = await host.read(lambda store: _read_rows(store, filters, query, actor))
    for job in rows:
        current = host.cluster.jobs.get(job.id)
        found[job.id] = job_view(job, actor, reasons.of(current) if current is not None else "")
    ordered = sorted(found, reverse=query.newest_first)
    if looked_to:
        # Not everything was looked at: what lies beyond that point waits for the next page.
        ordered = [item for item in ordered if query.within(item, looked_to)]
    page = ordered[: query.limit]
    last = page[-1] if len(ordered) > query.limit else looked_to
    return Page([found[item] for item in page], str(last) if last else None)


def _without_rows(
    cluster: Cluster, query: Query, actor: Actor, reasons: Reasons
) -> Iterator[tuple[int, JobView]]:
    """Elements that have no row, or (collapsed) the arrays that hold them, in order."""
    for array in _arrays(cluster, query, actor):
        waiting = bool(array.waiting)
        state = _state_of_rest(array)
        if state is None or not query.in_state(state):
            continue
        if query.collapse:
            if query.beyond(array.id) and _named(array, query):
                reason = reasons.of(array) if waiting else ""
                yield array.id, collapsed_view(array, actor, state, reason)
            continue
        for position in _positions(array, query):
            job = array.expand(position) if waiting else cut_element(array, position)
            yield job.id, job_view(job, actor, reasons.of(array) if waiting else "")


def _arrays(cluster: Cluster, query: Query, actor: Actor) -> Iterator[Array]:
    ids = cluster.families.array_ids
    for array_id in reversed(ids) if query.newest_first else ids:
        array = cluster.arrays[array_id]
        if not array.waiting and not array.cut:
            continue
        if query.array and array_id != query.array:
            continue
        if query.wants(array.spec) and query.picks(array.spec, actor):
            yield array


def _state_of_rest(array: Array) -> JobState | None:
    """The state of the elements without a row: they wait together or were cut off together."""
    if array.waiting:
        return JobState.HELD if array.held else JobState.QUEUED
    return None if array.cut_outcome is None else array.cut_outcome.state


def _named(array: Array, query: Query) -> bool:
    """Whether the ids asked for include the array, or one of its elements without a row."""
    if not query.ids or array.id in query.ids:
        return True
    rest = IndexSet(array.waiting or array.cut)
    return any(array.position(item) in rest for item in query.ids)


def _positions(array: Array, query: Query) -> Iterator[int]:
    rest = IndexSet(array.waiting or array.cut)
    if query.ids and array.id not in query.ids:
        asked = sorted({array.position(item) for item in query.ids}, reverse=query.newest_first)
        return (p for p in asked if p in rest and query.beyond(array.element_id(p)))
    if query.newest_first:
        start = array.count - 1
        if query.after:
            start = min(start, array.position(query.after) - 1)
        return rest.walk_back(start)
    return rest.walk(max(0, array.position(query.after) + 1) if query.after else 0)


def _touched(cluster: Cluster, query: Query, actor: Actor) -> list[Job]:
    """Elements whose first row may still be on its way to the disk."""
    if query.states and query.states <= FINAL:
        return []
    matching = (
        item
        for array_id, items in cluster.families.unfinished.items()
        if items and (not query.array or array_id == query.array)
        for item in items
        if query.beyond(item)
        and (not query.ids or item in query.ids or array_id in query.ids)
        and _matches(cluster.jobs[item], query, actor)
    )
    pick = nlargest if query.newest_first else nsmallest
    return [cluster.jobs[item] for item in pick(query.limit + 1, matching)]


def _matches(job: Job, query: Query, actor: Actor) -> bool:
    spec = job.spec
    return query.in_state(job.state) and query.wants(spec) and query.picks(spec, actor)


def _filters(cluster: Cluster, query: Query) -> list[JobFilter]:
    """What to ask the store: one question, and one more for each array among the ids."""
    wanted = JobFilter(
        states=tuple(state for state in JobState if state in query.states),
        user=query.user,
        project=query.project,
        queue=query.queue,
        name=query.name,
        array=query.array,
        ids=query.ids,
        priorities=query.priorities,
    )
    if not query.ids or query.array:
        return [wanted]
    families = [
        item
        for item in query.ids
        if item in cluster.arrays
        or cluster.ids.ended.is_array(item)
        or cluster.state_of(item) is None
    ]
    return [wanted, *(msgspec.structs.replace(wanted, ids=(), array=item) for item in families)]


def _read_rows(
    store: Store, filters: list[JobFilter], query: Query, actor: Actor
) -> tuple[list[Job], int]:
    """Rows that match, and the id up to which was looked if that was not to the end."""
    found: dict[int, Job] = {}
    looked_to = 0
    for one in filters:
        rows, stopped_at = _sieve(store, one, query, actor)
        found |= {job.id: job for job in rows}
        looked_to = stopped_at or looked_to
    return list(found.values()), looked_to


def _sieve(store: Store, wanted: JobFilter, query: Query, actor: Actor) -> tuple[list[Job], int]:
    """Rows of one filter; what has no column is looked for in each row, up to a bound."""
    limit = query.limit + 1
    after, seen, found = query.after, 0, list[Job]()
    step = SIEVE_ROWS if query.looks_into_rows else limit
    while True:
        rows = store.list_jobs(wanted, after=after, limit=step, newest_first=query.newest_first)
        found += [job for job in rows if query.picks(job.spec, actor)]
        seen += len(rows)
        if len(rows) < step or len(found) >= limit:
            return found[:limit], 0
        after = rows[-1].id
        if seen >= SIEVE_MAX:
            return found, after
