"""A cluster whose books are written by events alone, for tests of order, shares and quotas."""

import msgspec

from rota.core.changes import events as ev
from rota.core.changes.apply import apply
from rota.core.changes.invariants import check
from rota.core.cluster import Cluster
from rota.core.facts.job import JobSpec, Outcome, Role
from rota.core.facts.node import Allocation, Device, NodeSpec
from rota.core.facts.policy import Policy
from rota.core.facts.resources import Amount, Request
from rota.core.facts.states import Cause, JobState
from rota.core.facts.tenant import Project, Quota, User
from rota.scheduling.api import Entry, View
from rota.scheduling.order.fairshare import FairShare
from rota.scheduling.order.share_use import capacity

HOUR_S = 3600.0
DAY_S = 86400.0
#: A morning in 2026, and far from zero.
NOW_S = 1_770_000_000.0


class Books:
    """One node with CPUs, memory and GPUs; jobs wait, run and end as they are told."""

    def __init__(self, *, cpus: int = 100, memory_mib: int = 102400, gpus: int = 10) -> None:
        self.cluster = Cluster()
        self.now_s = NOW_S
        self.spec = NodeSpec(
            "box",
            cpus * 1000,
            memory_mib,
            devices=tuple(Device(index=i, uuid=f"g{i}") for i in range(gpus)),
        )
        self.tell(ev.NodeRegistered(spec=self.spec, incarnation="i", boot_id="b"))

    def tell(self, event: ev.AnyEvent, at_s: float | None = None) -> None:
        apply(self.cluster, event, self.now_s if at_s is None else at_s)

    def project(self, name: str, parent: str = "", shares: int = 1, **quota: object) -> None:
        self.tell(ev.ProjectSet(project=Project(name, parent, shares, Quota(**quota))))

    def user(self, name: str, shares: int = 1, **quota: object) -> None:
        self.tell(ev.UserSet(user=User(name, shares, Quota(**quota))))

    def rules(self, **parts: object) -> None:
        """``share={"half_life_s": 60}``: single settings of the parts of the policy."""
        policy = self.cluster.policy
        changed = {
            name: msgspec.structs.replace(getattr(policy, name), **values)
            for name, values in parts.items()
        }
        self.tell(ev.PolicySet(policy=msgspec.structs.replace(policy, **changed)))

    def wait(self, user: str = "alice", project: str = "", **wishes: object) -> int:
        """A job that is ready and waits."""
        job = self.cluster.ids.next
        spec = make_spec(user=user, project=project, **wishes)
        self.tell(ev.JobSubmitted(job=job, uid=f"u{job}", spec=spec, eligible=True))
        return job

    def start(self, job: int, at_s: float | None = None) -> None:
        at_s = self.now_s if at_s is None else at_s
        record = self.cluster.jobs[job]
        roles = [role for role in record.spec.roles for _ in range(role.count)]
        for task, role in enumerate(roles):
            uid, request = record.attempt_uid(task), role.request
            node = self.cluster.nodes["box"]
            held = {index for other in node.live.values() for index in other.devices}
            free = [device.index for device in self.spec.devices if device.index not in held]
            devices = tuple(free[: request.device_count])
            room = Allocation("box", request.cpu_milli, request.memory_mib, devices=devices)
            self.tell(
                ev.AttemptPlaced(job=job, task=task, uid=uid, allocation=room, incarnation="i")
            )
            self.tell(ev.AttemptStarted(job=job, task=task, uid=uid, pid=1, started_s=at_s))

    def run(self, user: str = "alice", project: str = "", *, at_s: float = 0.0, **wishes) -> int:
        """A job that runs, since now or since ``at_s``."""
        job = self.wait(user, project, **wishes)
        self.start(job, at_s or self.now_s)
        return job

    def end(self, job: int, at_s: float | None = None) -> None:
        at_s = self.now_s if at_s is None else at_s
        for task in self.cluster.jobs[job].tasks:
            uid = task.attempts[-1].uid
            self.tell(
                ev.AttemptEnded(
                    job=job, task=task.index, uid=uid, ended_s=at_s, cause=Cause.EXIT, exit_code=0
                )
            )
        done = Outcome(JobState.COMPLETED, Cause.EXIT, exit_code=0)
        self.tell(ev.JobSettled(job=job, outcome=done))

    def ran(self, user: str, project: str = "", *, hours: float, ago_h: float = 0.0, **wishes):
        """A job that ran for some hours and ended some hours ago."""
        end_s = self.now_s - ago_h * HOUR_S
        self.end(self.run(user, project, at_s=end_s - hours * HOUR_S, **wishes), end_s)

    def shares(self) -> FairShare:
        check(self.cluster)
        return FairShare(self.cluster, self.now_s)

    def view(self) -> View:
        return View(self.now_s, self.cluster.policy, self.shares(), capacity(self.cluster))

    def entry(self, job: int) -> Entry:
        record = self.cluster.jobs[job]
        key = self.cluster.lanes.where[job].key
        shape = self.cluster.lanes.shapes[key.shape]
        run_s = float(key.estimate_s or key.time_limit_s or 3600)
        return Entry(job, key, shape, record.submitted_s, record.eligible_s, run_s)


def make_spec(*, cpus: float = 1, gpus: int = 0, mem: int = 0, tasks: int = 1, **fields) -> JobSpec:
    request = Request(
        cpu_milli=int(cpus * 1000),
        memory_mib=mem,
        device="gpu" if gpus else "",
        device_count=gpus,
    )
    roles = (Role(count=tasks, request=request),)
    return JobSpec(**({"name": "job", "command": ("true",), "roles": roles} | fields))


def amount(cpus: float = 1, gpus: float = 0, mem: int = 0) -> Amount:
    return Amount(int(cpus * 1000), mem, 0, int(gpus * 1000))


def policy_with(**parts: object) -> Policy:
    books = Books(gpus=0)
    books.rules(**parts)
    return books.cluster.policy
