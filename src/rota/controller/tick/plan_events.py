"""From a plan to events: what a pass decided, told in the order in which it is recorded.

The live controller and the replay of its log share this code, so that the same plan leads to
the same records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller.launches.world import choose_port, ports_on
from rota.controller.tick import lifecycle
from rota.core.changes import events as ev
from rota.core.facts.errors import Blaming
from rota.core.facts.states import Cause
from rota.scheduling.guarded import Guard, no_guard
from rota.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.controller.tick.scribe import Scribe
    from rota.core.cluster import Cluster
    from rota.core.facts.job import Job
    from rota.core.facts.policy import Policy
    from rota.scheduling.api import PassResult, Start
    from rota.scheduling.registry import Catalog

#: Starts decided in one tick: a cold start of a deep queue is spread over several ticks.
STARTS_PER_TICK = 256
#: On whose behalf the events of a pass are recorded: the log says where the pass of a tick begins.
#: No user has such a name.
SCHEDULER = "rota:pass"
#: Passes without a decision that are remembered before they are worth a record of their own.
QUIET_MAX = 1000


class Passes:
    """The passes over one Cluster, one per tick."""

    def __init__(
        self,
        cluster: Cluster,
        load: Callable[[Policy], Catalog] | None = None,
        clock: Callable[[], float] | None = None,
        guard: Guard = no_guard,
        *,
        anew: bool = False,
    ) -> None:
        """``anew``: the log that this goes on with was written by an earlier controller."""
        self.scheduler = Scheduler(cluster, load, clock, guard)
        self._clock = clock or (lambda: 0.0)
        #: How long the last pass took, and how many jobs it let past others.
        self.took_s, self.ahead = 0.0, 0
        #: When the pass wants to be woken; a timer for it is set.
        self.wake_s = 0.0
        #: Plug-ins that failed, as last reported: the same news is told once.
        self._dropped: dict[tuple[str, str], str] = {}
        self._anew = anew
        #: Passes since the last record that looked at something and decided nothing.
        self._quiet_s: list[float] = []
        #: Passes since the last record that looked at everything because somebody asked.
        self._reopened_s: list[float] = []

    def run(self, scribe: Scribe, limit: int = STARTS_PER_TICK) -> PassResult:
        """Decide, and tell the scribe; the plan says whether there is more to do right away."""
        scribe.actor = SCHEDULER
        looks, began_s = self.scheduler.looks, self._clock()
        plan = self.scheduler.run(scribe.now_s, limit)
        self.took_s = self._clock() - began_s
        self.ahead = sum(start.ahead for start in plan.starts)
        for back in plan.returns:
            job = scribe.cluster.jobs[back.job]
            lifecycle.put_back(scribe, job, Cause.PREEMPTED, back.detail)
        for eviction in plan.evictions:
            lifecycle.evict(scribe, eviction)
        for start in plan.starts:
            with Blaming(start.job, "it could not be placed"):
                place(scribe, start)
        for point, name, problem in plan.dropped:
            if self._dropped.get((point, name)) != problem:
                self._dropped[point, name] = problem
                scribe.emit(ev.RuleDropped(point=point, name=name, problem=problem))
        if plan.wake_s and not scribe.now_s < self.wake_s <= plan.wake_s:
            self.wake_s = plan.wake_s
            scribe.cluster.agenda.push(plan.wake_s, "pass", 0)
        self._note(scribe, looked=self.scheduler.looks != looks)
        return plan

    def _note(self, scribe: Scribe, *, looked: bool) -> None:
        """What the log would not tell: a replay must make the passes that left no trace in it.

        They go into the next commit that happens anyway, because a pass costs nothing on disk.
        """
        if scribe.reopened and looked:
            self._reopened_s.append(scribe.now_s)
        if not scribe.recorded and looked:
            self._quiet_s.append(scribe.now_s)
        if not scribe.recorded and len(self._quiet_s) < QUIET_MAX:
            return
        if self._anew or self._quiet_s or self._reopened_s:
            quiet_s, reopened_s = tuple(self._quiet_s), tuple(self._reopened_s)
            scribe.emit(ev.PassesMade(quiet_s=quiet_s, reopened_s=reopened_s, anew=self._anew))
            self._anew = False
            self._quiet_s.clear()
            self._reopened_s.clear()


def place(scribe: Scribe, start: Start) -> None:
    """Give room to the tasks of a job; an untouched element of an array becomes a job first."""
    cluster = scribe.cluster
    if start.array:
        array = cluster.arrays[start.array]
        position = array.position(start.job)
        scribe.emit(ev.ElementExpanded(array=array.id, position=position))
    job = cluster.jobs[start.job]
    tasks = start.tasks or range(len(start.allocations))
    for at, (task, allocation) in enumerate(zip(tasks, start.allocations, strict=True)):
        node = cluster.nodes[allocation.node]
        scribe.emit(
            ev.AttemptPlaced(
                job=job.id,
                task=task,
                uid=job.attempt_uid(task),
                allocation=allocation,
                incarnation=f"{node.incarnation}/{node.boot_id}",
                after=start.after,
                window_s=start.window_s,
                borrows=start.loans_of(at),
                port=_port(cluster, job, task, allocation.node),
            )
        )
    if job.spec.promised:
        _take_room(scribe, job)


def _take_room(scribe: Scribe, job: Job) -> None:
    """A job with a promise has its room now: nothing is kept for it any more."""
    for one in [one for one in scribe.cluster.reservations.values() if one.job == job.id]:
        if one.room:
            scribe.emit(ev.ReservationRemoved(reservation=one.id))


def _port(cluster: Cluster, job: Job, task: int, node: str) -> int:
    """Where its gang meets: held by the first task, or by all that may come to be the first.

    The wish follows from the job, so that it meets at the same port when it is tried again. One
    that could not be had there because of a program outside Rota is not wished for again.
    """
    if job.spec.task_count == 1 or (task and not cluster.may_grow(job.spec)):
        return 0
    earlier = job.tasks[task].attempts if task < len(job.tasks) else ()
    refused = sum(attempt.cause is Cause.START_FAILED for attempt in earlier)
    return choose_port(cluster.policy, job.id + task + refused, ports_on(cluster, node))
