"""Which jobs come before a waiting job by the order of the policy.

Jobs of a lane differ in their age only, and the older one never has the higher key, so each
lane is searched and not walked.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from rota.core.derived.holdings import least_of
from rota.scheduling.answers.reasons import Ahead
from rota.scheduling.order.heads import Head, entry_in

if TYPE_CHECKING:
    from rota.core.derived.lanes import Lane, Place
    from rota.core.facts.array import Array
    from rota.scheduling.api import Entry
    from rota.scheduling.order.keys import Key
    from rota.scheduling.passes import Pass

#: The most jobs ahead that are named.
NAMED = 3


def ahead_of(this: Pass, entry: Entry) -> Ahead:
    """Counted one by one, elements of arrays too; of each lane the first is named."""
    mine = this.keys.of(entry, least_of(entry.shape))
    count = 0
    first: list[tuple[Key, int]] = []
    for lane in this.cluster.lanes.lanes.values():
        head = Head(this.cluster, lane).advance(this.cluster)
        assert head is not None
        top = this.keys.of(head, least_of(head.shape))
        if top < mine:
            count += _before(this, lane, mine)
            first.append((top, head.job))
    first.sort()
    return Ahead(count, tuple(job for _, job in first[:NAMED]))


def _before(this: Pass, lane: Lane, mine: Key) -> int:
    """How many jobs of a lane whose first comes first: mostly all, else found by bisection."""
    arrays = this.cluster.arrays

    def key_of(place: Place, job: int = 0) -> Key:
        entry = entry_in(this.cluster, lane, place[1])
        return this.keys.of(entry._replace(job=job) if job else entry, least_of(entry.shape))

    def elements(array: Array, place: Place) -> int:
        """Untouched ones: all, or those before a sibling."""
        if key_of(place, array.element_id(array.waiting[-1][1])) < mine:
            return len(array.pending())
        at = array.position(int(mine[-1]))
        return sum(max(0, min(last + 1, at) - start) for start, last in array.waiting)

    places = sorted(lane.members.values())
    if key_of(places[-1]) >= mine:
        del places[bisect_left(places, mine, key=key_of) :]
    if not arrays:
        return len(places)
    return sum(elements(arrays[p[1]], p) if p[1] in arrays else 1 for p in places)
