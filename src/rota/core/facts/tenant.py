"""Tenants, and where their jobs wait: queues, groups, projects, reservations, tokens."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rota.core.facts.node import Allocation
from rota.core.facts.states import QueueState


class Access(StrEnum):
    """What a user may do. Each one includes the ones below it.

    ``agent`` stands apart: nodes join with it, and it is good for nothing else.
    """

    ADMIN = "admin"
    OPERATOR = "operator"
    USER = "user"
    VIEWER = "viewer"
    AGENT = "agent"


#: How an actor came in for whom the kernel vouches.
LOCAL = "local"
#: How an actor came in who showed a token, with the token's id behind it.
VIA_TOKEN = "token "


class Actor(msgspec.Struct, frozen=True):
    """The user that asks: the kernel's word on a local socket, a token's over the network."""

    user: str
    access: Access
    via: str = LOCAL
    #: A job that asks for itself: it may less than its user. 0: a person or a program of one.
    job: int = 0
    #: Where the caller is, over the network; empty on a local socket.
    address: str = ""
    #: A token that is for jobs of one project only; empty: for all that its user may do.
    project: str = ""

    @property
    def token(self) -> str:
        """The id of the token that was shown; empty: none was."""
        return self.via.removeprefix(VIA_TOKEN) if self.via.startswith(VIA_TOKEN) else ""


class Queue(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a job waits. A cap of 0 means no cap."""

    name: str
    priority: int = 50
    max_running: int = 0
    state: QueueState = QueueState.ACTIVE
    project: str = ""
    max_per_user: int = 0
    max_per_project: int = 0
    #: Whether its jobs may take room from jobs of lower priority, and may have it taken.
    preempts: bool = True
    preemptible: bool = True
    #: When its jobs may start, such as ``mon-fri 8:00-18:00``, on the clock of a zone; empty:
    #: always. The controller says whether it is outside of them, and when that changes next.
    hours: str = ""
    zone: str = ""
    outside: bool = False
    turns_s: float = 0.0

    @property
    def starts_jobs(self) -> bool:
        return self.state in (QueueState.ACTIVE, QueueState.DRAINING) and not self.outside


class Group(msgspec.Struct, frozen=True, omit_defaults=True):
    """A named set of one user's jobs with a cap on how many run at once (0: none)."""

    name: str
    owner: str
    max_concurrent: int = 0


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """Ceilings on what may be held or waiting at once; None: no ceiling."""

    jobs: int | None = None
    queued: int | None = None
    cpu_milli: int | None = None
    memory_mib: int | None = None
    #: Thousandths of devices, as in accounts.
    device_milli: int | None = None
    #: Device-hours within ``Quota.period_s``.
    device_hours: float | None = None
    #: Money within the same period, by the prices of the policy.
    cost: float | None = None


UNLIMITED = Limits()


class Quota(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an account may hold.

    ``hard`` is never exceeded. Beyond ``soft`` an account *borrows*: only while no account under
    its own soft limit wants the room, and what was borrowed can be reclaimed. ``types`` are further
    hard limits per type of job (``training``, ``inference``, ``workflow``).
    """

    hard: Limits = UNLIMITED
    soft: Limits = UNLIMITED
    types: dict[str, Limits] = {}
    #: Whether more than ``soft`` may be borrowed at all.
    borrow: bool = True
    period_s: int = 30 * 86400


NO_QUOTA = Quota()


class Project(msgspec.Struct, frozen=True, omit_defaults=True):
    """An account in a tree; shares, quotas and usage hang on it."""

    name: str
    parent: str = ""
    shares: int = 1
    quota: Quota = NO_QUOTA
    #: Limits on record that are switched off; while they are, ``quota`` is empty.
    unenforced: Quota = NO_QUOTA
    #: The users whose jobs may count for it and for those below it; empty: those of the project
    #: above it, and without one everybody.
    members: tuple[str, ...] = ()


class User(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user that submits. Without a record it has one share and the default quota.

    The record with the empty name holds the defaults of all users without one, and of those whose
    record says nothing of it.
    """

    name: str
    shares: int = 1
    quota: Quota = NO_QUOTA
    #: Whether shares and quota are the user's own; else they are as the defaults say.
    own_shares: bool = True
    own_quota: bool = True
    #: What the user may do on the local socket, where the kernel vouches for who it is.
    role: Access | None = None


class Reservation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which user or project has which devices or nodes, from when to when.

    Either whole ``nodes``, or ``devices`` of one node by index, or ``device_count`` devices of a
    type wherever they are (on ``nodes`` if given). Without ``owner`` and ``project`` it is a
    maintenance window: no job runs there.
    """

    id: int
    owner: str
    start_s: float
    end_s: float
    node: str = ""
    devices: tuple[int, ...] = ()
    project: str = ""
    nodes: tuple[str, ...] = ()
    device_count: int = 0
    device_type: str = ""
    note: str = ""
    #: The time zone that it was made in, for showing it again.
    zone: str = ""
    #: Kept for this very job, which uses these devices and no others; 0: for an owner.
    job: int = 0
    #: What the job was promised at its submit, which it may use or leave; empty: no promise.
    room: tuple[Allocation, ...] = ()

    def admits(self, user: str, project: str, job: int = 0) -> bool:
        """Whether a job of this user and project may use it."""
        if self.job:
            return self.job == job
        return bool(self.owner and self.owner == user) or bool(
            self.project and self.project == project
        )


class Secret(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that its user's jobs find as a variable, if they ask for it; sealed with a key."""

    user: str
    name: str
    sealed: bytes
    set_s: float

    @property
    def key(self) -> str:
        """Unique: a name has no blank."""
        return f"{self.name} {self.user}"


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """A network credential. Only the digest of the secret is kept.

    One with the access ``agent`` lets nodes join; one that names a ``node`` is the key of that
    node, and speaks for no other name.
    """

    id: str
    digest: str
    user: str
    access: Access
    created_s: float
    note: str = ""
    expires_s: float = 0.0
    #: How many more nodes may join with it; None: any number.
    uses: int | None = None
    #: Of a join token: its nodes wait for an operator's word. Of a node's key: this one waits.
    approve: bool = False
    #: The node that this is the key of, and the id of the token that it joined with.
    node: str = ""
    joined: str = ""
    #: It is for jobs of this project and for nothing else; the project's quota is its budget.
    project: str = ""
    #: The token that its user made it with: it ends with that one.
    by: str = ""
    #: Its user made it by the role that the user had: it never gives more than that role does now.
    by_role: bool = False

    def has_expired(self, now_s: float) -> bool:
        return 0 < self.expires_s <= now_s
