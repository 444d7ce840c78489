"""Who asks and where jobs wait: queues, groups, projects, reservations, tokens."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rota.core.states import QueueState


class Access(StrEnum):
    """What somebody may do. Each one includes the ones below it."""

    ADMIN = "admin"
    OPERATOR = "operator"
    USER = "user"
    VIEWER = "viewer"


class Actor(msgspec.Struct, frozen=True):
    """Who is asking: the kernel's word on a local socket, a token's over the network."""

    user: str
    access: Access
    via: str = "local"


class Queue(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a job waits. ``max_running`` of 0 means no cap."""

    name: str
    priority: int = 50
    max_running: int = 0
    state: QueueState = QueueState.ACTIVE
    project: str = ""


class Group(msgspec.Struct, frozen=True, omit_defaults=True):
    """A named set of one user's jobs with a cap on how many run at once (0: none)."""

    name: str
    owner: str
    max_concurrent: int = 0


class Project(msgspec.Struct, frozen=True, omit_defaults=True):
    """An account in a tree; shares, quotas and usage hang on it."""

    name: str
    parent: str = ""
    shares: int = 1


class Reservation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who may use which devices of a node from when to when."""

    id: int
    owner: str
    start_s: float
    end_s: float
    node: str = ""
    devices: tuple[int, ...] = ()


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """A network credential. Only the digest of the secret is kept."""

    id: str
    digest: str
    user: str
    access: Access
    created_s: float
    note: str = ""
    expires_s: float = 0.0
