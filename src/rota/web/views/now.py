"""Now: a strip per node with a cell per GPU, the queue, and what starts next."""

from __future__ import annotations

from collections import Counter
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

import msgspec

from rota.api.site.reservations import reservation_view
from rota.api.views.gpus import gpu_views
from rota.api.views.reasons import Reasons
from rota.api.views.refs import known_ref
from rota.api.views.views import ref_of, resources_view
from rota.controller.launches.launch import fill_in
from rota.core.facts.array import Array
from rota.core.facts.states import ACTIVE, FINAL, JobState, NodeState
from rota.hostlist import natural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.api.views.gpus import GpuView
    from rota.core.cluster import Cluster
    from rota.core.facts.job import Job
    from rota.core.facts.node import Node
    from rota.web.views.asked import PageRequest

TEMPLATE, RIGHT = "now", "read"
PAGE_ROWS = 50
#: The most jobs that start next that are drawn.
AHEAD = 14
_NEVER_S = float("inf")
_RANK = {JobState.RUNNING: 0, JobState.SCHEDULED: 0, JobState.HELD: 2}


class Cell(msgspec.Struct, omit_defaults=True):
    """One device. What is measured is absent where nobody measures it."""

    index: int
    state: str
    model: str
    memory_mb: int
    taken_mb: int
    users: list[str] = []
    jobs: list[int] = []
    foreign: list[str] = []
    use_percent: float | None = None
    memory_used_mib: int | None = None
    idle: bool = False
    overused: bool = False


class Strip(msgspec.Struct, omit_defaults=True):
    """One node."""

    name: str
    state: str
    cpus: float
    cpus_used: float
    memory_mb: int
    memory_used_mb: int
    jobs: int
    note: str = ""
    cells: list[Cell] = []


class QueueRow(msgspec.Struct, omit_defaults=True):
    """One job that has not ended, or what waits of an array. Times are seconds since 1970."""

    id: int
    name: str
    user: str
    queue: str
    state: str
    submitted_s: float
    cpus: float
    memory_mb: int
    gpus: float
    tasks: int
    priority: int
    mine: bool = False
    shared: bool = False
    gpu_type: str = ""
    gpu_memory_mb: int = 0
    reason: str = ""
    #: How people name it: 12, or 15_3 for an element of an array.
    ref: str = ""
    #: When it started, or is expected to; 0: nobody can say.
    start_s: float = 0.0
    #: Whether that is what the scheduler plans, and no estimate from starts that there were.
    planned: bool = False
    #: Of an estimate: nine in ten such jobs have started by then; 0: there is none.
    latest_s: float = 0.0
    #: When its limit ends it; 0: it has none.
    end_s: float = 0.0
    nodes: list[str] = []
    #: Of an array: how many elements wait, or how many run.
    count: int = 0
    running: int = 0
    array: int = 0


async def words(asked: PageRequest) -> dict[str, Any]:
    return {"queues": sorted(asked.cluster.queues)}


async def nodes(asked: PageRequest) -> dict[str, Any]:
    """Every node, or those of ``names`` and which of these are gone."""
    cluster = asked.cluster
    named = asked.query.get("names", "")
    wanted = named.split(",") if named else sorted(cluster.nodes, key=natural)
    known = [cluster.nodes[name] for name in wanted if name in cluster.nodes]
    found = [_strip(asked, node) for node in known]
    return {
        "items": found,
        "gone": [name for name in wanted if name not in cluster.nodes],
        # Whether it is worth asking again although nothing happened.
        "measured": asked.context.measures.settings.measure_s > 0,
    }


def shown_state(node: Node) -> str:
    """In one word whether it takes work."""
    return "drained" if node.drained and node.state is NodeState.UP else str(node.state)


def _strip(asked: PageRequest, node: Node) -> Strip:
    cluster, spec, room = asked.cluster, node.spec, node.headroom()
    views = gpu_views(cluster, node, asked.context.measures)
    return Strip(
        name=node.name,
        state=shown_state(node),
        cpus=spec.cpu_milli / 1000,
        cpus_used=(spec.cpu_milli - room.cpu_milli) / 1000,
        memory_mb=spec.memory_mib,
        memory_used_mb=spec.memory_mib - room.memory_mib,
        jobs=len({cluster.live.where[uid][0] for uid in node.live}),
        note=node.note,
        cells=[_cell(cluster, view, takes_work=node.takes_work) for view in views],
    )


def _cell(cluster: Cluster, view: GpuView, *, takes_work: bool) -> Cell:
    held = [cluster.jobs[job].spec.user for job in view.jobs if job in cluster.jobs]
    return Cell(
        index=view.index,
        # Of a node that is down or drained nobody can have one.
        state="closed" if view.state == "free" and not takes_work else view.state,
        model=view.model,
        memory_mb=view.memory_mb,
        taken_mb=view.memory_mb - view.memory_free_mb,
        users=list(dict.fromkeys(held)),
        jobs=view.jobs,
        foreign=[use.user for use in view.foreign if not use.ignored],
        use_percent=view.use_percent,
        memory_used_mib=view.memory_used_mib,
        idle=bool(view.idle_since),
        overused=bool(view.overuse),
    )


async def queue(asked: PageRequest) -> dict[str, Any]:
    """One page of what runs and waits: one's own first, then in the order of expected starts."""
    text, wanted = asked.query.get("search", "").lower(), asked.query.get("state", "")
    first = asked.number("page", 0, 100_000) * PAGE_ROWS
    user, promises = asked.actor.user, asked.host.scheduler.promises.kept
    counts: Counter[str] = Counter()
    keyed = []
    #: Elements that run, by their array; who searches looks for single ones.
    running: dict[int, list[Job]] = {}
    for item in _items(asked.cluster):
        if text and not _matches(item, text):
            continue
        state, mine = _state(item), item.spec.user == user
        counts[state] += 1
        counts["mine"] += mine
        if wanted and not (mine if wanted == "mine" else wanted == state):
            continue
        if not text and not isinstance(item, Array) and item.array_id and state in ACTIVE:
            siblings = running.setdefault(item.array_id, [])
            siblings.append(item)
            if len(siblings) > 1:
                continue
        promise = promises.get(item.id)
        start_s = promise.start_s if promise is not None else _NEVER_S
        keyed.append((not mine, _RANK.get(state, 1), start_s, -item.spec.priority, item.id))
    reasons = Reasons(asked.host.scheduler, asked.host.clock.now_s())
    shown = nsmallest(first + PAGE_ROWS, keyed)[first:]
    rows = [_row(asked, _item(asked.cluster, key[-1]), reasons) for key in shown]
    for row in rows:
        if row.array and not row.count:
            _fold(row, running.get(row.array, []))
    return {"items": rows, "total": len(keyed), "page_rows": PAGE_ROWS, "counts": counts}


def _fold(row: QueueRow, elements: list[Job]) -> None:
    """One row for all elements of an array that run."""
    if len(elements) < 2:
        return
    live = [attempt for job in elements for attempt in job.live_attempts]
    row.running, row.ref = len(elements), str(row.array)
    row.name = elements[0].spec.name
    row.start_s = min((job.started_s for job in elements if job.started_s), default=0.0)
    row.nodes = sorted({attempt.allocation.node for attempt in live}, key=natural)


def _item(cluster: Cluster, number: int) -> Job | Array:
    return cluster.jobs.get(number) or cluster.arrays[number]


def _items(cluster: Cluster) -> Iterator[Job | Array]:
    yield from cluster.jobs.values()
    yield from (array for array in cluster.arrays.values() if array.waiting)


def _state(item: Job | Array) -> JobState:
    if isinstance(item, Array):
        return JobState.HELD if item.held else JobState.QUEUED
    return item.state


def _matches(item: Job | Array, text: str) -> bool:
    spec = item.spec
    number = item.array_id if not isinstance(item, Array) and item.array_id else item.id
    known = (spec.name.lower(), spec.user.lower(), spec.queue.lower(), spec.project.lower())
    return any(text in word for word in known) or text in (str(item.id), str(number))


def _row(asked: PageRequest, item: Job | Array, reasons: Reasons) -> QueueRow:
    spec, state = item.spec, _state(item)
    held = resources_view(spec.request)
    promise = asked.host.scheduler.promise_of(item.id)
    row = QueueRow(
        id=item.id,
        name=spec.name,
        user=spec.user,
        queue=spec.queue,
        state=str(state),
        submitted_s=item.submitted_s,
        cpus=held.cpus,
        memory_mb=held.memory_mb,
        gpus=held.gpus,
        shared=held.shared,
        gpu_type=held.gpu_type,
        gpu_memory_mb=held.gpu_memory_mb,
        tasks=spec.task_count,
        priority=spec.priority,
        mine=spec.user == asked.actor.user,
        start_s=promise.start_s if promise is not None else 0.0,
        planned=promise is not None,
        reason=reasons.of(item),
    )
    # One time: what is promised, else what is likely.
    if promise is None and (said := asked.context.foretelling.of_item(item)):
        row.start_s = said.at_s + said.word.wait_s
        if asked.context.foretelling.bands.is_sure(said.word):
            row.latest_s = said.at_s + said.word.most_s
    if isinstance(item, Array):
        row.count, row.array, row.ref = len(item.pending()), item.id, str(item.id)
        return row
    row.name = fill_in(spec.name, item)
    row.array, row.ref = item.array_id, ref_of(item)
    if state in ACTIVE and item.started_s:
        row.start_s = item.started_s
        row.end_s = item.started_s + spec.time_limit_s if spec.time_limit_s else 0.0
        row.nodes = list(dict.fromkeys(a.allocation.node for a in item.live_attempts))
    return row


async def ahead(asked: PageRequest) -> dict[str, Any]:
    """What starts next, and which reservations stand, in the order of their beginnings."""
    cluster, now_s = asked.cluster, asked.host.clock.now_s()
    bars = [bar for bar in promised(asked) if bar["end_s"] > now_s]
    bars += likely(asked, {bar["id"] for bar in bars})
    bars += [bar for bar in reservations(cluster, now_s) if bar["end_s"] > now_s]
    found = sorted(bars, key=lambda bar: (bar["start_s"], str(bar["id"])))
    return {"now_s": now_s, "items": found[:AHEAD], "more": max(0, len(found) - AHEAD)}


def likely(asked: PageRequest, promised: set[int]) -> Iterator[dict[str, Any]]:
    """The next in line of which nothing is promised, when they will probably start.

    Of an array only the first that waits.
    """
    cluster, foretelling = asked.cluster, asked.context.foretelling
    arrays = (cluster.array_of(number) for number in promised)
    known = promised | {array.id for array in arrays if array is not None}
    shown = {*known}
    for number in foretelling.jobs:
        item, said = cluster.jobs.get(number) or cluster.array_of(number), foretelling.of(number)
        if item is None or said is None or _state(item) in ACTIVE or item.id in shown:
            continue
        start_s = max(said.at_s + said.word.wait_s, asked.host.clock.now_s())
        yield {
            "kind": "likely",
            "id": item.id,
            "ref": known_ref(cluster, item.id),
            "name": item.spec.name,
            "user": item.spec.user,
            "start_s": start_s,
            "end_s": start_s + (item.spec.time_limit_s or item.spec.estimate_s),
            "nodes": [],
            "gpus": 0,
        }
        shown.add(item.id)
        if len(shown) - len(known) == AHEAD:
            return


def promised(asked: PageRequest) -> Iterator[dict[str, Any]]:
    """Jobs that wait and know when and where they start."""
    cluster = asked.cluster
    for promise in asked.host.scheduler.promises.all():
        item = cluster.jobs.get(promise.job) or cluster.array_of(promise.job)
        if item is None or (not isinstance(item, Array) and item.state in FINAL):
            continue
        yield {
            "kind": "plan",
            "id": promise.job,
            "ref": known_ref(cluster, promise.job),
            "name": item.spec.name,
            "user": item.spec.user,
            "start_s": promise.start_s,
            "end_s": min(promise.end_s, promise.start_s + 30 * 86400.0),
            "nodes": list(dict.fromkeys(held.node for held in promise.allocations)),
            "gpus": sum(len(held.devices) for held in promise.allocations),
        }


def reservations(cluster: Cluster, now_s: float) -> Iterator[dict[str, Any]]:
    for made in cluster.reservations.values():
        view = reservation_view(made, now_s)
        yield {
            "kind": "maintenance" if view.maintenance else "reservation",
            "id": made.id,
            "name": made.note or ("maintenance" if view.maintenance else f"reservation {made.id}"),
            "user": made.owner or made.project,
            "start_s": made.start_s,
            "end_s": made.end_s,
            "nodes": [made.node] if made.node else list(made.nodes),
            "gpus": view.gpus,
        }


FEEDS = {"nodes": nodes, "queue": queue, "ahead": ahead}
