"""The next candidate of each lane, so that a pass can merge lanes in the order of its policy.

Nothing in here knows the pass, nor what takes lanes in turn: a pass is free of cycles, and its
memory is given back when it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.derived.holdings import least_of
from rota.scheduling.api import Entry
from rota.scheduling.order.lengths import run_s_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Lane, Shape
    from rota.core.facts.array import Array
    from rota.scheduling.order.keys import Key, Keys
    from rota.scheduling.order.standing import Standing

#: (-priority, job, array that it is an untouched element of or 0).
Candidate = tuple[int, int, int]


class Head:
    """The first job of a lane that was not dealt with yet."""

    __slots__ = (
        *("_candidates", "_run_s", "amount", "array", "entry"),
        *("full", "is_spent", "key", "lane", "shape"),
    )

    def __init__(self, cluster: Cluster, lane: Lane) -> None:
        self.lane = lane
        self.shape: Shape = cluster.lanes.shapes[lane.key.shape]
        #: What each of its jobs holds when it starts.
        self.amount = least_of(self.shape)
        self._candidates = _walk(cluster, lane)
        #: Its array or 0, and its job, from the first ``advance`` on, and the own key of that;
        #: none is left: spent.
        self.array: int
        self.entry: Entry
        self.key: Key
        self.is_spent = False
        #: The same for all jobs of a lane.
        self._run_s = run_s_of(cluster, lane.key, self.shape.roles)
        #: A job of the lane found no room in this pass: the ones behind it find none either.
        self.full = False

    def advance(self, cluster: Cluster) -> Entry | None:
        """On to the next job of the lane; None when there is none."""
        found = next(self._candidates, None)
        if found is None:
            self.is_spent = True
            return None
        _, job_id, self.array = found
        item = cluster.families.arrays[self.array] if self.array else cluster.jobs[job_id]
        key = self.lane.key
        self.entry = Entry(job_id, key, self.shape, item.submitted_s, item.eligible_s, self._run_s)
        return self.entry


class Heads:
    """The heads of the lanes that one pass has come to, with their own keys."""

    def __init__(self, cluster: Cluster, standing: Standing, keys: Keys) -> None:
        self._cluster = cluster
        self._standing = standing
        #: By which lanes stand in line, and the ones that heads have.
        self._keys = self._given = keys
        self._of: dict[int, Head] = {}
        #: Lanes of which every job has started.
        self.started: set[int] = set()

    def sort_by(self, keys: Keys) -> None:
        """From now on heads have these keys."""
        self._given = keys
        for head in self._of.values():
            if not head.is_spent:
                head.key = keys.own(head.entry)

    def own_key(self, lane: Lane, *, passing: bool) -> Key | None:
        """The own key of a lane, or its key among those that may pass the first; None: no job.

        What is known of a lane that the pass has not come to serves without opening it.
        """
        if lane.number not in self._of:
            known = self._standing.known_key(lane.number, self._keys.now_s, passing=passing)
            if known is not None:
                return known
        head = self.opening(lane)
        return head.key if head is not None else None

    def opening(self, lane: Lane) -> Head | None:
        """The head of a lane, at the job that the pass has come to; None when it has no job."""
        head = self._of.get(lane.number)
        if head is None:
            head = self._of[lane.number] = Head(self._cluster, lane)
            entry = head.advance(self._cluster)
            if entry is not None:
                known = self._standing.key_of(entry, lane.number, self._keys.now_s)
                head.key = known if known is not None else self._keys.own(entry)
                if known is None:
                    self._standing.note(self._keys, head, head.key)
                if self._given is not self._keys:
                    head.key = self._given.own(entry)
        return None if head.is_spent else head

    def head_of(self, job: int) -> Head | None:
        """A waiting job as if it stood in front of its lane."""
        cluster = self._cluster
        array = cluster.array_of(job)
        lane = cluster.lanes.where.get(array.id if array is not None else job)
        if lane is None:
            return None
        head = Head(cluster, lane)
        head.array = array.id if array is not None else 0
        head.entry = entry_in(cluster, lane, head.array or job)._replace(job=job)
        return head


def entry_in(cluster: Cluster, lane: Lane, item: int) -> Entry:
    """What stands in a lane under this id, as orderings see it: an array before its elements."""
    record = cluster.arrays.get(item) or cluster.jobs[item]
    key, shape = lane.key, cluster.lanes.shapes[lane.key.shape]
    run_s = run_s_of(cluster, key, shape.roles)
    return Entry(item, key, shape, record.submitted_s, record.eligible_s, run_s)


def _walk(cluster: Cluster, lane: Lane) -> Iterator[Candidate]:
    """Candidates in order: an element that has a record already stands among its siblings."""
    siblings: Iterator[Candidate] = iter(())
    sibling, arrays = None, cluster.families.arrays
    for priority, item in lane.walk():
        while sibling is not None and sibling[:2] < (priority, item):
            yield sibling
            sibling = next(siblings, None)
        array = arrays.get(item)
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
