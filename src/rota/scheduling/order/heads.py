"""The next candidate of each lane, so that a pass can merge lanes in the order of its policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.scheduling.api import Entry
from rota.scheduling.order.lengths import run_s_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Lane, Shape
    from rota.core.facts.job import Array
    from rota.core.facts.resources import Amount

#: (-priority, job, array that it is an untouched element of or 0).
Candidate = tuple[int, int, int]


class Head:
    """The first job of a lane that was not dealt with yet."""

    __slots__ = (
        *("_candidates", "_run_s", "amount", "array", "entry"),
        *("full", "key", "lane", "shape"),
    )

    def __init__(self, cluster: Cluster, lane: Lane, amount: Amount) -> None:
        self.lane = lane
        #: What each of its jobs holds when it starts.
        self.amount = amount
        self.shape: Shape = cluster.lanes.shapes[lane.key.shape]
        self._candidates = _walk(cluster, lane)
        self.array = 0
        self.entry: Entry | None = None
        #: The own key of its job; None: not worked out yet.
        self.key: tuple[float, ...] | None = None
        #: The same for all jobs of a lane.
        self._run_s = run_s_of(cluster, lane.key, self.shape.roles)
        #: A job of the lane found no room in this pass: the ones behind it find none either.
        self.full = False

    def advance(self, cluster: Cluster) -> Entry | None:
        """On to the next job of the lane; None when there is none."""
        found = next(self._candidates, None)
        self.key = None
        if found is None:
            self.entry = None
            return None
        _, job_id, self.array = found
        item = cluster.arrays[self.array] if self.array else cluster.jobs[job_id]
        key = self.lane.key
        self.entry = Entry(job_id, key, self.shape, item.submitted_s, item.eligible_s, self._run_s)
        return self.entry


def entry_in(cluster: Cluster, lane: Lane, item: int) -> Entry:
    """What stands in a lane under this id, as orderings see it: an array before its elements."""
    record = cluster.arrays.get(item) or cluster.jobs[item]
    key, shape = lane.key, cluster.lanes.shapes[lane.key.shape]
    run_s = run_s_of(cluster, key, shape.roles)
    return Entry(item, key, shape, record.submitted_s, record.eligible_s, run_s)


def _walk(cluster: Cluster, lane: Lane) -> Iterator[Candidate]:
    """Candidates in order: an element that has a record already stands among its siblings."""
    siblings: Iterator[Candidate] = iter(())
    sibling = None
    for priority, item in lane.walk():
        while sibling is not None and sibling[:2] < (priority, item):
            yield sibling
            sibling = next(siblings, None)
        array = cluster.arrays.get(item)
        if array is None:
            yield priority, item, 0
        else:
            siblings = _untouched(array, priority)
            sibling = next(siblings, None)
    while sibling is not None:
        yield sibling
        sibling = next(siblings, None)


def _untouched(array: Array, priority: int) -> Iterator[Candidate]:
    for position in array.pending().walk():
        yield priority, array.element_id(position), array.id
