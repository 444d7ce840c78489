"""What happened, in the past tense: one tagged union. Applying these is the only way state changes.

An event carries everything that ``apply`` needs: times, ids and decisions are in it, so folding
the log again gives the same state on any machine.
"""

from __future__ import annotations

import msgspec

from rota.core.changes.gpu_events import AnyGpuEvent
from rota.core.changes.node_events import DevicesElsewhere as DevicesElsewhere
from rota.core.changes.node_events import DevicesSeen as DevicesSeen
from rota.core.changes.node_events import NodeCutOff as NodeCutOff
from rota.core.changes.node_events import NodeDrained as NodeDrained
from rota.core.changes.node_events import NodeKeySet as NodeKeySet
from rota.core.changes.node_events import NodeLost as NodeLost
from rota.core.changes.node_events import NodeMarked as NodeMarked
from rota.core.changes.node_events import NodeQuarantined as NodeQuarantined
from rota.core.changes.node_events import NodeRegistered as NodeRegistered
from rota.core.changes.node_events import NodeRemoved as NodeRemoved
from rota.core.changes.node_events import NodeSilent as NodeSilent
from rota.core.changes.node_events import NodesVanished as NodesVanished
from rota.core.changes.node_events import PoolClosed as PoolClosed
from rota.core.changes.site_events import DeadlineMissed as DeadlineMissed
from rota.core.changes.site_events import GroupSet as GroupSet
from rota.core.changes.site_events import PilotRemoved as PilotRemoved
from rota.core.changes.site_events import PilotSet as PilotSet
from rota.core.changes.site_events import ProjectRemoved as ProjectRemoved
from rota.core.changes.site_events import ProjectSet as ProjectSet
from rota.core.changes.site_events import PromiseBroken as PromiseBroken
from rota.core.changes.site_events import QueueRemoved as QueueRemoved
from rota.core.changes.site_events import QueueSet as QueueSet
from rota.core.changes.site_events import QuotaProviderSet as QuotaProviderSet
from rota.core.changes.site_events import QuotaReached as QuotaReached
from rota.core.changes.site_events import QuotasSeen as QuotasSeen
from rota.core.changes.site_events import ReservationRemoved as ReservationRemoved
from rota.core.changes.site_events import ReservationSet as ReservationSet
from rota.core.changes.site_events import TokenMade as TokenMade
from rota.core.changes.site_events import TokenRevoked as TokenRevoked
from rota.core.changes.site_events import UsageForgotten as UsageForgotten
from rota.core.changes.site_events import UserRemoved as UserRemoved
from rota.core.changes.site_events import UserSet as UserSet
from rota.core.facts.checkpoint import Checkpoint
from rota.core.facts.endpoints import EndpointSet as EndpointSet
from rota.core.facts.event import Event as Event
from rota.core.facts.gpu_use import GpuFigures
from rota.core.facts.indices import IndexRun
from rota.core.facts.job import JobSpec, Outcome
from rota.core.facts.loans import Loan
from rota.core.facts.node import Allocation
from rota.core.facts.policy import Policy
from rota.core.facts.states import Blame, Cause
from rota.core.facts.steps import StepEnded as StepEnded
from rota.core.facts.steps import StepStarted as StepStarted
from rota.core.facts.visits import JobEntered as JobEntered


class BlobStored(Event, frozen=True, tag="blob-stored"):
    """An environment, script or input was kept: its body is in the store, not in the log."""

    digest: str
    body: bytes = b""


class JobSubmitted(Event, frozen=True, tag="job-submitted"):
    job: int
    uid: str
    spec: JobSpec
    held: bool = False
    eligible: bool = False
    not_before_s: float = 0.0
    key: str = ""


class ArraySubmitted(Event, frozen=True, tag="array-submitted"):
    """Elements have the ids ``array + 1`` to ``array + count``."""

    array: int
    uid: str
    spec: JobSpec
    runs: tuple[IndexRun, ...]
    count: int
    cap: int = 0
    rows: tuple[tuple[str, ...], ...] = ()
    held: bool = False
    eligible: bool = False
    not_before_s: float = 0.0
    key: str = ""


class ElementExpanded(Event, frozen=True, tag="element-expanded"):
    """An array element became a job of its own because something is about to touch it."""

    array: int
    position: int


class ArrayCancelled(Event, frozen=True, tag="array-cancelled"):
    """Every element that nothing had touched was cancelled at once."""

    array: int
    outcome: Outcome


class ArrayChanged(Event, frozen=True, tag="array-changed"):
    """Held, released, or given another cap or spec: for the untouched elements."""

    array: int
    held: bool | None = None
    eligible: bool | None = None
    cap: int | None = None
    spec: JobSpec | None = None
    #: Why it is held, where it was not a person.
    note: str = ""


class JobEligible(Event, frozen=True, tag="job-eligible"):
    """Every condition but room was met: from here on the wait counts."""

    job: int


class JobHeld(Event, frozen=True, tag="job-held"):
    job: int
    #: Why, where it was not a person.
    note: str = ""


class JobReleased(Event, frozen=True, tag="job-released"):
    job: int


class JobSuspended(Event, frozen=True, tag="job-suspended"):
    """Its processes were stopped where they are; it keeps its room and its state.

    One that yields to another job lends CPUs to it, and goes on when they are given back.
    """

    job: int
    by: str
    yields_to: int = 0


class JobResumed(Event, frozen=True, tag="job-resumed"):
    """Its processes go on, or are about to be ended."""

    job: int


class JobUpdated(Event, frozen=True, tag="job-updated"):
    """The spec of a waiting job (or the limits of a running one) was replaced."""

    job: int
    spec: JobSpec


class AttemptPlaced(Event, frozen=True, tag="attempt-placed"):
    """Room was given to a task. On disk before any process exists."""

    job: int
    task: int
    uid: str
    allocation: Allocation
    incarnation: str
    #: Live attempts that leave the room for it; their end is asked for in the same commit.
    after: tuple[str, ...] = ()
    window_s: float = 0.0
    #: CPUs of attempts that were stopped for it.
    borrows: tuple[Loan, ...] = ()
    #: Where its gang meets on its node; 0: it holds no port.
    port: int = 0


class AttemptWaits(Event, frozen=True, tag="attempt-waits"):
    """Its engine has taken it and has not started it yet, for this reason."""

    job: int
    task: int
    uid: str
    detail: str
    external: str = ""
    #: The machine that it was given and does not run on yet; empty: it waits for one.
    where: str = ""


class AttemptStarted(Event, frozen=True, tag="attempt-started"):
    job: int
    task: int
    uid: str
    pid: int
    started_s: float
    #: What its engine calls it, and the machine of the engine that it runs on.
    external: str = ""
    where: str = ""


class AttemptStopAsked(Event, frozen=True, tag="attempt-stop-asked"):
    """The agent was told to end it: TERM, the grace, KILL. The first cause stays."""

    job: int
    task: int
    uid: str
    cause: Cause
    detail: str = ""


class AttemptEnded(Event, frozen=True, tag="attempt-ended"):
    job: int
    task: int
    uid: str
    ended_s: float
    cause: Cause
    #: Set when the start was not reported before.
    started_s: float = 0.0
    exit_code: int | None = None
    signal: int = 0
    detail: str = ""
    fault: Blame | None = None
    peak_memory_mib: int = 0
    cpu_s: float = 0.0
    #: What it made of its GPUs; None: it had none, or nobody measured.
    gpu: GpuFigures | None = None
    #: Of a start that was not reported before.
    external: str = ""
    where: str = ""


class StopPlanned(Event, frozen=True, tag="stop-planned"):
    """What becomes of a job once its live attempts have gone.

    ``requeue``, ``hold`` and ``cancel`` are what a user asked for. ``preempt`` (back in the
    queue), ``evict`` (the end) and ``return`` (back in the queue without any blame) are decided
    by the scheduler, and give way to what a user asks for before it is over.
    """

    job: int
    then: str


class JobRetried(Event, frozen=True, tag="job-retried"):
    """Its attempts ended without success and it waits for another try."""

    job: int
    not_before_s: float
    cause: Cause
    detail: str = ""


class JobRequeued(Event, frozen=True, tag="job-requeued"):
    """Back in its old place in the queue, as a person asked; a finished job gets a new life."""

    job: int
    held: bool = False
    #: No user asked: the retries that it used stay used.
    kept: bool = False
    not_before_s: float = 0.0


class JobPreempted(Event, frozen=True, tag="job-preempted"):
    """It gave way: its attempts have gone and it waits in its old place."""

    job: int
    #: It ran longer than it was taken to: so long it is taken to run from now on. 0: as before.
    predicted_s: int = 0


class SaveAsked(Event, frozen=True, tag="save-asked"):
    """A running job was told to save its work and go on, or that its limit is near."""

    job: int
    warns: bool = False


class CheckpointReported(Event, frozen=True, tag="checkpoint-reported"):
    """A running job said that its work is saved up to this time, and which data it made."""

    job: int
    saved_s: float
    data: tuple[str, ...] = ()
    record: Checkpoint | None = None
    keep: int = 0


class JobSettled(Event, frozen=True, tag="job-settled"):
    """The job ended, for good."""

    job: int
    outcome: Outcome


class ClockMoved(Event, frozen=True, tag="clock-moved"):
    """The wall clock was set while the controller was away: what goes on keeps its length."""

    shift_s: float


class PolicySet(Event, frozen=True, tag="policy-set"):
    """From here on passes obey these rules."""

    policy: Policy


class RuleDropped(Event, frozen=True, tag="rule-dropped"):
    """A plug-in failed in a pass; the built-in rule decided in its place."""

    point: str
    name: str
    problem: str


class PassesMade(Event, frozen=True, tag="passes-made"):
    """Passes before this record that decided nothing: nothing changed, and a replay makes them too.

    ``reopened_s`` are those that looked at everything because a user asked for it. ``anew``: a
    new controller goes on from here.
    """

    quiet_s: tuple[float, ...] = ()
    reopened_s: tuple[float, ...] = ()
    anew: bool = False


AnyEvent = (
    BlobStored
    | JobSubmitted
    | ArraySubmitted
    | ElementExpanded
    | ArrayCancelled
    | ArrayChanged
    | JobEligible
    | JobHeld
    | JobReleased
    | JobSuspended
    | JobResumed
    | JobUpdated
    | AttemptPlaced
    | AttemptWaits
    | AttemptStarted
    | AttemptStopAsked
    | AttemptEnded
    | StopPlanned
    | JobRetried
    | JobRequeued
    | JobPreempted
    | DeadlineMissed
    | PromiseBroken
    | SaveAsked
    | CheckpointReported
    | EndpointSet
    | JobEntered
    | StepStarted
    | StepEnded
    | JobSettled
    | NodeRegistered
    | NodeSilent
    | NodeLost
    | NodesVanished
    | NodeDrained
    | NodeQuarantined
    | PoolClosed
    | DevicesSeen
    | DevicesElsewhere
    | NodeMarked
    | NodeKeySet
    | NodeCutOff
    | NodeRemoved
    | QueueSet
    | QueueRemoved
    | GroupSet
    | ProjectSet
    | ProjectRemoved
    | UserSet
    | UserRemoved
    | UsageForgotten
    | QuotaProviderSet
    | QuotasSeen
    | QuotaReached
    | ClockMoved
    | PolicySet
    | RuleDropped
    | PassesMade
    | PilotSet
    | PilotRemoved
    | ReservationSet
    | ReservationRemoved
    | TokenMade
    | TokenRevoked
    | AnyGpuEvent
)


class Recorded(msgspec.Struct, frozen=True):
    """One line of the log: when, on whose behalf, what."""

    seq: int
    at_s: float
    actor: str
    event: AnyEvent
