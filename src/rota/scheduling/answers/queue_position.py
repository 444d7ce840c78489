"""Who comes before a waiting job by the order of the policy.

Jobs of a lane differ in their age only, and the older one never has the higher key, so each
lane is searched and not walked.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from rota.scheduling.answers.reasons import Ahead
from rota.scheduling.api import Entry
from rota.scheduling.order.account_queues import entry_key
from rota.scheduling.order.lengths import run_s_of

if TYPE_CHECKING:
    from rota.core.derived.lanes import Lane, Place
    from rota.scheduling.order.account_queues import Key
    from rota.scheduling.passes import Pass

#: So many of those ahead are named.
NAMED = 3


def ahead_of(this: Pass, entry: Entry, lane: Lane, item: int) -> Ahead:
    """Counted one by one, elements of arrays too. ``item`` is what stands in the lane."""
    mine = entry_key(this, entry, this.scheduler.amount(lane.key.shape), this.view)
    count = 0
    first: list[tuple[Key, int]] = []
    for other in this.cluster.lanes.lanes.values():
        head = next(other.walk())
        top = _key_of(this, other, head)
        if other is lane:
            before = [place for place in other.members.values() if place < other.members[item]]
        else:
            before = _before(this, other, mine) if top < mine else []
        if before:
            count += _sum(this, before)
            first.append((top, _first_id(this, head[1])))
    array = this.cluster.arrays.get(item)
    if array is not None:
        at = array.position(entry.job)
        own = sum(max(0, min(last + 1, at) - start) for start, last in array.waiting)
        count += own
        if own:
            first.append((mine, array.element_id(array.pending().first())))
    first.sort()
    return Ahead(count, tuple(job for _, job in first[:NAMED]))


def _before(this: Pass, lane: Lane, mine: Key) -> list[Place]:
    """Members of a lane whose first comes first: mostly all of them, else found by bisection."""
    alone = len(lane.members) == 1
    if alone or _key_of(this, lane, max(lane.members.values())) < mine:
        return list(lane.members.values())
    places = sorted(lane.members.values())
    return places[: bisect_left(places, mine, key=lambda place: _key_of(this, lane, place))]


def _sum(this: Pass, places: list[Place]) -> int:
    """How many jobs stand at these places: of an array, its untouched elements."""
    arrays = this.cluster.arrays
    if not arrays:
        return len(places)
    return sum(len(arrays[item].pending()) if item in arrays else 1 for _, item in places)


def _first_id(this: Pass, item: int) -> int:
    array = this.cluster.arrays.get(item)
    if array is None:
        return item
    pending = array.pending()
    return array.element_id(pending.first()) if pending else item


def _key_of(this: Pass, lane: Lane, place: Place) -> Key:
    amount = this.scheduler.amount(lane.key.shape)
    return entry_key(this, entry_in(this, lane, place[1]), amount, this.view)


def entry_in(this: Pass, lane: Lane, item: int) -> Entry:
    """A waiting job (of an array: its first untouched element) as orderings see it."""
    cluster, key = this.cluster, lane.key
    record = cluster.arrays.get(item) or cluster.jobs[item]
    shape = cluster.lanes.shapes[key.shape]
    return Entry(
        _first_id(this, item),
        key,
        shape,
        record.submitted_s,
        record.eligible_s,
        run_s_of(cluster, key, shape.roles),
    )
