"""Jobs: what people submit, the tasks it consists of and the attempts at each of them."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rota.core.facts.checkpoint import Checkpoint
from rota.core.facts.endpoints import Endpoint
from rota.core.facts.gpu_use import GpuFigures
from rota.core.facts.health import Health
from rota.core.facts.loans import Loan
from rota.core.facts.node import Allocation
from rota.core.facts.notices import Target
from rota.core.facts.parents import Dependency
from rota.core.facts.placing import ANYWHERE, Placement
from rota.core.facts.policy import PreemptMode
from rota.core.facts.resources import Request
from rota.core.facts.states import Blame, Cause, JobState, Phase, fate


class RestartPolicy(StrEnum):
    """When an ended attempt is tried again, as long as retries are left."""

    NEVER = "never"
    ON_FAILURE = "on-failure"
    ALWAYS = "always"


class ServiceClass(StrEnum):
    """How firm a claim on room is.

    ``guaranteed`` counts against what a node really has and is never evicted; ``best-effort``
    gives way first, to any job of another class.
    """

    GUARANTEED = "guaranteed"
    BURSTABLE = "burstable"
    BEST_EFFORT = "best-effort"


class Role(msgspec.Struct, frozen=True, omit_defaults=True):
    """A kind of member: how many tasks of which shape.

    With ``min_count`` the job starts with as few as that, and grows and shrinks up to ``count``.
    """

    name: str = "main"
    count: int = 1
    min_count: int = 0
    request: Request = Request()


class JobSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What was asked for. Never changes, except through an ``updated`` event that replaces it.

    Exactly one of ``command`` (a list) and ``script`` (the digest of a stored blob) is set.
    ``environment`` is such a digest, too, so that a thousand jobs from one shell keep it once.
    """

    name: str
    user: str
    command: tuple[str, ...] = ()
    script: str = ""
    script_args: tuple[str, ...] = ()
    project: str = ""
    queue: str = "default"
    priority: int = 50
    roles: tuple[Role, ...] = (Role(),)
    workdir: str = "/"
    environment: str = ""
    #: On top of the environment: single variables, and names of its user's secrets.
    variables: dict[str, str] = {}
    secrets: tuple[str, ...] = ()
    stdin: str = ""
    output: str = ""
    error: str = ""
    umask: int = 0o022
    ulimits: dict[str, int] = {}
    time_limit_s: int = 0
    grace_s: int = 30
    scheduling_timeout_s: int = 0
    begin_s: float = 0.0
    dependencies: tuple[Dependency, ...] = ()
    any_dependency: bool = False
    keep_waiting: bool = False
    #: Its parents must be met so long after the submission; 0: whenever.
    dependency_timeout_s: int = 0
    group: str = ""
    retries: int = 0
    restart: RestartPolicy = RestartPolicy.ON_FAILURE
    #: Only these exit codes (or causes) are tried again; empty: any failure.
    retry_on: tuple[str, ...] = ()
    backoff_s: float = 1.0
    labels: dict[str, str] = {}
    preemptible: bool = False
    placement: Placement = ANYWHERE
    #: How long it will probably run, if that is not its limit; 0: not said.
    estimate_s: int = 0
    #: What the controller expected when it came, and a bound on it; 0: nothing was predicted.
    predicted_s: int = 0
    predicted_most_s: int = 0
    #: When it should be done; 0: no deadline.
    deadline_s: float = 0.0
    promised: bool = False  # That it is done by then was promised when it came.
    service: ServiceClass = ServiceClass.BURSTABLE
    #: How it gives way; None: as the policy says. And how often it comes back after that.
    preempt_mode: PreemptMode | None = None
    preempt_retries: int = 100
    #: Sent at the beginning of the grace instead of TERM, so that it can save its state.
    checkpoint_signal: str = ""
    #: Sent so that it saves its work and goes on: when a user asks, and every ``save_every_s``.
    save_signal: str = ""
    save_every_s: int = 0
    #: Sent once, this many seconds before its time limit is over.
    warn_signal: str = ""
    warn_s: int = 0
    #: The digest of a working folder that travels with it, and the image of a container.
    bundle: str = ""
    image: str = ""
    #: Devices are kept for this very job: the first of its reservations.
    reservation: int = 0
    #: Names for which each of its tasks gets a port on its node, and one to ask if it is well.
    ports: tuple[str, ...] = ()
    health: Health | None = None
    #: What a restart costs it beyond lost work, in seconds.
    restart_cost_s: int = 0
    #: ``training``, ``inference``, ``workflow``: for quotas by type.
    type: str = ""
    #: ``{name}`` values of a sweep, one tuple of values per element.
    parameters: tuple[str, ...] = ()
    #: How many of each licence of the site it holds while it holds room, by name.
    licenses: tuple[tuple[str, int], ...] = ()
    #: On a pseudo-terminal that people can attach to.
    pty: bool = False
    #: Where notices of what happens to it go.
    notify: tuple[Target, ...] = ()

    @property
    def request(self) -> Request:
        """The shape of the first role; most jobs have one role with one member."""
        return self.roles[0].request

    @property
    def task_count(self) -> int:
        return sum(role.count for role in self.roles)

    @property
    def is_service(self) -> bool:
        """Whether it is there to answer others: asked if it is well, or started again always."""
        return self.health is not None or self.restart is RestartPolicy.ALWAYS

    @property
    def vdc(self) -> str:
        """The virtual data centre that it counts in; empty: in none."""
        return self.placement.vdc

    @property
    def elastic(self) -> bool:
        """Whether its world size may change while it runs."""
        return any(0 < role.min_count < role.count for role in self.roles)


class Attempt(msgspec.Struct, omit_defaults=True):
    """One try of a task. Live until ``phase`` is ended; then its end is written in full."""

    uid: str
    number: int
    allocation: Allocation
    incarnation: str
    placed_s: float
    phase: Phase = Phase.PLACED
    #: Its first process, or what its engine calls it.
    pid: int = 0
    external: str = ""
    #: Since when its engine lets it wait; the machine of the engine that it runs on.
    waits_s: float = 0.0
    where: str = ""
    started_s: float = 0.0
    ended_s: float = 0.0
    #: Set once a stop was asked for: the first cause stays.
    stop_cause: Cause | None = None
    stop_s: float = 0.0
    #: The attempts whose room it gets: it is not launched before all of them are gone.
    after: tuple[str, ...] = ()
    #: Backfilled: it should be gone by then; 0: no window.
    window_s: float = 0.0
    #: What it has between TERM and KILL, as it was launched; below 0: an old row does not say.
    grace_s: int = -1
    #: CPUs that others lend to it; they stand still as long as it lives.
    borrows: tuple[Loan, ...] = ()
    #: Held on its node, for its gang to meet at; 0: none.
    port: int = 0
    exit_code: int | None = None
    signal: int = 0
    cause: Cause | None = None
    detail: str = ""
    #: For whose sake it could not be started; None: it could, or nobody said.
    fault: Blame | None = None
    peak_memory_mib: int = 0
    cpu_s: float = 0.0
    #: What it made of its GPUs; None: it had none, or nobody measured.
    gpu: GpuFigures | None = None
    #: What its owner was told about its GPUs.
    warned: tuple[str, ...] = ()
    #: What an hour of it costs, by the prices when it was placed.
    price: float = 0.0
    #: Up to when its use was charged, where what it keeps from others changed while it ran.
    charged_s: float = 0.0

    @property
    def live(self) -> bool:
        return self.phase is not Phase.ENDED

    @property
    def waits_inside(self) -> bool:
        """Whether its engine has taken it and has no machine for it."""
        return self.waits_s > 0 and self.phase is Phase.PLACED and not self.where


def granted_s(spec: JobSpec, most_s: int) -> int:
    """The grace of an attempt that is launched now: what its job asked for, as far as allowed."""
    return min(spec.grace_s, most_s) if most_s else spec.grace_s


class Task(msgspec.Struct, omit_defaults=True):
    """One member of a job, by index, with its attempts in order."""

    index: int
    role: int = 0
    attempts: list[Attempt] = []

    @property
    def current(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a job ended, for good: its state and the first cause."""

    state: JobState
    cause: Cause
    detail: str = ""
    exit_code: int | None = None
    signal: int = 0


class Job(msgspec.Struct, omit_defaults=True):
    """A spec and a status. The state is derived (``Job.state``), never stored on its own."""

    id: int
    uid: str
    spec: JobSpec
    submitted_s: float
    array_id: int = 0
    array_index: int = 0
    parameters: dict[str, str] = {}  # ``{name}`` values of this element of a sweep.
    held: bool = False
    held_note: str = ""  # Why, where it was not a person.
    #: When waiting began to count: set when every condition but room was met.
    eligible_s: float = 0.0
    not_before_s: float = 0.0  # Begin time or retry backoff.
    #: Its dependencies were met once; a retry does not ask its parents again.
    parents_met: bool = False
    #: Retries already used; a requeue by a person starts again from zero.
    retries_used: int = 0
    requeues: int = 0
    preempted: bool = False
    preemptions: int = 0  # How often it gave way.
    steps: int = 0  # How many were started in it.
    #: When it last said that its work is saved; 0: never in this round.
    checkpoint_s: float = 0.0
    #: How often it was asked to save its work in this round, and when it was last.
    saves: int = 0
    save_asked_s: float = 0.0
    warned_s: float = 0.0  # When it was last warned that its limit is near.
    #: When it was seen that its deadline had passed, and that its promise cannot be kept.
    missed_s: float = 0.0
    broken_s: float = 0.0
    made: tuple[str, ...] = ()  # The names of the data that it said to have made.
    endpoints: tuple[Endpoint, ...] = ()  # Where its tasks said that they can be reached.
    #: What it said about its latest checkpoints, the newest last.
    checkpoints: tuple[Checkpoint, ...] = ()
    #: What to do when the live attempts have gone: set by cancel and requeue.
    after_stop: str = ""
    #: Since when its processes are stopped where they are (0: they are not), and by which user.
    suspended_s: float = 0.0
    suspended_by: str = ""
    #: The job that it lends its CPUs to meanwhile, and goes on after; 0: a user suspended it.
    yields_to: int = 0
    #: How long this round was suspended before; such time does not count against its limit.
    paused_s: float = 0.0
    tasks: list[Task] = []
    outcome: Outcome | None = None
    ended_s: float = 0.0
    #: The caller's Idempotency-Key, so that a repeated submit finds the first one.
    key: str = ""

    @property
    def state(self) -> JobState:
        if self.outcome is not None:
            return self.outcome.state
        live = started = False
        for attempt in self.round if self.tasks else ():
            live = live or attempt.phase is not Phase.ENDED
            started = started or attempt.started_s > 0.0
        if live:
            return JobState.RUNNING if started else JobState.SCHEDULED
        if self.held:
            return JobState.HELD
        return JobState.PREEMPTED if self.preempted else JobState.QUEUED

    @property
    def round(self) -> list[Attempt]:
        """The latest attempt of each task that has one of the latest number.

        All tasks of a job are placed together, so their attempts carry the same number. A task
        that an update took away keeps its attempts of earlier rounds.
        """
        tasks = self.tasks
        if len(tasks) <= 1:
            return tasks[0].attempts[-1:] if tasks else []
        latest = [task.attempts[-1] for task in tasks if task.attempts]
        number = max((attempt.number for attempt in latest), default=0)
        return [attempt for attempt in latest if attempt.number == number]

    @property
    def live_attempts(self) -> list[Attempt]:
        return [attempt for attempt in self.round if attempt.live]

    @property
    def started_s(self) -> float:
        """When the latest attempt really started; 0 while none did."""
        return min((a.started_s for a in self.round if a.started_s), default=0.0)

    @property
    def limit_due_s(self) -> float:
        """When its limit is over; 0: never, or not known while it is suspended or not started."""
        started_s = self.started_s
        if not started_s or not self.spec.time_limit_s or self.suspended_s:
            return 0.0
        return started_s + self.spec.time_limit_s + self.paused_s

    @property
    def warn_due_s(self) -> float:
        """When it is warned that its limit is near; 0: never, not known, or it was already."""
        limit_s, started_s = self.limit_due_s, self.started_s
        if not limit_s or not self.spec.warn_signal or self.warned_s >= started_s:
            return 0.0
        return max(started_s, limit_s - self.spec.warn_s)

    @property
    def promise(self) -> str:
        """What became of the promise of its deadline; empty: it has none."""
        return fate(self.spec.promised, self.broken_s, self.outcome)

    @property
    def is_late(self) -> bool:
        """Whether it missed its deadline; another deadline, later than that, is a new chance."""
        return bool(self.missed_s) and self.missed_s >= self.spec.deadline_s

    @property
    def asking_signal(self) -> str:
        """What it heard or shall hear of the last time that it was asked something."""
        if not self.saves:
            return ""
        warned = self.warned_s > self.save_asked_s
        return self.spec.warn_signal if warned else self.spec.save_signal

    @property
    def save_due_s(self) -> float:
        """When it is next asked to save its work while it runs; each save of its own delays it."""
        return max(self.started_s, self.save_asked_s, self.checkpoint_s) + self.spec.save_every_s

    @property
    def pause(self) -> str:
        """Why its processes stand still, in words; empty: they do not."""
        if not self.suspended_s:
            return ""
        if self.yields_to:
            return f"suspended: lends its CPUs to job {self.yields_to} until that is gone"
        return f"suspended by {self.suspended_by}"

    @property
    def next_number(self) -> int:
        """The number of the round that is being placed: of its live attempts, else a new one."""
        latest = self.round
        over = not any(attempt.live for attempt in latest)
        return latest[0].number + over if latest else 1

    def attempt_uid(self, task: int) -> str:
        """The uid of the next attempt at a task: unique, and the same in every replay.

        A task that left a running gang and joins it again has several of one number.
        """
        number = self.next_number
        known = self.tasks[task].attempts if task < len(self.tasks) else ()
        again = sum(attempt.number == number for attempt in known)
        return f"{self.uid}.{task}.{number}" + (f"-{again + 1}" if again else "")
