"""What happened to queues, projects, users, reservations, promises and tokens."""

from __future__ import annotations

from rota.core.facts.event import Event
from rota.core.facts.site.outer import Outer
from rota.core.facts.site.pilot import Pilot
from rota.core.facts.tenant import Group, Project, Queue, Reservation, Token, User


class QueueSet(Event, frozen=True, tag="queue-set"):
    queue: Queue


class QueueRemoved(Event, frozen=True, tag="queue-removed"):
    queue: str


class GroupSet(Event, frozen=True, tag="group-set"):
    group: Group


class ProjectSet(Event, frozen=True, tag="project-set"):
    project: Project


class ProjectRemoved(Event, frozen=True, tag="project-removed"):
    project: str


class UserSet(Event, frozen=True, tag="user-set"):
    user: User


class UserRemoved(Event, frozen=True, tag="user-removed"):
    user: str


class UsageForgotten(Event, frozen=True, tag="usage-forgotten"):
    """What an account had used up to here no longer counts; what still runs does when it ends."""

    user: str
    project: str


class PilotSet(Event, frozen=True, tag="pilot-set"):
    pilot: Pilot


class PilotRemoved(Event, frozen=True, tag="pilot-removed"):
    """No more are asked for, and those that are there go."""

    pilot: str


class QuotaProviderSet(Event, frozen=True, tag="quota-provider-set"):
    """Who has quotas outside of Rota; what another one said no longer counts. Empty: nobody."""

    provider: str


class QuotasSeen(Event, frozen=True, tag="quotas-seen"):
    """What a provider says of projects, as far as it is new; ``gone`` are no longer asked for."""

    outers: tuple[Outer, ...] = ()
    gone: tuple[str, ...] = ()


class QuotaReached(Event, frozen=True, tag="quota-reached"):
    """A user or a project uses ``level`` per cent of a limit, and it is worth a word."""

    level: int
    note: str
    user: str = ""
    project: str = ""


class ReservationSet(Event, frozen=True, tag="reservation-set"):
    reservation: Reservation


class ReservationRemoved(Event, frozen=True, tag="reservation-removed"):
    reservation: int


class DeadlineMissed(Event, frozen=True, tag="deadline-missed"):
    """The moment has passed by which the job should have been done, and it is not."""

    job: int


class PromiseBroken(Event, frozen=True, tag="promise-broken"):
    """A job cannot be done by its deadline any more, though that was promised."""

    job: int
    note: str = ""


class TokenMade(Event, frozen=True, tag="token-made"):
    token: Token


class TokenRevoked(Event, frozen=True, tag="token-revoked"):
    token: str
