"""Short jobs in a row: whoever is next on a node is placed before the one before him has ended.

A job that is over at once costs less than the way from its end to the controller, to the disk and
back. So its successors are told to the agent ahead, and start there as their turn comes. Only
where nothing can come between them: nobody else waits, all of them ask for the same, and those
who ended lately were over at once. An agent that waits in vain gives them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.scheduling.gang import Placed

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.job import Attempt, Job
    from rota.core.lanes import Lane
    from rota.core.node import Allocation, Node
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
        this.space.take(row.room.node, row.room)
        this.record(head, entry, [Placed(0, row.room)], after=tuple(row.uids), ahead=True)
        this.promises.fulfilled(entry.job)
        row.uids.append(_uid(this.cluster, entry.job, head.array))


def _only_lane(this: Pass) -> Lane | None:
    """The lane of brisk single tasks that is all there is to wait."""
    cluster = this.cluster
    if len(cluster.lanes.by_number) != 1 or cluster.reservations or this.plan.evictions:
        return None
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
    names = cluster.nodes if changed is None else changed
    nodes = [node for name in names if (node := cluster.nodes.get(name)) is not None]
    able = [node for node in nodes if node.takes_work and not node.lease_s]
    rows = [row for node in able for row in _rows_on(cluster, node, lane)]
    for start in this.plan.starts:
        # All of them are of this lane: there is no other.
        room = start.allocations[0]
        if not cluster.nodes[room.node].lease_s:
            rows.append(Row(room, [_uid(cluster, start.job, start.array)]))
    return rows


def _rows_on(cluster: Cluster, node: Node, lane: Lane) -> list[Row]:
    by_last: dict[str, Row] = {}
    for uid in node.live:
        job, attempt = _attempt(cluster, uid)
        if uid not in node.withheld:
            if _will_leave(cluster, job, attempt, lane):
                by_last[uid] = Row(attempt.allocation, [uid])
        elif not attempt.ahead:
            return []  # Others were asked to leave for it, and it counts on that.
        elif (last := next((u for u in reversed(attempt.after) if u in by_last), "")) != "":
            by_last[uid] = row = by_last.pop(last)
            row.uids.append(uid)
    return list(by_last.values())


def _will_leave(cluster: Cluster, job: Job, attempt: Attempt, lane: Lane) -> bool:
    """Whether it is of the same kind, and nothing is in its way to its end."""
    stays = job.suspended_s or attempt.borrows or attempt.uid in cluster.loans
    return not stays and not attempt.window_s and cluster.alike(job) is lane


def _attempt(cluster: Cluster, uid: str) -> tuple[Job, Attempt]:
    job_id, task = cluster.live[uid]
    job = cluster.jobs[job_id]
    return job, job.tasks[task].attempts[-1]


def _uid(cluster: Cluster, job_id: int, array_id: int) -> str:
    """What the attempt will be called that a waiting job, or an untouched element, gets now."""
    job = cluster.jobs.get(job_id)
    if job is None:
        array = cluster.arrays[array_id]
        job = array.expand(array.position(job_id))
    return job.attempt_uid(0)
