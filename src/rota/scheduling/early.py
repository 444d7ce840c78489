"""Jobs that are handed to an engine before there is room, so that one waits there when room comes.

An engine that queues by itself starts the next job as one ends. Without a next job inside it waits
for our look at the end, our pass, and its own look at what is new. So an engine names a number of
early places (``NodeSpec.early``), more where jobs end often and none where they do not.

What goes in early is what would start next: it takes its turn in the pass, is admitted as any
other, and finds no room. It counts under all quotas and caps, and its room is kept for it as soon
as somebody leaves; until it begins it holds nothing. Inside, our order does not hold, so few things
are allowed to differ there: single tasks without devices, all early ones of a node with the same
request, none where room is promised to another job or reserved, and none while a job waits that
could use the node and may not wait inside. Each attempt that runs on the node holds at least what
they ask for: whichever of them ends, the next one begins. They come back when a job of a higher
priority, or an older one of the same lane, waits for the node; when a quota or a closed queue would
not let them start; and when the node has fewer places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.core.facts.resources import Amount
from rota.scheduling.api import Return
from rota.scheduling.place.gang import Placed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import LaneKey, Shape
    from rota.core.facts.job import Job
    from rota.core.facts.node import Node
    from rota.core.facts.resources import Request
    from rota.scheduling.api import Entry
    from rota.scheduling.later.promises import Promises
    from rota.scheduling.limits.quota import Quotas
    from rota.scheduling.place.node_checks import NodeChecks
    from rota.scheduling.place.node_index import Space


class Early:
    """The early places during one pass; nothing is computed where no engine has any."""

    def __init__(
        self, cluster: Cluster, space: Space, checks: NodeChecks, promises: Promises
    ) -> None:
        self._cluster, self._space = cluster, space
        self._checks, self._promises = checks, promises
        #: How many places are left on each node, and what those that wait there ask for.
        self._left = {name: left_on(cluster, name) for name in sorted(space.engines.early)}
        self._requests: dict[str, Request] = {}
        #: What each attempt that runs there leaves at the least.
        self._leaves = {name: _least_held(cluster.nodes[name]) for name in self._left}
        for name in self._left:
            for job in _jobs_on(cluster, name):
                self._requests[name] = job.spec.roles[0].request
        #: The shapes of all jobs that wait.
        lanes = cluster.lanes.by_number.values() if self._left else ()
        self._waiting = {lane.key.shape for lane in lanes}
        self._returns: list[Return] = []

    def may_help(self, number: int) -> bool:
        """Whether there is a place for jobs of this shape, if it is their turn."""
        shape = self._cluster.lanes.shapes[number] if self._left else None
        return shape is not None and any(
            self._is_open(name, shape) for name, _ in self._fitting(number)
        )

    def _fitting(self, number: int) -> list[tuple[str, int]]:
        """The nodes that take such jobs when they are empty, with the places that are left."""
        fits = self._promises.may_ever_fit
        return [(name, left) for name, left in self._left.items() if fits(number, (name,))]

    def _is_open(self, name: str, shape: Shape) -> bool:
        return self._left[name] > 0 and self._suits(name, shape)

    def _suits(self, name: str, shape: Shape) -> bool:
        """Whether such a job may wait inside there, if there is a place."""
        if not is_plain(shape) or self._space.rooms[name].alone:
            return False
        request, leaves = shape.roles[0].request, self._leaves[name]
        if leaves is not None and (
            request.cpu_milli > leaves.cpu_milli
            or request.memory_mib > leaves.memory_mib
            or request.disk_mib > leaves.disk_mib
        ):
            return False
        return self._requests.get(name, request) == request

    def place(self, entry: Entry) -> list[Placed] | None:
        """A place for a job that found no room, taken where most are left; None: there is none."""
        if not self._left:
            return None
        self._call_back(entry)
        shape, space = entry.shape, self._space
        fitting = self._fitting(entry.key.shape)
        names = [
            (-left, name)
            for name, left in fitting
            if self._is_open(name, shape)
            and not self._checks.refuses(shape, name)
            and not self._is_claimed(name, entry)
            and not self._is_wanted(name)
        ]
        if not names:
            # Inside nobody could tell that it came first: no other goes before it.
            self._left |= {name: 0 for name, _ in fitting}
            return None
        _, name = min(names)
        want = space.wants(entry.key.shape, shape)[0]
        chosen = space.rooms[name].choose(want.request, firm=want.firm)
        allocation = replace(chosen, early=True)
        space.take(name, allocation)
        self._left[name] -= 1
        self._requests[name] = want.request
        return [Placed(0, allocation)]

    def _is_wanted(self, name: str) -> bool:
        """Whether a waiting job could use the node and may not wait inside: it may come first.

        Whether it does is not asked: it need not have a turn in this pass, and the order of those
        that wait may move with time alone.
        """
        shapes, fits = self._cluster.lanes.shapes, self._promises.may_ever_fit
        return any(
            not self._suits(name, shapes[number]) and fits(number, (name,))
            for number in self._waiting
        )

    def _is_claimed(self, name: str, entry: Entry) -> bool:
        """Whether room there is promised to others: when an early one begins nobody knows."""
        key, claims = entry.key, self._promises.timeline.claims.get(name, ())
        return any(claim.binds(entry.job, key.user, key.project) for claim in claims)

    def _call_back(self, entry: Entry) -> None:
        """Jobs behind it that are early on nodes of its kind come back for one that waits: less
        urgent ones, and younger ones of its own lane if it has been inside and came back.
        """
        for name, _ in self._fitting(entry.key.shape):
            for job in _jobs_on(self._cluster, name):
                if job.spec.priority < entry.key.priority:
                    self._return(job, f"job {entry.job} is more urgent")
                elif job.id > entry.job and self._key_of(job) == entry.key:
                    self._return(job, f"job {entry.job} came before")

    def _key_of(self, job: Job) -> LaneKey:
        """The lane that it came from: among jobs of one nothing but age decides."""
        return self._cluster.lanes.key_of(job.spec, self._cluster.capped_array(job))

    def review(self, quotas: Quotas) -> list[Return]:
        """The list of those that come back; at first the ones that might not start now."""
        for name in self._left:
            for job in _jobs_on(self._cluster, name):
                queue = self._cluster.queues.get(job.spec.queue)
                if queue is not None and not queue.starts_jobs:
                    self._return(job, f"queue {queue.name} starts no jobs")
                elif quotas.is_over(job):
                    self._return(job, "a quota was lowered")
        return self._returns

    def _return(self, job: Job, why: str) -> None:
        if all(one.job != job.id for one in self._returns):
            self._returns.append(back(job, why))


def back(job: Job, why: str) -> Return:
    return Return(job.id, f"came back from its engine: {why}")


def is_plain(shape: Shape) -> bool:
    """Whether nothing but amounts tells such jobs from others."""
    return shape.task_count == 1 and not (
        shape.roles[0].request.device_count or shape.placement.exclusive
    )


def left_on(cluster: Cluster, name: str) -> int:
    """How many early places of a node nobody has."""
    node = cluster.nodes[name]
    return node.spec.early - len(node.early)


def surplus(cluster: Cluster, names: Iterable[str]) -> list[Return]:
    """Those that came last where a node has more than places: few end there, or it is closed."""
    found: list[Return] = []
    for name in names:
        node = cluster.nodes.get(name)
        if node is None or not node.spec.engine or not (early := node.early):
            continue
        places = node.spec.early if node.takes_work else 0
        why = f"few jobs end on {name}" if node.takes_work else f"{name} takes no jobs"
        found += [back(job, why) for job in _jobs_of(cluster, early)[places:]]
    return found


def _least_held(node: Node) -> Amount | None:
    """The least of everything that attempts hold which have begun, or have room; None: no such."""
    held = [one for uid, one in node.live.items() if not one.early and uid not in node.withheld]
    if not held:
        return None
    return Amount(
        min(one.cpu_milli for one in held),
        min(one.memory_mib for one in held),
        min(one.disk_mib for one in held),
    )


def _jobs_on(cluster: Cluster, name: str) -> list[Job]:
    return _jobs_of(cluster, cluster.nodes[name].early)


def _jobs_of(cluster: Cluster, uids: Iterable[str]) -> list[Job]:
    """Those that are not coming back already, in the order of coming.

    By what is stored of them: it is the same order after a restart.
    """
    jobs = (cluster.jobs[cluster.live.where[uid][0]] for uid in uids)
    staying = [job for job in jobs if job.live_attempts[0].stop_cause is None]
    return sorted(staying, key=lambda job: (job.live_attempts[0].placed_s, job.id))
