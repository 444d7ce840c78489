"""Every message between controller and agent, as two tagged unions in msgpack.

The agent dials, says ``Hello`` and gets the ``Welcome`` that answers it. Then the controller sends
the *complete* set of attempts that should live on the node (``Desired`` with ``full``), the agent
answers with the complete set that does (``Observed`` with ``full``). Later messages are numbered
deltas of the same two kinds. A number that is not the next one ends the session: the agent dials
again and both start over from full sets. Messages of an earlier session are ignored by their
``session``.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rota.core.facts.gpu_use import GpuFigures
from rota.core.facts.health import Health
from rota.core.facts.node import ForeignUse, NodeSpec
from rota.core.facts.states import Blame, Cause
from rota.rpc.bases import FromAgent, ToAgent
from rota.rpc.engine_order import EngineOrder as EngineOrder
from rota.rpc.measures import Measured as Measured
from rota.rpc.visits import (
    CloseTerminal,
    CloseTunnel,
    LogFound,
    LogPart,
    OpenTerminal,
    OpenTunnel,
    ReadLog,
    SearchLog,
    SendSignal,
    StartBeside,
    TerminalInput,
    TerminalOutput,
    TunnelInput,
    TunnelOutput,
    WriteRemark,
)

#: Raised when either side could misread the other.
PROTOCOL = 7


class Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the saved work of a job is: a folder, and its copy in a store (empty: none)."""

    folder: str
    store: str = ""
    #: More is not copied; 0: no bound.
    most_bytes: int = 0
    attempt: int = 1
    #: Of a gang one task copies: each node would replace what another has copied.
    copies: bool = True


class Launch(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that an agent needs to start one attempt."""

    uid: str
    job: int
    user: str
    argv: tuple[str, ...]
    workdir: str
    #: The job's whole environment, ``ROTA_*`` and device variables included.
    environment: dict[str, str]
    #: Path to write to; empty: the agent's own log folder.
    stdout: str = ""
    stderr: str = ""
    #: ``truncate`` or ``append``; empty: ``append``. Folders of the two files are made.
    outputs: str = ""
    #: A script is stored by the agent and its path put before ``argv``.
    script: bytes = b""
    stdin: bytes = b""
    umask: int = 0o022
    ulimits: dict[str, int] = {}
    cpus: tuple[int, ...] = ()
    cpu_milli: int = 0
    memory_mib: int = 0
    grace_s: float = 30.0
    #: On a pseudo-terminal that people can attach to.
    terminal: bool = False
    #: The folder for its saved work, and whether an earlier try has left some.
    checkpoint: Saved | None = None
    #: The digest of a working folder to unpack and run in; empty: none.
    bundle: str = ""
    #: A container image to run in, and the names of the variables that it finds there.
    image: str = ""
    inside: tuple[str, ...] = ()
    #: Said where the working folder is missing: it begins in /tmp. Empty: it does not begin.
    elsewhere: str = ""
    devices: tuple[int, ...] = ()
    #: What the job shows to the controller where it cannot use the controller's own socket.
    token: str = ""
    #: Names for which the agent finds ports that are free on its node.
    ports: tuple[str, ...] = ()
    #: Which of these it must answer at, as long as it runs.
    health: Health | None = None
    #: Where its gang will meet on this node; 0: it meets elsewhere, or is none.
    meeting_port: int = 0
    #: Of a gang that may grow and shrink: who takes part, for a file that its members read.
    world: bytes = b""
    #: On the node of an engine; None: on a machine with an agent of its own.
    order: EngineOrder | None = None


class Wanted(msgspec.Struct, frozen=True, omit_defaults=True):
    """One attempt that the controller counts as live.

    ``started`` says that its start was already reported: if the agent does not know it then, it
    is missing and must not be started again. ``stop`` asks for TERM, the grace, KILL. With a
    ``signal`` (``USR1``) that one is sent first, so that the job can save its state, and TERM
    shortly before the grace is over. ``grace_s`` is the grace of this stop; below 0: as launched.
    ``suspended`` wants its processes stopped where they are; one that is to end is never so.
    ``world`` is that of a launch, as it has become. ``saves`` counts how often it was asked to
    save its work and go on, which it hears as ``save_signal``.
    """

    uid: str
    launch: Launch | None = None
    started: bool = False
    stop: Cause | None = None
    signal: str = ""
    grace_s: float = -1.0
    suspended: bool = False
    world: bytes = b""
    saves: int = 0
    save_signal: str = ""


class Sighting(StrEnum):
    """What an agent says of an attempt. An engine may let one wait after it has taken it."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    MISSING = "missing"


class Seen(msgspec.Struct, frozen=True, omit_defaults=True):
    """One attempt as the agent sees it. An end is repeated until the controller forgets it."""

    uid: str
    sighting: Sighting
    pid: int = 0
    started_s: float = 0.0
    ended_s: float = 0.0
    exit_code: int | None = None
    signal: int = 0
    #: Set by the agent when it knows more than the exit status: out of memory, start failed.
    cause: Cause | None = None
    detail: str = ""
    peak_memory_mib: int = 0
    cpu_s: float = 0.0
    gpu: GpuFigures | None = None
    #: Ports that it has by name on its node.
    ports: dict[str, int] = {}
    #: For whose sake the start failed, where the agent knows it.
    fault: Blame | None = None
    #: What its engine calls it, and the machine of the engine that it runs on.
    external: str = ""
    where: str = ""


class Hello(FromAgent, frozen=True, tag="hello"):
    """First words: who am I, which boot of which installation, what do I have."""

    protocol: int
    node: NodeSpec
    incarnation: str
    boot_id: str
    version: str
    pid: int = 0
    #: Who else uses the devices: known before the first job can be placed on one.
    foreign: tuple[ForeignUse, ...] = ()
    #: The machine and the folder of this installation: a copy of it has another one.
    home: str = ""
    #: On the controller's own machine: nothing can come between them, so there is no lease. It is
    #: believed on the controller's own socket only.
    local: bool = False
    #: The kind of engine that it speaks for: what runs there outlives any silence, so that there is
    #: no lease; empty: it starts processes itself.
    engine: str = ""
    #: The digest of the node's own key, which takes the place of a join token from now on.
    key: str = ""
    #: A number that no other hello has: the welcome repeats it.
    greeting: int = 0


class Beat(FromAgent, frozen=True, tag="beat"):
    """The agent is there. The answer names the number: the lease counts from when it was sent."""

    session: int
    number: int
    #: The last report that was sent before it in this session: one that got lost is missed by the
    #: next beat, and not only by the next report, which may never come.
    reported: int = 0


class Observed(FromAgent, frozen=True, tag="observed"):
    session: int
    number: int
    attempts: tuple[Seen, ...]
    full: bool = False


class Resized(FromAgent, frozen=True, tag="resized"):
    """Something new of the node: an engine's follows others' use, an agent has a remark."""

    session: int
    node: NodeSpec


class DeviceUse(FromAgent, frozen=True, tag="device-use"):
    """Processes outside Rota on the node's devices: sent when it changed."""

    session: int
    foreign: tuple[ForeignUse, ...]


class Farewell(FromAgent, frozen=True, tag="farewell"):
    """The node goes for good, and nothing of ours is alive there.

    ``soon``: it is about to, and takes nothing new. ``idle``: only if it has nothing to do. The
    controller hangs up when it may go.
    """

    session: int
    note: str
    soon: bool = False
    idle: bool = False


class CheckpointFolder(msgspec.Struct, frozen=True, omit_defaults=True):
    """The saved work of one job on a node: the name of its folder, and what is in it."""

    name: str
    files: int
    size_bytes: int
    changed_s: float


class CheckpointAnswer(FromAgent, frozen=True, tag="checkpoint-answer"):
    """The answer to ``ListCheckpoints``, ``NoteCheckpoint`` and ``DropCheckpoint``."""

    request: int
    folders: tuple[CheckpointFolder, ...] = ()
    error: str = ""


class NewKey(FromAgent, frozen=True, tag="new-key"):
    """The answer to ``RenewKey``: the digest of a key that the node has made and put on disk."""

    request: int
    digest: str


class ReadBundle(FromAgent, frozen=True, tag="read-bundle"):
    """The agent asks for a piece of a working folder that it does not have yet."""

    request: int
    digest: str
    offset: int


class Welcome(ToAgent, frozen=True, tag="welcome"):
    """Taken in. An agent that is cut off for ``lease_s`` ends its work (0: never)."""

    session: int
    cluster: str
    lease_s: float = 0.0
    beat_s: float = 0.0
    #: What the controller speaks; 0: it does not say.
    protocol: int = 0
    #: The newest event on its disk when it was started; 0: it does not say.
    seq: int = 0
    #: Which start that was, by a number that no other has.
    run: int = 0
    #: How often it wants to hear what is measured; 0: never.
    measure_s: float = 0.0
    #: The hello that it answers, by its ``greeting``; an older controller says none.
    answers: int = 0


class BeatSeen(ToAgent, frozen=True, tag="beat-seen"):
    """The answer to ``Beat``: the agent that sent it is trusted for another lease."""

    session: int
    number: int


class SessionRefused(ToAgent, frozen=True, tag="refused"):
    """The session cannot be: wrong protocol, a name in use. Dialling again will not help soon."""

    reason: str


class Desired(ToAgent, frozen=True, tag="desired"):
    """The set of attempts that should live, or what changed in it.

    In a delta ``gone`` lists attempts that are no longer wanted: stop what is alive, forget what
    has ended. With ``full`` everything that is not in ``attempts`` is gone.
    """

    session: int
    number: int
    attempts: tuple[Wanted, ...]
    gone: tuple[str, ...] = ()
    full: bool = False
    #: The newest event on the controller's disk: its record never gets shorter.
    seq: int = 0


class ListCheckpoints(ToAgent, frozen=True, tag="list-checkpoints"):
    """What lies in the folder of checkpoints; with ``names`` only these, and their sizes."""

    request: int
    root: str
    names: tuple[str, ...] = ()


class NoteCheckpoint(ToAgent, frozen=True, tag="note-checkpoint"):
    """Write what a job reported beside its folder, and drop what is no longer kept of it."""

    request: int
    saved: Saved
    body: bytes
    drop: tuple[str, ...] = ()


class DropCheckpoint(ToAgent, frozen=True, tag="drop-checkpoint"):
    """Remove the saved work of a job, its copy in the store too."""

    request: int
    saved: Saved


class RenewKey(ToAgent, frozen=True, tag="renew-key"):
    """The node shall have a new key; the one before is good until the controller knows it."""

    request: int


class BundlePart(ToAgent, frozen=True, tag="bundle-part"):
    """The answer to ``ReadBundle``; ``size`` is the length of the whole."""

    request: int
    body: bytes = b""
    size: int = 0
    error: str = ""


CheckpointOrder = ListCheckpoints | NoteCheckpoint | DropCheckpoint
#: Answers to one who asked; they concern nobody else.
AgentAnswer = LogPart | LogFound | CheckpointAnswer | NewKey
AgentMessage = (
    Hello
    | Observed
    | Beat
    | Resized
    | DeviceUse
    | Measured
    | Farewell
    | LogPart
    | LogFound
    | TerminalOutput
    | TunnelOutput
    | CheckpointAnswer
    | NewKey
    | ReadBundle
)
ControllerMessage = (
    Welcome
    | SessionRefused
    | BeatSeen
    | Desired
    | ReadLog
    | SearchLog
    | OpenTerminal
    | TerminalInput
    | CloseTerminal
    | OpenTunnel
    | TunnelInput
    | CloseTunnel
    | SendSignal
    | WriteRemark
    | StartBeside
    | CheckpointOrder
    | RenewKey
    | BundlePart
)

_encoder = msgspec.msgpack.Encoder()
_from_agent: msgspec.msgpack.Decoder[AgentMessage] = msgspec.msgpack.Decoder(AgentMessage)
_to_agent: msgspec.msgpack.Decoder[ControllerMessage] = msgspec.msgpack.Decoder(ControllerMessage)

encode = _encoder.encode
decode_from_agent = _from_agent.decode
decode_to_agent = _to_agent.decode
