"""A stage: the scheduling core on a clock of its own, without a store or agents.

    stage = Stage(nodes=[node("a", cpus=4)])
    first = stage.submit(spec(cpus=4, time_limit_s=60), runs_s=45)
    stage.play()
    assert stage.started_s[first] == stage.begin_s

Jobs start when a pass says so and end after ``runs_s`` (or at their limit); victims leave when
their grace is over. The invariants are checked after every step. For tests of policies and
plug-ins, where thousands of jobs should live and die in a second.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from rota.controller.tick.lifecycle import wake_lenders
from rota.controller.tick.plan_events import Passes
from rota.controller.tick.scribe import Scribe
from rota.core.changes import events as ev
from rota.core.changes.apply import apply
from rota.core.changes.invariants import check
from rota.core.cluster import Cluster
from rota.core.facts.job import JobSpec, Outcome, Role
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.resources import Request
from rota.core.facts.states import Cause, JobState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.facts.job import Attempt, Job
    from rota.core.facts.node import Node
    from rota.core.facts.policy import Policy
    from rota.core.facts.tenant import Reservation
    from rota.scheduling.api import PassResult
    from rota.scheduling.scheduler import Scheduler

#: (when, in order of making, what, job): what will happen by itself.
Due = tuple[float, int, str, int]


class Stage:
    """A Cluster, the passes of a controller over it, and the time."""

    def __init__(
        self,
        nodes: Iterable[NodeSpec] = (),
        policy: Policy | None = None,
        *,
        begin_s: float = 1_000_000.0,
        checked: bool = True,
        starts_per_pass: int = 256,
    ) -> None:
        """``starts_per_pass``: how many starts one pass may decide, as a host bounds them."""
        self.starts_per_pass = starts_per_pass
        self.cluster = Cluster("stage")
        self.begin_s = self.now_s = begin_s
        self.checked = checked
        #: When each job was first and last placed, and when it was over.
        self.started_s: dict[int, float] = {}
        self.placed_s: dict[int, float] = {}
        self.ended_s: dict[int, float] = {}
        #: When each job was first told that it would start.
        self.promised_s: dict[int, float] = {}
        self.plans: list[tuple[float, PassResult]] = []
        self._runs_s: dict[int, float] = {}
        self._due: list[Due] = []
        self._to_come: list[tuple[JobSpec, float]] = []
        self._made = 0
        self._wake_s = 0.0
        #: Attempts that were placed and have not started, in order.
        self._unstarted: dict[str, None] = {}
        if policy is not None:
            self.tell(ev.PolicySet(policy=policy))
        for spec in nodes:
            self.tell(ev.NodeRegistered(spec=spec, incarnation="i", boot_id="b"))
        self._passes = Passes(self.cluster)

    def tell(self, event: ev.AnyEvent) -> None:
        apply(self.cluster, event, self.now_s)

    def submit(self, spec: JobSpec, runs_s: float = 0.0) -> int:
        """A job that is ready; it will run for so long, or as long as it may."""
        job = self.cluster.ids.next
        self._runs_s[job] = runs_s
        self.tell(ev.JobSubmitted(job=job, uid=f"u{job}", spec=spec, eligible=True))
        return job

    def submit_later(self, at_s: float, spec: JobSpec, runs_s: float = 0.0) -> None:
        """The same, ``at_s`` seconds after the beginning."""
        self._to_come.append((spec, runs_s))
        self._push(self.begin_s + at_s, "submit", len(self._to_come) - 1)

    def look_later(self, at_s: float) -> None:
        """A pass is made ``at_s`` seconds after the beginning, whether or not one is called for."""
        self._push(self.begin_s + at_s, "pass", 0)

    def reserve(self, reservation: Reservation) -> None:
        self.tell(ev.ReservationSet(reservation=reservation))
        for at_s in (reservation.start_s, reservation.end_s):
            self._push(at_s, "look", 0)

    @property
    def scheduler(self) -> Scheduler:
        return self._passes.scheduler

    @scheduler.setter
    def scheduler(self, scheduler: Scheduler) -> None:
        self._passes.scheduler = scheduler

    def run(self, limit: int = 0) -> PassResult:
        """One pass (or several, while a pass says that there is more), and what follows from it."""
        limit = limit or self.starts_per_pass
        while True:
            scribe = Scribe(self.cluster, self.now_s, 1)
            while self.cluster.agenda.pop_due(self.now_s) is not None:
                pass  # The stage knows by itself when something happens.
            wake_lenders(scribe)
            plan = self._passes.run(scribe, limit)
            self.plans.append((self.now_s, plan))
            for record in scribe.recorded:
                self._follow(record.event)
            for promise in plan.promises:
                self.promised_s.setdefault(promise.job, promise.start_s)
            self._start_placed()
            if self.checked:
                check(self.cluster)
            if self._passes.wake_s != self._wake_s:
                self._wake_s = self._passes.wake_s
                self._push(self._wake_s, "pass", 0)
            if not plan.more:
                return plan

    def _follow(self, event: ev.AnyEvent) -> None:
        """What will happen because of an event that a pass brought about."""
        if isinstance(event, ev.ElementExpanded):
            job = self.cluster.arrays[event.array].element_id(event.position)
            self._runs_s.setdefault(job, self._runs_s.get(event.array, 0.0))
        elif isinstance(event, ev.AttemptPlaced):
            self.started_s.setdefault(event.job, self.now_s)
            self.placed_s[event.job] = self.now_s
            self._unstarted[event.uid] = None
        elif isinstance(event, ev.AttemptStopAsked):
            grace_s = self.cluster.jobs[event.job].spec.grace_s
            self._push(self.now_s + grace_s, "leave", event.job)
        elif isinstance(event, ev.JobResumed):
            self._push(self._ends_at(self.cluster.jobs[event.job]), "end", event.job)

    def step(self) -> bool:
        """On to the next moment at which something happens by itself; False: nothing will."""
        if not self._due:
            return False
        self.now_s = max(self.now_s, self._due[0][0])
        while self._due and self._due[0][0] <= self.now_s:
            self._happen(heappop(self._due))
        if self.checked:
            check(self.cluster)
        self.run()
        return True

    def play(self, steps: int = 10_000) -> None:
        """A pass, and then step by step until nothing happens any more."""
        self.run()
        for _ in range(steps):
            if not self.step():
                return
        raise AssertionError(f"no end after {steps} steps; {self.waiting} wait")

    @property
    def waiting(self) -> list[int]:
        """Jobs that have not started."""
        return sorted(self.cluster.lanes.where)

    @property
    def running(self) -> list[int]:
        return sorted({job for job, _ in self.cluster.live.where.values()})

    def nodes_of(self, job: int) -> list[str]:
        """Where the tasks of a live job are, task by task."""
        return [a.allocation.node for a in self.cluster.jobs[job].live_attempts]

    def end(self, job: int) -> None:
        """A running job ends now, well."""
        record = self.cluster.jobs[job]
        for task in record.tasks:
            attempt = task.current
            if attempt is not None and attempt.live:
                self._ended(record, task.index, Cause.EXIT)
        self.ended_s[job] = self.now_s
        done = Outcome(JobState.COMPLETED, Cause.EXIT, exit_code=0)
        self.tell(ev.JobSettled(job=job, outcome=done))
        self._start_placed()

    def _push(self, at_s: float, what: str, job: int) -> None:
        self._made += 1
        heappush(self._due, (at_s, self._made, what, job))

    def _happen(self, due: Due) -> None:
        at_s, _, what, job = due
        record = self.cluster.jobs.get(job)
        if what == "submit":
            self.submit(*self._to_come[job])
        elif what == "look":
            for name in self.cluster.nodes:
                self.cluster.agenda.touch(name)
            self.cluster.rules_changed()
        elif what == "end" and record is not None and self._ends_at(record) == at_s:
            self.end(job)
        elif what == "leave" and record is not None:
            self._leave(record)

    def _ends_at(self, job: Job) -> float:
        """0 while it is not running, or on its way out."""
        live = job.live_attempts
        # A gang that only shrinks ends at its time.
        if not job.started_s or all(a.stop_cause for a in live) or job.suspended_s:
            return 0.0
        return job.started_s + self._length_s(job) + job.paused_s

    def _length_s(self, job: Job) -> float:
        runs_s, limit_s = self._runs_s[job.id], job.spec.time_limit_s
        if runs_s and limit_s:
            return min(runs_s, limit_s)
        return runs_s or limit_s or 3600.0

    def _start_placed(self) -> None:
        """Whatever was placed and waits for nobody starts."""
        nodes = self.cluster.nodes
        for uid in list(self._unstarted):
            if uid not in self.cluster.live.where:
                del self._unstarted[uid]
                continue
            job_id, task = self.cluster.live.where[uid]
            job = self.cluster.jobs[job_id]
            attempt = job.tasks[task].attempts[-1]
            node = nodes[attempt.allocation.node]
            if uid in node.withheld or (attempt.allocation.early and not _has_room(node, attempt)):
                continue
            del self._unstarted[uid]
            first = not job.started_s
            self.tell(
                ev.AttemptStarted(job=job_id, task=task, uid=uid, pid=1, started_s=self.now_s)
            )
            if first:
                self._push(self.now_s + self._length_s(job), "end", job_id)

    def _leave(self, job: Job) -> None:
        """What was asked to go has gone."""
        for task in job.tasks:
            attempt = task.current
            if attempt is not None and attempt.live and attempt.stop_cause is not None:
                self._ended(job, task.index, attempt.stop_cause)
        if job.live_attempts:
            return
        if job.after_stop == "evict":
            self.ended_s[job.id] = self.now_s
            gone = Outcome(JobState.CANCELLED, Cause.PREEMPTED)
            self.tell(ev.JobSettled(job=job.id, outcome=gone))
        else:
            self.tell(ev.JobPreempted(job=job.id))
        self._start_placed()

    def _ended(self, job: Job, task: int, cause: Cause) -> None:
        attempt = job.tasks[task].attempts[-1]
        code = 0 if cause is Cause.EXIT else None
        self.tell(
            ev.AttemptEnded(
                job=job.id,
                task=task,
                uid=attempt.uid,
                ended_s=self.now_s,
                cause=cause,
                exit_code=code,
            )
        )


def node(
    name: str,
    *,
    cpus: int = 4,
    mem: int = 16384,
    disk: int = 10240,
    gpus: int = 0,
    model: str = "A100",
    gpu_mem: int = 40960,
    **labels: str,
) -> NodeSpec:
    """A machine in a few words; further words are its labels."""
    devices = tuple(
        Device(index=i, uuid=f"{name}-{i}", model=model, memory_mib=gpu_mem, numa=i * 2 // gpus)
        for i in range(gpus)
    )
    pins = tuple(range(cpus))
    return NodeSpec(name, cpus * 1000, mem, disk, cpus=pins, devices=devices, labels=labels)


def role(
    *,
    tasks: int = 1,
    at_least: int = 0,
    cpus: float = 1,
    mem: int = 0,
    disk: int = 0,
    gpus: int = 0,
    gpu_type: str = "",
    gpu_mem: int = 0,
    gpu_part: float = 0.0,
    name: str = "main",
) -> Role:
    """Tasks in a few words. ``gpu_mem`` and ``gpu_part`` share devices."""
    request = Request(
        cpu_milli=int(cpus * 1000),
        memory_mib=mem,
        disk_mib=disk,
        device="gpu" if gpus else "",
        device_count=gpus,
        device_type=gpu_type,
        device_memory_mib=gpu_mem,
        shared=bool(gpus and (gpu_mem or gpu_part)),
        device_milli=int(gpu_part * 1000),
    )
    return Role(name=name, count=tasks, min_count=at_least, request=request)


def _has_room(node: Node, attempt: Attempt) -> bool:
    """Whether an engine begins what it was handed before there was room."""
    room, wants = node.headroom(), attempt.allocation
    short = (
        *(wants.cpu_milli > room.cpu_milli, wants.memory_mib > room.memory_mib),
        wants.disk_mib > room.disk_mib,
    )
    return not any(short)


def spec(*roles: Role, **fields: object) -> JobSpec:
    """A job: of these roles, or of one role by the words of ``role``; the rest are its fields."""
    words = {name: fields.pop(name) for name in _ROLE_WORDS if name in fields}
    known: dict[str, object] = {"name": "job", "user": "alice", "command": ("true",)}
    known["roles"] = roles or (role(**words),)  # type: ignore[arg-type]
    return JobSpec(**(known | fields))  # type: ignore[arg-type]


_ROLE_WORDS = (
    "tasks",
    "at_least",
    "cpus",
    "mem",
    "disk",
    "gpus",
    "gpu_type",
    "gpu_mem",
    "gpu_part",
)
