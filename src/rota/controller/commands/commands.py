"""What a caller may ask. Each command is a value; ``perform`` turns it into events or refuses."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.core.facts.checkpoint import Checkpoint
from rota.core.facts.gpu_use import Overuse
from rota.core.facts.indices import IndexRun
from rota.core.facts.job import JobSpec
from rota.core.facts.parents import Dependency
from rota.core.facts.placing import Taint
from rota.core.facts.site.clusters import Vdc
from rota.core.facts.site.outer import Outer
from rota.core.facts.site.pilot import Pilot
from rota.core.facts.tenant import Actor, Group, Project, Queue, Reservation, Token, User
from rota.scheduling.answers.pledging import Weighed


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """One job or array, checked for form. The spec's user is the actor, whatever was asked."""

    spec: JobSpec
    blobs: dict[str, bytes] = {}
    held: bool = False
    runs: tuple[IndexRun, ...] = ()
    cap: int = 0
    rows: tuple[tuple[str, ...], ...] = ()
    #: Sets the cap of ``spec.group``; None leaves it as it is.
    group_cap: int | None = None
    #: Its deadline is to be promised; and how probable it is that it is met without a promise.
    promise: bool = False
    chance: float = 0.0
    #: What can be promised, where that was worked out before; None: it is to be worked out.
    weighed: Weighed | None = None


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all commands: who asks."""

    actor: Actor


class Submit(Command, frozen=True, kw_only=True):
    """All of them or none. ``key`` makes it safe to repeat what has the same ``digest``."""

    submissions: tuple[Submission, ...]
    key: str = ""
    digest: str = ""
    #: How many jobs of the caller may wait, unless a quota says otherwise; 0: any number.
    most_waiting: int = 0
    #: How many promises of the caller may be open; 0: any number.
    most_promised: int = 0


class Select(Command, frozen=True, kw_only=True):
    """Base of commands on several jobs. Array ids stand for all their elements."""

    ids: tuple[int, ...] = ()
    #: Instead of ids: every unfinished job of this user (``*``: of everybody).
    of_user: str = ""


class Cancel(Select, frozen=True, kw_only=True):
    """End jobs, waiting or running."""

    #: Of an array only the elements that wait and that nothing has touched.
    untouched: bool = False


class Hold(Select, frozen=True, kw_only=True):
    """Keep waiting jobs from starting."""


class Release(Select, frozen=True, kw_only=True):
    """Let held jobs go."""


class Requeue(Select, frozen=True, kw_only=True):
    """Stop running jobs and put them back in their place."""

    hold: bool = False


class Suspend(Select, frozen=True, kw_only=True):
    """Stop the processes of running jobs where they are; they keep their room."""


class Resume(Select, frozen=True, kw_only=True):
    """Let suspended jobs go on."""


class Update(Command, frozen=True, kw_only=True):
    """Change a waiting job; of a running one only what does not concern its room."""

    job: int
    changes: dict[str, Any]
    dependencies: tuple[Dependency, ...] | None = None
    array_cap: int | None = None


class SetQueue(Command, frozen=True, kw_only=True):
    queue: Queue


class RemoveQueue(Command, frozen=True, kw_only=True):
    queue: str


class SetGroup(Command, frozen=True, kw_only=True):
    group: Group


class SetProject(Command, frozen=True, kw_only=True):
    project: Project


class RemoveProject(Command, frozen=True, kw_only=True):
    project: str


class SetUser(Command, frozen=True, kw_only=True):
    """Shares and quota of somebody; the empty name: of everybody who has no record."""

    user: User


class RemoveUser(Command, frozen=True, kw_only=True):
    user: str


class ForgetUsage(Command, frozen=True, kw_only=True):
    """Let what accounts have used count no longer: of a user, of a project; empty: of all."""

    user: str = ""
    project: str = ""


class SetPolicy(Command, frozen=True, kw_only=True):
    """Take the rules from a named policy, if one is named, and then these by their keys."""

    preset: str = ""
    rules: dict[str, Any] = {}


class AddReservation(Command, frozen=True, kw_only=True):
    """Its id is given by the controller."""

    reservation: Reservation


class ReserveForJob(Command, frozen=True, kw_only=True):
    """Keep devices for one job; each by its uuid, or as ``NODE:INDEX``."""

    job: int
    devices: tuple[str, ...]


class RemoveReservation(Command, frozen=True, kw_only=True):
    """By its id, or by that of the job that it is for."""

    reservation: int


class SetElsewhere(Command, frozen=True, kw_only=True):
    """By node, the uuids of devices that others have; nodes that are not named have none such."""

    nodes: dict[str, tuple[str, ...]] = {}


class Idle(msgspec.Struct, frozen=True):
    """An attempt, and which of its devices have done nothing since when."""

    uid: str
    devices: tuple[int, ...]
    since_s: float


class NoteGpus(Command, frozen=True, kw_only=True):
    """What measuring has found about the devices of a node."""

    node: str
    #: All that is held beyond what was asked for; None: nothing new.
    overuse: tuple[Overuse, ...] | None = None
    #: Attempts that hold more are ended.
    ends: bool = False
    idle: tuple[Idle, ...] = ()
    #: Failures of devices, by uuid; this many of one take it out of service (0: none do).
    faults: tuple[tuple[str, str], ...] = ()
    failures: int = 0


class SetQuotaProvider(Command, frozen=True, kw_only=True):
    """Who has quotas outside of Rota; empty: nobody."""

    provider: str = ""


class SeeQuotas(Command, frozen=True, kw_only=True):
    """What that provider says of projects now; nothing is said of those that are not named."""

    outers: tuple[Outer, ...] = ()
    #: Projects that are no longer asked for.
    gone: tuple[str, ...] = ()


class NoteQuota(Command, frozen=True, kw_only=True):
    """A user or a project has reached ``level`` per cent of a limit; ``note`` says of which."""

    level: int
    note: str
    user: str = ""
    project: str = ""


class MarkNode(Command, frozen=True, kw_only=True):
    """Labels to set (None: to take away), taints to add, keys of taints to take away.

    ``devices`` are the indices that jobs may be given (None: as before, empty: all of them).
    ``ignore`` and ``unignore`` are pids of processes outside Rota.
    """

    node: str
    labels: dict[str, str | None] = {}
    taints: tuple[Taint, ...] = ()
    untaint: tuple[str, ...] = ()
    devices: tuple[int, ...] | None = None
    ignore: tuple[int, ...] = ()
    unignore: tuple[int, ...] = ()


class ReportCheckpoint(Command, frozen=True, kw_only=True):
    """The work of a running job is saved as of a moment; 0: of now. ``data``: what it made.

    ``record`` says more about it; the site remembers the latest ``keep`` of a job (0: many).
    """

    job: int
    saved_s: float = 0.0
    data: tuple[str, ...] = ()
    record: Checkpoint = Checkpoint(0.0)
    keep: int = 0


class AskSave(Command, frozen=True, kw_only=True):
    """A running job shall save its work, and go on."""

    job: int


class SetEndpoint(Command, frozen=True, kw_only=True):
    """A task of a running job can be reached here; with an empty address: no longer."""

    job: int
    task: int
    name: str
    address: str = ""
    metadata: dict[str, str] = {}


class BeginStep(Command, frozen=True, kw_only=True):
    """Something is about to be started inside a running job."""

    job: int
    name: str
    nodes: tuple[str, ...] = ()
    tasks: int = 1
    cpus: int = 0


class EndStep(Command, frozen=True, kw_only=True):
    """What was started inside a job has ended; ``state`` in the words of its starter."""

    job: int
    step: int
    state: str
    exit_code: int = 0
    signal: int = 0
    cpu_s: float = 0.0
    memory_mib: int = 0


class EnterJob(Command, frozen=True, kw_only=True):
    """Somebody wants to attach to a task of a running job, or to reach one of its ports."""

    job: int
    task: int
    #: As in ``JobEntered``.
    way: str


class SetVdc(Command, frozen=True, kw_only=True):
    """A virtual data centre as it shall be."""

    vdc: Vdc


class RemoveVdc(Command, frozen=True, kw_only=True):
    vdc: str


class DrainNode(Command, frozen=True, kw_only=True):
    """Take a node out of service, or put it back (not ``drained``).

    With ``migrate`` its jobs go on elsewhere as soon as their work is saved; whatever is there at
    ``deadline_s`` is put back into the queue (0: everything may finish).
    """

    node: str
    drained: bool
    note: str = ""
    migrate: bool = False
    deadline_s: float = 0.0


class SetPilot(Command, frozen=True, kw_only=True):
    """How allocations of an engine are asked for from now on."""

    pilot: Pilot


class RemovePilot(Command, frozen=True, kw_only=True):
    """Ask for no more of them, and let go of those that are there."""

    pilot: str


class RemoveNode(Command, frozen=True, kw_only=True):
    """Cut a node off and forget it; also one that waits for approval."""

    node: str


class ApproveNode(Command, frozen=True, kw_only=True):
    node: str


class RenewNodeKey(Command, frozen=True, kw_only=True):
    """The digest of a node's new key, in place of the key with the id ``before``."""

    node: str
    before: str
    digest: str


class MakeToken(Command, frozen=True, kw_only=True):
    token: Token


class RevokeToken(Command, frozen=True, kw_only=True):
    token: str


class Trigger(Command, frozen=True, kw_only=True):
    """Look at every waiting job now, also at those that nothing has changed for."""


class Answered(msgspec.Struct, frozen=True):
    """What is said of a deadline: it is promised, with a start, or met with this chance."""

    start_s: float = 0.0
    chance: float = 1.0


class Submitted(msgspec.Struct, frozen=True):
    """The answer to a submit: first id of each submission, and whether it is a repeat."""

    ids: tuple[int, ...]
    uids: tuple[str, ...] = ()
    repeated: bool = False
    promise: Answered | None = None


class Refusal(msgspec.Struct, frozen=True):
    id: int
    reason: str


class ChangedJobs(msgspec.Struct, frozen=True):
    """The answer to a command on several jobs."""

    changed: tuple[int, ...] = ()
    refused: tuple[Refusal, ...] = ()
