"""Short jobs in a row: whoever is next on a node is placed before the one before him has ended.

A job that is over at once costs less than the way from its end to the controller, to the disk and
back. So its successors are told to the agent ahead, and start there as their turn comes. Only
where nothing can come between them: nobody else waits, nobody may be evicted, all of them ask for
the same, and those who ended lately were over at once. An agent that waits in vain gives them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.core.derived.holdings import amount_of
from rota.scheduling.place.gang import Placed

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Lane
    from rota.core.facts.job import Attempt, Job
    from rota.core.facts.node import Allocation, Node
    from rota.scheduling.passes import Pass

#: So many stand in line behind the one who has the room.
LINE = 8


class Row(NamedTuple):
    """Attempts of which each gets the room of the one before; the first has it now."""

    room: Allocation
    uids: list[str]


def line_up(this: Pass, limit: int) -> None:
    """Place jobs of the only lane behind those of their kind who will be over at once."""
    lane = _only_lane(this)
    if lane is None:
        return
    rows = _rows(this, lane)
    started = {start.job for start in this.plan.starts}
    head = this.head(lane)
    while rows and len(this.plan.starts) < limit and this.open(head):
        entry = head.entry
        assert entry is not None
        if entry.job in started:
            continue
        row = min(rows, key=lambda row: len(row.uids))
        if len(row.uids) > LINE or this.forbidden(lane.key) is not None:
            return
        if this.quotas.borrowing(lane.key, head.amount):
            return  # Whoever stands in line would count as if he had borrowed already.
        this.space.take(row.room.node, row.room)
        this.record(head, entry, [Placed(0, row.room)], after=tuple(row.uids), ahead=True)
        this.promises.fulfilled(entry.job)
        row.uids.append(_uid(this.cluster, entry.job, head.array))


def _only_lane(this: Pass) -> Lane | None:
    """The lane of brisk single tasks that is all there is to wait."""
    cluster = this.cluster
    if len(cluster.lanes.by_number) != 1 or cluster.reservations or cluster.census.elastic:
        return None
    if this.policy.preempt.enabled:
        return None  # A victim's room must be the preemptor's, and of nobody in line.
    (lane,) = cluster.lanes.by_number.values()
    shape = cluster.lanes.shapes[lane.key.shape]
    placement, role = shape.placement, shape.roles[0]
    simple = len(shape.roles) == 1 and role.count == 1 and not role.request.device_count
    free = not (placement.affinities or placement.exclusive or lane.key.reservation)
    return lane if simple and free and cluster.brisk.knows(lane.key) else None


def _rows(this: Pass, lane: Lane) -> list[Row]:
    """What stands in a row on the nodes that changed, as far as it is of this kind.

    Only on nodes without a lease: elsewhere a start that nobody asked for just now could come
    after the end of it.
    """
    cluster, changed = this.cluster, this.scheduler.changed
    names = dict.fromkeys(cluster.nodes if changed is None else changed)
    # All of them are of this lane: there is no other, and no gang that grows.
    starts = [start for start in this.plan.starts if not (start.tasks or start.after)]
    names |= dict.fromkeys(start.allocations[0].node for start in starts)
    nodes = [node for name in names if (node := cluster.nodes.get(name)) is not None]
    able = {node.name: node for node in nodes if _takes_more(this, node, lane)}
    rows = [row for node in able.values() for row in _rows_on(cluster, node, lane)]
    rows += [
        Row(start.allocations[0], [_uid(cluster, start.job, start.array)])
        for start in starts
        if start.allocations[0].node in able
    ]
    return rows


def _takes_more(this: Pass, node: Node, lane: Lane) -> bool:
    """Whether jobs of this kind may run there, and find it really full.

    Those in line are counted beside those who run: where others have left, there is room that
    only looks taken, and it is seen once the rows are over.
    """
    if not node.takes_work or node.lease_s or node.name not in this.space.rooms:
        return False
    shape = this.cluster.lanes.shapes[lane.key.shape]
    request, rules, spec = shape.roles[0].request, this.policy.place, node.spec
    new = [a for s in this.plan.starts for a in s.allocations if a.node == node.name]
    free = node.headroom()
    for allocation in new:
        free = free.plus(amount_of(allocation), -1)
    cpu_milli = free.cpu_milli + int(spec.cpu_milli * (rules.overcommit_cpu - 1))
    memory_mib = free.memory_mib + int(spec.memory_mib * (rules.overcommit_memory - 1))
    if (
        cpu_milli >= request.cpu_milli
        and memory_mib >= request.memory_mib
        and free.disk_mib >= request.disk_mib
    ):
        return False
    wants = this.space.wants(lane.key.shape, shape)
    return any(this.space.may_ever_fit(want, node.name) for want in wants)


def _rows_on(cluster: Cluster, node: Node, lane: Lane) -> list[Row]:
    by_last: dict[str, Row] = {}

    def place(uid: str) -> tuple[int, tuple[int, int]]:
        """Whoever has fewer before him comes first; a new controller knows no other order."""
        before = sum(other in node.live for other in node.withheld.get(uid, ()))
        return before, cluster.live.where[uid]

    for uid in sorted(node.live, key=place):
        job, attempt = _attempt(cluster, uid)
        if uid not in node.withheld:
            if uid not in node.outgrown and _will_leave(cluster, job, attempt, lane):
                by_last[uid] = Row(attempt.allocation, [uid])
        elif not attempt.ahead:
            return []  # Others were asked to leave for it, and it counts on that.
        elif (last := next((u for u in reversed(attempt.after) if u in by_last), "")) != "":
            by_last[uid] = row = by_last.pop(last)
            row.uids.append(uid)
    return list(by_last.values())


def _will_leave(cluster: Cluster, job: Job, attempt: Attempt, lane: Lane) -> bool:
    """Whether it is of the same kind, and nothing is in its way to its end."""
    stays = job.suspended_s or attempt.borrows or attempt.uid in cluster.live.loans
    return not stays and not attempt.window_s and cluster.alike(job) is lane


def _attempt(cluster: Cluster, uid: str) -> tuple[Job, Attempt]:
    job_id, task = cluster.live.where[uid]
    job = cluster.jobs[job_id]
    return job, job.tasks[task].attempts[-1]


def _uid(cluster: Cluster, job_id: int, array_id: int) -> str:
    """What the attempt will be called that a waiting job, or an untouched element, gets now."""
    job = cluster.jobs.get(job_id)
    if job is None:
        array = cluster.arrays[array_id]
        job = array.expand(array.position(job_id))
    return job.attempt_uid(0)
