"""What the agent's state machine says and hears: plain values, so that any host can carry them.

The live host turns commands into JSON lines for the keeper and events back; a simulated world
does the same with a virtual keeper. Both keep the keeper's promises:

* an attempt that the keeper knows is never started again: a repeated ``Spawn`` is answered with
  what became of it;
* ``KeeperAll`` comes first on every connection and lists everything not forgotten;
* every ``Spawn`` is answered by ``Began`` and later ``Gone``, or by ``Gone`` alone;
* ``Seek`` is answered like a repeated ``Spawn``; an attempt that the keeper does not know is looked
  for among all processes of the node: what lives is in its care from then on, else it is lost;
* ``GiveUp`` ends a start whose program has not begun, and does nothing once it has;
* ``Signal`` goes to every process of the attempt; for an unknown or ended one it does nothing;
* a note given with a ``Signal`` comes back in ``Gone``, even if the agent died in between;
* ``Forget`` drops ended attempts and leaves others alone.
"""

from __future__ import annotations

import msgspec

from rota.core.facts.gpu_use import GpuFigures
from rota.core.facts.health import Health
from rota.core.facts.states import Cause
from rota.rpc.messages import Launch, Observed, Saved


class Keep(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an agent that restarts must know of an attempt: the keeper remembers it for us."""

    grace_s: float = 30.0
    memory_mib: int = 0
    #: Saved work that must be copied before its end is told.
    saved: Saved | None = None
    #: Ports on this node that it has by name.
    ports: dict[str, int] = {}
    #: Where it must answer.
    health: Health | None = None
    #: The devices that it has.
    devices: tuple[int, ...] = ()
    #: Whose it is; None: the keeper's own, or not known.
    user: str | None = None

    @classmethod
    def of(cls, launch: Launch) -> Keep:
        """What is known of it before it is started."""
        user = launch.user or None
        return cls(launch.grace_s, launch.memory_mib, devices=launch.devices, user=user)


class Spawn(msgspec.Struct, frozen=True):
    """Start the attempt, once, whatever happens."""

    uid: str
    launch: Launch


class Seek(msgspec.Struct, frozen=True):
    """It was started, and the keeper does not know it: its journal was lost."""

    uid: str
    keep: Keep


class GiveUp(msgspec.Struct, frozen=True):
    """The attempt shall end, and may not have begun: there is no program to give a grace to."""

    uid: str


class Signal(msgspec.Struct, frozen=True):
    """Send a signal to all processes of the attempt. ``note`` says why it is being killed.

    ``asks`` says that it is a request to end, even if the signal as such is none: when the first
    process dies of it, the rest may finish.
    """

    uid: str
    signal: int
    note: str = ""
    asks: bool = False


class Tell(msgspec.Struct, frozen=True):
    """The world of a gang has changed: into its file with it, and a signal if that is news."""

    uid: str
    world: bytes


class Forget(msgspec.Struct, frozen=True):
    """The ends of these attempts are on the controller's disk, or nobody wants to know."""

    uids: tuple[str, ...]


class Redial(msgspec.Struct, frozen=True):
    """The session is broken: close it and dial again."""

    reason: str


class KeeperEvent(msgspec.Struct, frozen=True, tag_field="ev"):
    """Base of what the keeper says."""


class Began(KeeperEvent, frozen=True, tag="started"):
    """A process exists. ``start`` (ticks since boot) tells it from a later one with its pid."""

    uid: str
    pid: int
    start: int
    started_s: float
    #: What its engine calls it, and the machine of the engine that it runs on.
    external: str = ""
    where: str = ""


class Queued(KeeperEvent, frozen=True, tag="waits"):
    """An engine has taken the attempt and lets it wait, for a reason in its own words."""

    uid: str
    reason: str
    external: str = ""
    #: The machine that it was given; empty: it waits for one.
    where: str = ""


class Gone(KeeperEvent, frozen=True, tag="ended"):
    """The first process has gone and nothing of the attempt is left.

    ``code`` is None after a signal and when there never was a process (``error`` says why) or
    nobody saw its end (``lost``). An ``error`` with a ``code`` is what a shell would report:
    127 for a command that was not found, 126 for one that cannot be executed. Without one,
    ``fault`` says for whose sake: ``job`` or ``node``.
    """

    uid: str
    started_s: float
    ended_s: float
    code: int | None = None
    signal: int = 0
    error: str = ""
    note: str = ""
    lost: bool = False
    maxrss_kb: int = 0
    cpu_s: float = 0.0
    #: What it made of its GPUs, where the agent measured it.
    gpu: GpuFigures | None = None
    #: For whose sake it could not be started: ``job`` or ``node``; empty: the error says.
    fault: str = ""
    #: Where an engine knows more than the exit status.
    cause: Cause | None = None
    external: str = ""
    where: str = ""


class KnownAttempt(msgspec.Struct, frozen=True):
    """One attempt in the keeper's full list: ``starting``, ``running`` or ``ended``."""

    uid: str
    phase: str
    keep: Keep = Keep()
    pid: int = 0
    start: int = 0
    started_s: float = 0.0
    ended_s: float = 0.0
    code: int | None = None
    signal: int = 0
    error: str = ""
    note: str = ""
    lost: bool = False
    maxrss_kb: int = 0
    cpu_s: float = 0.0
    gpu: GpuFigures | None = None
    #: Its processes were stopped where they are, and not told to go on since.
    suspended: bool = False
    fault: str = ""
    cause: Cause | None = None
    external: str = ""
    where: str = ""

    def end(self) -> Gone:
        """The same facts as the event that told of the end."""
        return Gone(
            uid=self.uid,
            started_s=self.started_s,
            ended_s=self.ended_s,
            code=self.code,
            signal=self.signal,
            error=self.error,
            fault=self.fault,
            cause=self.cause,
            external=self.external,
            where=self.where,
            note=self.note,
            lost=self.lost,
            maxrss_kb=self.maxrss_kb,
            cpu_s=self.cpu_s,
            gpu=self.gpu,
        )


class KeeperAll(KeeperEvent, frozen=True, tag="all"):
    """Everything that the keeper has not forgotten."""

    attempts: tuple[KnownAttempt, ...]
    protocol: int = 1
    pid: int = 0


AnyKeeperEvent = KeeperAll | Began | Gone
KeeperCommand = Spawn | Seek | GiveUp | Signal | Forget
Instruction = KeeperCommand | Tell | Observed | Redial
