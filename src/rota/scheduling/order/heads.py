"""The next candidate of each lane, so that a pass can merge lanes in the order of its policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.policy import Estimates
from rota.scheduling.api import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Lane, LaneKey, Shape
    from rota.core.facts.job import Array, JobSpec, Role
    from rota.core.facts.policy import BackfillRules
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
        self._run_s = -1.0
        #: A job of the lane found no room in this pass: the ones behind it find none either.
        self.full = False

    def advance(self, cluster: Cluster, rules: BackfillRules) -> Entry | None:
        """On to the next job of the lane; None when there is none."""
        found = next(self._candidates, None)
        self.key = None
        if found is None:
            self.entry = None
            return None
        _, job_id, self.array = found
        item = cluster.arrays[self.array] if self.array else cluster.jobs[job_id]
        key = self.lane.key
        if self._run_s < 0.0:
            # The same for all jobs of a lane.
            self._run_s = run_s_of(key, self.shape.roles, rules)
        self.entry = Entry(job_id, key, self.shape, item.submitted_s, item.eligible_s, self._run_s)
        return self.entry


def first_waiting(cluster: Cluster, item: int) -> int:
    """The job that stands in a lane under this id: of an array, its first untouched element."""
    array = cluster.arrays.get(item)
    pending = array.pending() if array is not None else None
    return array.element_id(pending.first()) if array is not None and pending else item


def run_s_of(item: JobSpec | LaneKey, roles: tuple[Role, ...], rules: BackfillRules) -> float:
    """How long a job is taken to run: as predicted where the policy says so, as it said,
    as long as it may, else as the policy assumes."""
    estimate_s, limit_s = item.estimate_s, item.time_limit_s
    if rules.estimates is Estimates.PREDICTED and item.predicted_s:
        estimate_s = item.predicted_s
    if estimate_s and limit_s:
        return float(min(estimate_s, limit_s))
    if estimate_s or limit_s:
        return float(estimate_s or limit_s)
    devices = any(role.request.device_count for role in roles)
    return float(rules.estimate_device_s if devices else rules.estimate_cpu_s)


def stay_s_of(spec: JobSpec, rules: BackfillRules) -> float:
    """How long a running job is taken to hold its room. Promises to others rest on it: what
    was predicted counts only where its user named no limit, and then its bound."""
    if rules.estimates is not Estimates.PREDICTED or not spec.predicted_s:
        return run_s_of(spec, spec.roles, rules)
    return float(spec.time_limit_s or spec.predicted_most_s)


def front_of(cluster: Cluster, lane: Lane) -> tuple[int, float]:
    """The job in front of a lane, and since when it is ready; (0, 0) when there is none."""
    first = lane.first
    if first not in cluster.arrays:
        return first, cluster.jobs[first].eligible_s if first else 0.0
    _, job, array = next(_walk(cluster, lane), (0, 0, 0))
    record = cluster.arrays[array] if array else cluster.jobs.get(job)
    return job, record.eligible_s if record is not None else 0.0


def entry_in(cluster: Cluster, lane: Lane, item: int) -> Entry:
    """A waiting job (of an array: its first untouched element) as orderings see it."""
    record = cluster.arrays.get(item) or cluster.jobs[item]
    key, shape = lane.key, cluster.lanes.shapes[lane.key.shape]
    run_s = run_s_of(key, shape.roles, cluster.policy.backfill)
    job = first_waiting(cluster, item)
    return Entry(job, key, shape, record.submitted_s, record.eligible_s, run_s)


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
