"""A live site that is a pool: one node, jobs that ask for CPUs alone, an order that stands.

Where a site is one, the ``Scheduler`` lets the pool decide instead of the general pass. The pool
is told what changed since it last decided. What it believes to be free is compared with the node
each time, so that it can never give out what is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.job import ServiceClass
from rota.core.facts.placing import ANYWHERE
from rota.core.facts.policy import Backfill
from rota.core.facts.tenant import NO_QUOTA, Queue
from rota.scheduling.api import Entry, Plan, Start
from rota.scheduling.later.timeline import Leaving
from rota.scheduling.order.heads import run_s_of
from rota.scheduling.pool.easy import CountedPool
from rota.scheduling.pool.ranking import FIXED

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Lane, Lanes, Shape
    from rota.core.facts.policy import Policy
    from rota.scheduling.pool.api import PoolStart
    from rota.scheduling.scheduler import Scheduler


class PoolSite:
    """The pool of a Scheduler, as long as its site is one."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._cluster: Cluster = scheduler.cluster
        self._pool: CountedPool | None = None
        self._allowed = allows(scheduler.cluster.policy)
        self._version = -1
        self._unruled = False
        #: Lanes that a pool does not know how to deal with.
        self._odd: dict[int, None] = {}
        self._watched = False
        self._waiting: dict[int, Lane] = {}
        #: Attempts on the node by the number that the pool knows them by, and when they leave.
        self._numbers: dict[str, int] = {}
        self._ends: dict[int, float] = {}
        self._others = 0

    def run(self, now_s: float) -> Plan | None:
        """Who starts; None: the site is no pool now, and the general pass has its say."""
        if not self._is_one():
            self.forget()
            return None
        if self._pool is None:
            self._pool = self._new_pool()
        self._follow()
        name = next(iter(self._cluster.nodes))
        if self._pool.free != self._scheduler.space.rooms[name].cpu_milli:
            # Something holds room that the pool was not told of: begin anew, once.
            self.forget()
            self._pool = self._new_pool()
            self._follow()
            if self._pool.free != self._scheduler.space.rooms[name].cpu_milli:
                self.forget()
                return None
        return self._decide(name, now_s)

    @property
    def is_active(self) -> bool:
        return self._pool is not None

    @property
    def has_news(self) -> bool:
        """Somebody came or went: whoever was kept waiting by him may start."""
        return self._pool is not None and bool(self._cluster.lanes.log)

    def forget(self) -> None:
        if self._pool is None:
            return
        self._pool = self._cluster.lanes.log = None
        self._waiting.clear()
        self._numbers.clear()
        self._ends.clear()

    def _is_one(self) -> bool:
        cluster, scheduler = self._cluster, self._scheduler
        if scheduler.eager or not scheduler.pooled or not self._allowed or len(cluster.nodes) != 1:
            # Lanes are not watched meanwhile: on a large site that would cost every pass.
            self._watched = False
            return False
        self._watch(cluster.lanes)
        if self._odd or scheduler.overdue:
            return False
        if len(scheduler.space.rooms) != 1 or cluster.arrays:
            return False
        if cluster.census.elastic or cluster.live.loans or cluster.reservations:
            return False
        if self._version != cluster.agenda.rules_version:
            self._version = cluster.agenda.rules_version
            self._unruled = _is_unruled(cluster)
        return self._unruled

    def _watch(self, lanes: Lanes) -> None:
        """Note which lanes no pool can deal with, among those that are new to it."""
        news = lanes.fresh if self._watched else lanes.by_number
        self._watched = True
        for number, lane in news.items():
            if not self._is_plain(lane, lanes.shapes[lane.key.shape]):
                self._odd[number] = None
        if self._odd:
            self._odd = {number: None for number in self._odd if number in lanes.by_number}

    def _is_plain(self, lane: Lane, shape: Shape) -> bool:
        """Whether its jobs are one task each that asks for CPUs and nothing else.

        With backfill, a job that may stay longer than it is taken to needs a window, which the
        pool does not know.
        """
        key, roles = lane.key, shape.roles
        if key.group or key.type or key.capped_array or len(roles) != 1 or roles[0].count != 1:
            return False
        if shape.placement != ANYWHERE or shape.service is not ServiceClass.BURSTABLE:
            return False
        request = roles[0].request
        if request.memory_mib or request.disk_mib or request.device_count or not request.cpu_milli:
            return False
        if self._cluster.policy.backfill.kind is Backfill.NONE:
            return True
        return 0 < key.time_limit_s <= run_s_of(key, roles, self._cluster.policy.backfill)

    def _new_pool(self) -> CountedPool:
        cluster = self._cluster
        room = self._scheduler.space.rooms[next(iter(cluster.nodes))]
        (node,) = cluster.nodes.values()
        held = sum(allocation.cpu_milli for allocation in node.live.values())
        cluster.lanes.log = [*cluster.lanes.where]
        return CountedPool(room.cpu_milli + held, cluster.policy)

    def _follow(self) -> None:
        """Tell the pool who left, who came to hold room, and who waits or waits no longer."""
        pool, cluster = self._pool, self._cluster
        assert pool is not None
        ((name, node),) = cluster.nodes.items()
        for uid in [uid for uid in self._numbers if uid not in node.live]:
            number = self._numbers.pop(uid)
            del self._ends[number]
            pool.leave(number)
        timeline = self._scheduler.timeline
        for uid, allocation in node.live.items():
            end_s = timeline.end_s(name, uid)
            number = self._numbers.get(uid, 0)
            if not number:
                number = self._numbers[uid] = self._known_as(uid)
                pool.hold(number, allocation.cpu_milli, end_s)
            elif self._ends[number] != end_s:
                pool.expect(number, end_s)
            self._ends[number] = end_s
        log, cluster.lanes.log = cluster.lanes.log or [], []
        for job in dict.fromkeys(log):
            self._note(job, cluster.lanes.where.get(job))

    def _known_as(self, uid: str) -> int:
        """The pool knows an attempt by its job where this has only one, else by a number."""
        job, _ = self._cluster.live.where[uid]
        if len(self._cluster.jobs[job].tasks) == 1:
            return job
        self._others -= 1
        return self._others

    def _note(self, job: int, lane: Lane | None) -> None:
        pool, before = self._pool, self._waiting.get(job)
        assert pool is not None
        if lane is before:
            return
        if before is not None:
            del self._waiting[job]
            pool.withdraw(job)
        if lane is not None:
            record, key = self._cluster.jobs[job], lane.key
            shape = self._cluster.lanes.shapes[key.shape]
            run_s = run_s_of(key, shape.roles, self._cluster.policy.backfill)
            entry = Entry(job, key, shape, record.submitted_s, record.eligible_s, run_s)
            pool.arrive(job, shape.roles[0].request.cpu_milli, run_s, entry)
            self._waiting[job] = lane

    def _decide(self, name: str, now_s: float) -> Plan:
        pool, scheduler = self._pool, self._scheduler
        assert pool is not None
        plan = Plan(starts=[], evictions=[], promises=[], dropped=[])
        # Who has a promise is worked out when somebody asks.
        scheduler.timeline.unclaim()
        scheduler.promises.forget()
        for start in pool.decide(now_s).starts:
            plan.starts.append(self._start(name, start, now_s))
        scheduler.promises.owed = pool.first or 0
        if pool.first is not None and now_s < pool.shadow_s < float("inf"):
            plan.wake_s = scheduler.due_s = pool.shadow_s
        self._cluster.lanes.fresh.clear()
        scheduler.changed = {}
        if plan.starts:
            self._cluster.agenda.touch(name)
        return plan

    def _start(self, name: str, start: PoolStart, now_s: float) -> Start:
        scheduler, key = self._scheduler, self._waiting.pop(start.job).key
        (role,) = self._cluster.lanes.shapes[key.shape].roles
        allocation = scheduler.space.rooms[name].choose(role.request)
        scheduler.space.take(name, allocation)
        run_s = run_s_of(key, (role,), self._cluster.policy.backfill)
        scheduler.timeline.add(Leaving(now_s + run_s, f"{start.job}/0", name, allocation))
        return Start(start.job, (allocation,))


def allows(policy: Policy) -> bool:
    """Whether a pool can obey these rules."""
    order, backfill, share = policy.order, policy.backfill, policy.share
    if not {order.primary, order.secondary} <= FIXED or share.soft_ratio or share.hard_ratio:
        return False
    if backfill.kind not in (Backfill.NONE, Backfill.EASY) or backfill.depth > 1:
        return False
    if backfill.look_ahead or backfill.horizon_s or policy.preempt.enabled:
        return False
    return policy.gang.partial == 1.0 and not (policy.filters or policy.scorers or policy.victims)


def _is_unruled(cluster: Cluster) -> bool:
    """Nothing but room keeps a job waiting: no quotas, no groups, queues that are all alike."""
    if cluster.groups or any(queue != Queue(name) for name, queue in cluster.queues.items()):
        return False
    projects, users = cluster.accounts.projects.values(), cluster.accounts.users.values()
    return all(project.quota == NO_QUOTA for project in projects) and all(
        user.quota == NO_QUOTA for user in users
    )
