"""The bodies of requests about where jobs wait: queues and groups."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from rota.api.bodies.request_fields import Short, Whole, says
from rota.api.bodies.requests import Strict
from rota.core.facts.states import QueueState


class QueueRequest(Strict):
    """A queue as it shall be; a cap of 0 means none."""

    priority: Annotated[
        int, Meta(ge=0, le=100), says("Jobs of queues with a higher one come first")
    ] = 50
    max_running: Annotated[Whole, says("Jobs of it that run at once")] = 0
    state: QueueState = QueueState.ACTIVE
    project: Annotated[Short, says("The project that it belongs to")] = ""
    max_per_user: Annotated[Whole, says("Of one user at once")] = 0
    max_per_project: Annotated[Whole, says("Of one project at once")] = 0
    preempts: Annotated[bool, says("Its jobs may take room from less urgent ones")] = True
    preemptible: Annotated[bool, says("Its jobs may have to give way")] = True
    hours: Annotated[
        Short,
        says("When its jobs may start: `mon-fri 8:00-18:00, sat 10:00-14:00`; empty: always"),
    ] = ""
    zone: Annotated[Short, says("On whose clock, such as `Europe/Berlin`; empty: UTC")] = ""


class QueuePatch(Strict):
    """What shall change of a queue. Absent fields stay as they are."""

    priority: Annotated[int, Meta(ge=0, le=100)] | None = None
    max_running: Whole | None = None
    state: QueueState | None = None
    project: Short | None = None
    max_per_user: Whole | None = None
    max_per_project: Whole | None = None
    preempts: bool | None = None
    preemptible: bool | None = None
    hours: Short | None = None
    zone: Short | None = None


class GroupRequest(Strict):
    """How many jobs of a group may run at once; 0 lifts the cap."""

    max_concurrent: Whole
