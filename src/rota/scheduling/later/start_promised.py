"""Promises that a pass did not come to: whoever was promised room and can have it now starts.

A pass asks the first jobs of each lane, and as many as get a promise. Somebody may come to stand
before those who had theirs (one that is tried again, say) and use up what there is to promise.
Their claims keep everybody else out, so they must be asked, or the room would stay empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.scheduling.answers.queue_position import entry_in

if TYPE_CHECKING:
    from rota.scheduling.order.heads import Head
    from rota.scheduling.passes import Pass


def redeem(this: Pass, limit: int) -> None:
    """Start those who have a promise and were not looked at; forget promises that are overdue."""
    promises, starts = this.promises, this.plan.starts
    for promise in promises.unsettled():
        head = _head_of(this, promise.job)
        if head is None or head.entry is None or len(starts) >= limit:
            continue
        placed = None if this.is_capped(head.lane) else this.find_room(head.entry)
        if placed is not None:
            this.start(head, head.entry, placed)
        elif promise.start_s > this.now_s:
            this.wake_at(promise.start_s, promised=True)
        else:
            promises.withdraw(promise.job)
            # Lanes that its claim kept out were looked at while it stood.
            this.left_out = True


def _head_of(this: Pass, job: int) -> Head | None:
    """A waiting job as if it stood in front of its lane."""
    cluster = this.cluster
    array = cluster.array_of(job)
    lane = cluster.lanes.where.get(array.id if array is not None else job)
    if lane is None:
        return None
    head = this.head(lane)
    head.array = array.id if array is not None else 0
    entry = entry_in(this, lane, head.array or job)
    head.entry = entry._replace(job=job)
    return head
