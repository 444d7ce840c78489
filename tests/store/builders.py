"""Jobs, events and batches for the tests of stores."""

from itertools import count

from rota.core.changes.events import (
    AnyEvent,
    ArraySubmitted,
    ElementExpanded,
    JobEligible,
    JobSubmitted,
    NodeSilent,
    Recorded,
)
from rota.core.facts.array import Array
from rota.core.facts.indices import IndexRun
from rota.core.facts.job import Attempt, Job, JobSpec, Outcome, Role, Task
from rota.core.facts.node import Allocation, Node, NodeSpec
from rota.core.facts.resources import Request
from rota.core.facts.states import FINAL, Cause, JobState, Phase
from rota.store.api import Batch

DAY_S = 86400.0
#: When the stories of these tests begin.
START_S = 1_800_000_000.0


def spec(**changes: object) -> JobSpec:
    fields: dict[str, object] = {
        "name": "train",
        "user": "ann",
        "command": ("python", "train.py"),
        "workdir": "/home/ann",
    }
    return JobSpec(**(fields | changes))


def job(
    job_id: int,
    state: JobState = JobState.QUEUED,
    *,
    at_s: float = START_S,
    ended_s: float = 0.0,
    key: str = "",
    array_id: int = 0,
    **changes: object,
) -> Job:
    """A job in a state, with the attempts that go with it."""
    made = Job(
        id=job_id,
        uid=f"uid-{job_id}",
        spec=spec(**changes),
        submitted_s=at_s,
        array_id=array_id,
        key=key,
        tasks=[Task(0)],
    )
    if state is JobState.HELD:
        made.held = True
    elif state is JobState.PREEMPTED:
        made.preempted = True
    elif state is not JobState.QUEUED:
        made.tasks[0].attempts = [_attempt(made, state, at_s)]
    if state in FINAL:
        made.outcome = Outcome(state, Cause.EXIT, exit_code=0)
        made.ended_s = ended_s or at_s + 60
    return made


def _attempt(of: Job, state: JobState, at_s: float) -> Attempt:
    phases = {JobState.SCHEDULED: Phase.PLACED, JobState.RUNNING: Phase.RUNNING}
    phase = phases.get(state, Phase.ENDED)
    return Attempt(
        uid=f"{of.uid}.0.1",
        number=1,
        allocation=Allocation("box", 1000, 512, cpus=(0,), devices=(1,)),
        incarnation="i1",
        placed_s=at_s + 1,
        phase=phase,
        started_s=0.0 if phase is Phase.PLACED else at_s + 2,
    )


def array(array_id: int, count_: int = 10, *, waiting_from: int = 0, **changes: object) -> Array:
    waiting = [[waiting_from, count_ - 1]] if waiting_from < count_ else []
    fields: dict[str, object] = {
        "uid": f"uid-{array_id}",
        "spec": spec(name="sweep"),
        "submitted_s": START_S,
        "runs": (IndexRun(0, count_ - 1),),
        "waiting": waiting,
    }
    return Array(id=array_id, count=count_, **(fields | changes))


def node(name: str, **changes: object) -> Node:
    return Node(spec=NodeSpec(name, 4000, 8192), incarnation="i1", boot_id="b1", **changes)


class Log:
    """Numbers events as a controller does."""

    def __init__(self, first: int = 1) -> None:
        self._numbers = count(first)

    def record(self, event: AnyEvent, *, at_s: float = START_S, actor: str = "ann") -> Recorded:
        return Recorded(next(self._numbers), at_s, actor, event)

    def submitted(self, *jobs: Job) -> Batch:
        """The batch of a tick that took these jobs."""
        events = [
            self.record(
                JobSubmitted(job=job.id, uid=job.uid, spec=job.spec, key=job.key),
                at_s=job.submitted_s,
            )
            for job in jobs
        ]
        return Batch(events=events, jobs=list(jobs))

    def array_submitted(self, family: Array) -> Batch:
        event = ArraySubmitted(
            array=family.id,
            uid=family.uid,
            spec=family.spec,
            runs=family.runs,
            count=family.count,
            rows=family.rows,
        )
        record = self.record(event, at_s=family.submitted_s)
        return Batch(events=[record], arrays=[family])

    def expanded(self, family: Array, position: int) -> Batch:
        event = self.record(ElementExpanded(array=family.id, position=position))
        return Batch(events=[event], arrays=[family], jobs=[family.expand(position)])

    def eligible(self, job_id: int) -> Recorded:
        return self.record(JobEligible(job=job_id))

    def silent(self, name: str, *, at_s: float = START_S) -> Recorded:
        return self.record(NodeSilent(node=name, note="gone"), at_s=at_s, actor="")


GPU_ROLE = Role(
    count=2,
    request=Request(
        cpu_milli=1500, memory_mib=2048, device="gpu", device_count=4, device_type="H100"
    ),
)
