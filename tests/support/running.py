"""Clusters with running jobs, made of events alone: no controller, no agents."""

from collections.abc import Sequence
from typing import Any

from rota.core.changes import events as ev
from rota.core.changes.apply import apply
from rota.core.changes.invariants import check
from rota.core.cluster import Cluster
from rota.core.derived.lanes import Shape, shape_of
from rota.core.facts.job import Job, JobSpec, Role
from rota.core.facts.node import Allocation, Device, NodeSpec
from rota.core.facts.policy import Policy, PreemptRules
from rota.core.facts.resources import Request
from rota.core.facts.states import Cause
from rota.scheduling.api import Entry
from rota.scheduling.evict.search import Preemption, Takeover
from rota.scheduling.limits.quota import GivenBack
from rota.scheduling.place.node_room import Room

START_S = 1000.0
#: Long enough after the start of everything for nobody to be protected by his youth.
NOW_S = 2000.0


class Lent:
    """Users who may be made to give back so many jobs each, whatever their priority."""

    turns = moves = 0

    def __init__(self, **jobs: int) -> None:
        self._jobs = jobs

    def reclaimable(self, part: GivenBack) -> bool:
        return self.all_reclaimable([part], [])

    def all_reclaimable(self, parts: Sequence[GivenBack], gone: Sequence[GivenBack]) -> bool:
        left = dict(self._jobs)
        for part in (*gone, *parts):
            left[part.job.spec.user] = left.get(part.job.spec.user, 0) - 1
        return all(left[part.job.spec.user] >= 0 for part in parts)


class Site:
    """A cluster, and the jobs on it by name."""

    def __init__(self, **rules: Any) -> None:
        self.cluster = Cluster("test")
        self.names: dict[str, int] = {}
        rules = {"enabled": True, "gap": 10, "min_runtime_s": 0} | rules
        self.set_policy(Policy(preempt=PreemptRules(**rules)))

    def apply(self, event: ev.AnyEvent, at_s: float = START_S) -> None:
        apply(self.cluster, event, at_s)

    def set_policy(self, policy: Policy) -> None:
        self.apply(ev.PolicySet(policy=policy))

    def add_node(
        self, name: str = "box", *, cpus: int = 8, gpus: int = 0, mem: int = 65536, disk: int = 0
    ) -> None:
        devices = tuple(
            Device(index=i, uuid=f"{name}-{i}", model="A100", memory_mib=40960) for i in range(gpus)
        )
        spec = NodeSpec(name, cpus * 1000, mem, disk, cpus=tuple(range(cpus)), devices=devices)
        self.apply(ev.NodeRegistered(spec=spec, incarnation="i", boot_id="b"))

    def add_parted_node(self, name: str, *, cpus: int = 8) -> None:
        """A node with two devices, of which the first may be had whole or as two halves."""
        whole = [Device(i, f"{name}-{i}", "gpu", "A100", 40960) for i in (0, 3)]
        parts = [Device(i, f"{name}-{i}", "gpu", "A100", 20480, parent=0) for i in (1, 2)]
        spec = NodeSpec(name, cpus * 1000, 65536, devices=(*whole, *parts))
        self.apply(ev.NodeRegistered(spec=spec, incarnation="i", boot_id="b"))

    def spec(self, name: str, **wishes: Any) -> JobSpec:
        wishes.pop("start_s", None)
        gpus = wishes.pop("gpus", 0)
        request = Request(
            cpu_milli=int(wishes.pop("cpus", 1) * 1000),
            memory_mib=wishes.pop("mem", 0),
            disk_mib=wishes.pop("disk", 0),
            device="gpu" if gpus else "",
            device_count=gpus,
            device_memory_mib=wishes.pop("gpu_mem", 0),
            shared=wishes.pop("shared", False),
        )
        role = Role(
            count=wishes.pop("tasks", 1), min_count=wishes.pop("min_tasks", 0), request=request
        )
        fields = {"user": "ann", "roles": (role,)} | wishes
        return JobSpec(name=name, command=("true",), **fields)

    def submit(self, name: str, **wishes: Any) -> Job:
        number = self.cluster.ids.next
        self.names[name] = number
        spec = self.spec(name, **wishes)
        self.apply(ev.JobSubmitted(job=number, uid=f"u{number}", spec=spec, eligible=True))
        return self.cluster.jobs[number]

    def run(
        self,
        name: str,
        *,
        on: str | tuple[str, ...] = "box",
        start_s: float = START_S,
        **wishes: Any,
    ) -> Job:
        """A job whose tasks have been running on these nodes since ``start_s``."""
        wishes = {"preemptible": True} | wishes
        nodes = (on,) if isinstance(on, str) else on
        job = self.submit(name, **({"tasks": len(nodes)} | wishes))
        for task, node in enumerate(nodes):
            room = Room.now(self.cluster.nodes[node])
            request = job.spec.request
            assert not room.shortage(request), f"no room for {name} on {node}"
            self.place(job, task, room.choose(request))
            uid = job.tasks[task].attempts[-1].uid
            self.apply(
                ev.AttemptStarted(job=job.id, task=task, uid=uid, pid=1, started_s=start_s), start_s
            )
        return job

    def has_room(self, *, on: tuple[str, ...], **wishes: Any) -> bool:
        """Whether ``run`` could be asked for this now."""
        rooms = self.rooms()
        request = self.spec("probe", **wishes).request
        for name in on:
            if rooms[name].shortage(request):
                return False
            rooms[name].take(rooms[name].choose(request))
        return True

    def place(
        self, job: Job, task: int, allocation: Allocation, after: tuple[str, ...] = ()
    ) -> None:
        uid = job.attempt_uid(task)
        self.apply(
            ev.AttemptPlaced(
                job=job.id,
                task=task,
                uid=uid,
                allocation=allocation,
                incarnation="i/b",
                after=after,
            )
        )

    def stop(self, name: str, cause: Cause = Cause.CANCELLED) -> None:
        job = self.job(name)
        for task in job.tasks:
            uid = task.attempts[-1].uid
            self.apply(ev.AttemptStopAsked(job=job.id, task=task.index, uid=uid, cause=cause))

    def end_task(self, job: Job, task: int) -> None:
        """The attempt at a task is over; what becomes of its job is left open."""
        uid = job.tasks[task].attempts[-1].uid
        self.apply(
            ev.AttemptEnded(job=job.id, task=task, uid=uid, ended_s=NOW_S, cause=Cause.PREEMPTED),
            NOW_S,
        )

    def end_job(self, job: Job) -> None:
        """It has left, and waits again."""
        for task in job.tasks:
            if task.attempts and task.attempts[-1].live:
                self.end_task(job, task.index)
        self.apply(ev.JobPreempted(job=job.id), NOW_S)

    def withheld(self) -> list[str]:
        return [uid for node in self.cluster.nodes.values() for uid in node.withheld]

    def job(self, name: str) -> Job:
        return self.cluster.jobs[self.names[name]]

    def rooms(self) -> dict[str, Room]:
        check(self.cluster)
        nodes = sorted(self.cluster.nodes.values(), key=lambda node: node.name)
        return {node.name: Room.now(node) for node in nodes}

    def preemption(self, now_s: float = NOW_S, **more: Any) -> Preemption:
        """A search in which the priority of a job is simply that of its spec."""
        return Preemption(
            self.cluster, self.rooms(), now_s, lambda job: float(job.spec.priority), **more
        )

    def find(
        self, name: str, names: Sequence[str], preemption: Preemption | None = None, **more: Any
    ) -> Takeover | None:
        """The victims for a waiting job; ``lent`` says what it may reclaim."""
        search, entry = preemption or self.preemption(), self.entry(name)
        priority = more.pop("priority", None) or self.job(name).spec.priority
        return search.find(entry, search.claimant(entry, float(priority), **more), names)

    def entry(self, name: str) -> Entry:
        """A waiting job as a pass sees it."""
        job = self.job(name)
        shape: Shape = shape_of(job.spec)
        key = self.cluster.lanes.key_of(job.spec, 0)
        return Entry(job.id, key, shape, job.submitted_s, job.eligible_s, 3600.0)
