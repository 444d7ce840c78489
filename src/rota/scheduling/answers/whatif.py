"""What would happen if: changes tried on the live Cluster, with real passes and without a trace.

    with WhatIf(scheduler, now_s) as world:
        start = world.start_of(12, Respec(12, smaller))

Inside the block the Cluster has lanes of its own (a copy) and passes are made by a Scheduler of
its own, so nothing that the live one remembers is touched. Each change puts a new record in place
of an old one and is taken back, in reverse order, before the next is tried; no record that was
there before is ever changed itself, so a store that writes them meanwhile sees the truth. Nothing
else may use the Cluster inside the block: there must be no ``await`` in it.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec.structs import replace

from rota.core.changes.dependencies import judge
from rota.core.derived.census import caps_of
from rota.core.derived.log import Log
from rota.core.facts.array import Array
from rota.core.facts.job import Job, JobSpec
from rota.core.facts.loans import without
from rota.core.facts.policy import Backfill
from rota.core.facts.states import QueueState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from rota.core.cluster import Cluster
    from rota.core.facts.node import Allocation
    from rota.core.facts.tenant import Queue
    from rota.scheduling.api import Eviction, PassResult, Promise, Start
    from rota.scheduling.scheduler import Scheduler

#: Starts looked at in one trial; a queue that has been worked through has few to come.
STARTS_MAX = 4096
#: Waiting jobs that get a promise when a start is to be foretold.
DEPTH = 20
#: Moments that are looked at for one at which a job takes the room of others.
MOMENTS = 3


class ComingTakeover(NamedTuple):
    """When a job that waits takes the room of others, where, and of which jobs."""

    start_s: float
    allocations: tuple[Allocation, ...]
    victims: tuple[int, ...]
    #: The job ahead that takes it, and leaves it room later; 0: it does so itself.
    heir: int = 0


class Supposed(Protocol):
    """Something to try."""

    def make(self, world: WhatIf) -> None: ...


class Respec(NamedTuple):
    """A waiting job, array or untouched element asks for something else; it counts as ready."""

    job: int
    spec: JobSpec

    def make(self, world: WhatIf) -> None:
        cluster = world.cluster
        array = cluster.arrays.get(self.job)
        family = cluster.array_of(self.job)
        if array is not None:
            item: Job | Array = array
        elif family is not None:
            position = family.position(self.job)
            item = family.expand(position)
            array = replace(family, waiting=[list(run) for run in family.waiting])
            array.pending().discard(position)
            world.put_item(cluster.arrays, family.id, array)
        else:
            item = cluster.jobs[self.job]
            array = cluster.arrays.get(item.array_id)
        ready = replace(item, spec=self.spec, held=False, eligible_s=item.eligible_s or world.now_s)
        table: dict[int, Any] = cluster.arrays if isinstance(item, Array) else cluster.jobs
        world.put_item(table, self.job, ready)
        world.enter(ready, array.id if array is not None and array.cap else 0, item.spec)


class Added(NamedTuple):
    """One more job, as a submit would make it. Its id is that of the next submit."""

    spec: JobSpec
    held: bool = False

    def make(self, world: WhatIf) -> None:
        cluster, spec, now_s = world.cluster, self.spec, world.now_s
        job = Job(cluster.ids.next, "", spec, now_s, held=self.held)
        job.not_before_s = spec.begin_s if spec.begin_s > now_s else 0.0
        ready = not self.held and not job.not_before_s and judge(cluster, job).met
        job.eligible_s = now_s if ready else 0.0
        world.put_item(cluster.jobs, job.id, job)
        if ready:
            world.enter(job, 0)


class JobGone(NamedTuple):
    """A running job has left: its room, its places under caps and its holdings are free."""

    job: int

    def make(self, world: WhatIf) -> None:
        cluster = world.cluster
        job = cluster.jobs[self.job]
        live = {attempt.uid: attempt for attempt in job.live_attempts}
        holdings = cluster.accounts.holdings.twin()
        for attempt in live.values():
            holdings.shift(job.spec, holdings.count_of(attempt), -1)
            node = cluster.nodes.get(attempt.allocation.node)
            if node is not None:
                left = {uid: held for uid, held in node.live.items() if uid not in live}
                left |= _paid_back(cluster, left, live)
                world.put_item(cluster.nodes, node.name, replace(node, live=left))
                world.touch(node.name)
        world.put(cluster.accounts, "holdings", holdings)
        kept = {uid: where for uid, where in cluster.live.where.items() if uid not in live}
        world.put(cluster.live, "where", kept)
        active = cluster.census.active_in
        for counter in caps_of(job):
            ids = {other: None for other in active.get(counter, ()) if other != self.job}
            world.put_item(active, counter, ids)


def _paid_back(
    cluster: Cluster, left: Mapping[str, Allocation], gone: Collection[str]
) -> dict[str, Allocation]:
    """What lenders on a node hold when these borrowers have gone."""
    found = {}
    for uid in left:
        lent = cluster.live.loans.get(uid)
        if lent is not None:
            full = cluster.live.attempt(uid).allocation
            rest = [loan for borrower, loan in lent.items() if borrower not in gone]
            found[uid] = without(full, rest)
    return found


class Replaced(NamedTuple):
    """Another record in one of the Cluster's tables: a queue, a group, a user, a project."""

    #: By its name, or by that of the part and its own: ``accounts.users``.
    table: str
    key: Any
    record: Any

    def make(self, world: WhatIf) -> None:
        world.put_item(attrgetter(self.table)(world.cluster), self.key, self.record)


class Together(NamedTuple):
    """Several changes that one command makes."""

    changes: tuple[Supposed, ...]

    def make(self, world: WhatIf) -> None:
        for change in self.changes:
            change.make(world)


class WithoutRecord(NamedTuple):
    """One record less in one of the Cluster's tables: a reservation."""

    table: str
    key: Any

    def make(self, world: WhatIf) -> None:
        table = getattr(world.cluster, self.table)
        rest = {key: record for key, record in table.items() if key != self.key}
        world.put(world.cluster, self.table, rest)


class Resumed(NamedTuple):
    """A drained node takes work again."""

    node: str

    def make(self, world: WhatIf) -> None:
        nodes = world.cluster.nodes
        world.put_item(nodes, self.node, replace(nodes[self.node], drained=False))
        world.touch(self.node)


def active(queue: Queue) -> Replaced:
    opened = replace(queue, state=QueueState.ACTIVE, outside=False)
    return Replaced("queues", queue.name, opened)


class WhatIf:
    """A place for trials. A context: the Cluster is as before when it ends, whatever happens."""

    def __init__(self, scheduler: Scheduler, now_s: float) -> None:
        self._live = scheduler
        self.cluster: Cluster = scheduler.cluster
        self.now_s = now_s
        #: How many passes were run.
        self.trials = 0
        self._undo: list[Callable[[], object]] = []
        #: How much of it is the world itself.
        self._base: int
        self._dirty: dict[str, None] = {}
        self._own: Scheduler | None = None

    def __enter__(self) -> WhatIf:
        cluster = self.cluster
        for part, field, value in (
            (cluster, "lanes", cluster.lanes.twin()),
            (cluster.agenda, "touched", Log()),
            (cluster.agenda, "rules_version", cluster.agenda.rules_version),
        ):
            self.put(part, field, value)
        self._base = len(self._undo)
        return self

    def __exit__(self, *error: object) -> None:
        self.take_back()
        self._back_to(0)

    @property
    def scheduler(self) -> Scheduler:
        """The Scheduler of this world; explanations of what is tried read from it."""
        if self._own is None:
            self._own = self._live.another()
        return self._own

    def put(self, part: object, field: str, value: Any) -> None:  # noqa: ANN401 - any table or sum
        """Give the Cluster or a part of it another table until the change is taken back."""
        self._undo.append(partial(setattr, part, field, getattr(part, field)))
        setattr(part, field, value)

    def put_item(self, table: dict[Any, Any], key: Any, value: Any) -> None:  # noqa: ANN401
        undo = (
            partial(table.__setitem__, key, table[key]) if key in table else partial(table.pop, key)
        )
        self._undo.append(undo)
        table[key] = value

    def enter(self, item: Job | Array, capped: int, before: JobSpec | None = None) -> None:
        """Stand in the lane of what it asks for now; ``before``: what it asked for so far."""
        lanes = self.cluster.lanes
        lane = lanes.where.get(item.id)
        place = lane.members[item.id] if lane is not None else None
        lanes.add(lanes.key_of(item.spec, capped), (-item.spec.priority, item.id))
        demand = self.cluster.census.demand
        asked = demand.put(item.id, item.spec, 1)

        def undo() -> None:
            demand.put(item.id, *(asked or (item.spec, 0)))
            lanes.remove(item.id)
            if lane is not None and place is not None and before is not None:
                # Its lane may have been closed when it left: then it is made again.
                lanes.add(lanes.key_of(before, lane.key.capped_array), place)

        self._undo.append(undo)

    def touch(self, node: str) -> None:
        """The node is not as it was: look again now, and once more when this is taken back."""
        self.cluster.agenda.touch(node)
        self._dirty[node] = None

    def take_back(self) -> None:
        """Everything is as it was before the first change."""
        self._back_to(self._base)
        self._dirty.clear()

    def _back_to(self, mark: int) -> None:
        while len(self._undo) > mark:
            self._undo.pop()()
        for name in self._dirty:
            self.cluster.agenda.touch(name)

    def make(self, *changes: Supposed) -> None:
        """Changes that stay until ``take_back``."""
        for change in changes:
            change.make(self)

    def run(self) -> PassResult:
        """A full pass over the Cluster as it is in this world."""
        scheduler = self.scheduler
        self.trials += 1
        scheduler.promises.forget()
        # Nothing that the trial before found out may shorten this one.
        self.cluster.rules_changed()
        plan = scheduler.run(self.now_s, STARTS_MAX)
        # Nothing of the plan happens: what it took is given back by looking at the nodes again.
        held = [allocation for start in plan.starts for allocation in start.allocations]
        for eviction in plan.evictions:
            live = self.cluster.jobs[eviction.job].live_attempts
            held += [attempt.allocation for attempt in live]
        for allocation in held:
            self.cluster.agenda.touch(allocation.node)
        return plan

    def start_of(self, job: int, *changes: Supposed) -> Start | None:
        """How the job (of an array: one of its elements) would start after these changes."""
        mark = len(self._undo)
        try:
            self.make(*changes)
            return start_in(self.run(), job)
        finally:
            self._back_to(mark)

    def takeover(self, job: int, before_s: float) -> ComingTakeover | None:
        """The first start of a job on the room of others, if only time passes until then.

        Some may be evicted only after they ran for a while, or by jobs that have grown older. Room
        that jobs ahead of it take over comes to it when these leave some or are done.
        """
        if not self.cluster.policy.preempt.enabled:
            return None
        now_s, own, mark = self.now_s, self._own, len(self._undo)
        try:
            return self._first_takeover(job, before_s)
        finally:
            self._back_to(mark)
            self.now_s, self._own = now_s, own

    def _first_takeover(self, job: int, before_s: float) -> ComingTakeover | None:
        plan, found = self.run(), None
        gone: list[Eviction] = []
        for _ in range(MOMENTS):
            if not self.now_s < plan.wake_s < before_s:
                break
            # A Scheduler never goes back in time: each moment has one of its own.
            self.now_s, self._own = plan.wake_s, None
            plan = self.run()
            start = start_in(plan, job)
            victims = tuple(one.job for one in plan.evictions if one.by == job)
            if start is not None and victims:
                return ComingTakeover(self.now_s, start.allocations, victims)
            if others := [one for one in plan.evictions if not one.tasks and not one.lends]:
                self.make(*[JobGone(one.job) for one in others])
                gone += others
                plan = self.run()
                later = self._behind(plan, job, gone)
                if later is not None and later.start_s < before_s:
                    found, before_s = later, later.start_s
        return found

    def _behind(self, plan: PassResult, job: int, gone: list[Eviction]) -> ComingTakeover | None:
        """The start of a job once others have the room of these."""
        start, jobs = start_in(plan, job), self.cluster.jobs
        at_s, held = self.now_s, start.allocations if start is not None else ()
        if start is None:
            promise = self.foretell().get(job)
            if promise is None:
                return None
            at_s, held = promise.start_s, promise.allocations
        grace_s = max(jobs[one.job].spec.grace_s for one in gone)
        victims = tuple(one.job for one in gone)
        return ComingTakeover(at_s + grace_s, held, victims, gone[0].by)

    def foretell(self, depth: int = DEPTH, *, firm: bool = False) -> dict[int, Promise]:
        """When the first waiting jobs start if everything goes to plan, none delaying another.

        ``firm``: each of them stays for as long as it may, whatever it is taken to run.
        """
        rules = self.cluster.policy
        backfill = replace(
            rules.backfill,
            kind=Backfill.CONSERVATIVE,
            depth=depth,
            look_ahead=0,
            limits_only=firm,
        )
        mark = len(self._undo)
        self.put(self.cluster, "policy", replace(rules, backfill=backfill))
        try:
            return {promise.job: promise for promise in self.run().promises}
        finally:
            self._back_to(mark)


def start_in(plan: PassResult, job: int) -> Start | None:
    """The start of a job, or of an element of the array with that id."""
    return next((start for start in plan.starts if job in (start.job, start.array)), None)
