"""Routes about Rota itself: status, the scheduler, counts of what waits and runs."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Literal

import msgspec
from litestar import Response, get, post

from rota.api.bodies.requests import Body, TriggerRequest
from rota.api.collectors import collected, figures_of
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.views.times import Moment, when
from rota.api.watch.metrics import gather, write_metrics
from rota.api.watch.tally import Tally
from rota.controller.commands.commands import Trigger
from rota.core.changes import events as ev
from rota.core.facts.errors import Conflict
from rota.core.facts.states import QueueState
from rota.core.facts.tenant import Access
from rota.core.words.presets import name_of

if TYPE_CHECKING:
    from rota.api.context import Context

_trigger = Body(TriggerRequest, optional=True)


class ControllerView(msgspec.Struct):
    pid: int
    url: str
    version: str
    uptime_s: float


class AgentView(msgspec.Struct):
    """The agent on the controller's machine; null where there is none."""

    pid: int | None
    node: str | None


class InventoryView(msgspec.Struct):
    """``state`` is `ok`, `silent` (its last answer stands) or `waiting` for its first answer."""

    url: str
    state: Literal["ok", "silent", "waiting"]
    answered_at: Moment | None
    problem: str
    #: How many of our GPUs others have, or are gone.
    elsewhere: int


class HeadView(msgspec.Struct):
    """One of the controllers that share the database."""

    url: str
    version: str
    leads: bool
    #: For how long it has said nothing; a head that is there speaks every second.
    silent_s: float = 0.0
    #: How many seconds behind one that stands by can be read; null: it cannot.
    lag_s: float | None = None
    #: By how much its wall clock is ahead of the database's, which all go by; null: not known.
    ahead_s: float | None = None
    #: Why it would not take over, in words; empty: it would, or it leads.
    unfit: str = ""


class HandOverView(msgspec.Struct):
    """Who takes over."""

    successor: str


class StatusView(msgspec.Struct):
    controller: ControllerView
    agent: AgentView
    jobs: dict[str, int]
    database: str
    nodes: int
    #: Who the caller is taken for.
    user: str
    access: Access
    #: The machines are made up, and nothing is executed.
    pretended: bool = False
    #: Something that people must know now, such as many nodes gone at once; empty: nothing.
    warning: str = ""
    #: The inventory of GPUs outside; null: none.
    inventory: InventoryView | None = None
    #: All heads, the one that leads first; empty where there is but one.
    heads: list[HeadView] = []


class SchedulerView(msgspec.Struct):
    policy: str
    quota_provider: str
    active_queues: int
    pending_jobs: int
    running_jobs: int


class TriggerView(msgspec.Struct):
    scheduled_count: int
    remaining_pending: int


class QueueStateView(msgspec.Struct):
    """How many jobs there are in each state, and in each band of priority while they wait."""

    states: dict[str, int]
    queued: int
    running: int
    bands: dict[str, int]


@get("/status", summary="Is Rota well, and what is it doing", opt={"right": "read"})
async def status(request: Asking) -> StatusView:
    """Counts of jobs are as of the last change, elements of arrays one by one."""
    context, actor = context_of(request), actor_of(request)
    host = context.host
    return StatusView(
        controller=ControllerView(
            pid=os.getpid(),
            url=context.settings.url,
            version=context.settings.version,
            uptime_s=round(host.clock.now_s() - host.started_s, 3),
        ),
        agent=_agent(context),
        jobs={state: count for state, count in host.cluster.count_states().items() if count},
        database=context.settings.database,
        nodes=len(host.cluster.nodes),
        user=actor.user,
        access=actor.access,
        pretended=context.settings.pretended,
        warning=host.warning or _quotas(context),
        inventory=_inventory(context),
        heads=head_views(context),
    )


def head_views(context: Context) -> list[HeadView]:
    """All heads, the one that leads first; none where there is but one."""
    reign = context.reign
    if reign is None:
        return []
    own = HeadView(context.settings.url, context.settings.version, True, ahead_s=reign.ahead_s)
    return [
        own,
        *(
            HeadView(
                url=head.url,
                version=head.version,
                leads=False,
                silent_s=round(silent_s, 1),
                lag_s=head.lag_s,
                ahead_s=head.ahead_s,
                unfit=reign.barred(head),
            )
            for head, silent_s in reign.others
        ),
    ]


@post(
    "/failover",
    summary="Hand over to a head that stands by",
    opt={"right": "administer", "errors": (409,)},
    status_code=202,
)
async def failover(request: Asking) -> HandOverView:
    """This controller ends in order; one that stands by takes over. For upgrades without a gap."""
    reign = context_of(request).reign
    if reign is None:
        raise Conflict("this Rota has one head; start it with 'rota up --standby' to have more")
    return HandOverView(reign.hand_over().url)


def _quotas(context: Context) -> str:
    """What people must know of a provider of quotas; empty: nothing."""
    if context.quotas is None or context.quotas.standing.state != "silent":
        return ""
    now = context.quotas.standing
    return (
        f"{now.provider}, which has the quotas of projects, does not answer since "
        f"{when(now.silent_s)}: {now.problem}; what it said last holds"
    )


def _inventory(context: Context) -> InventoryView | None:
    if context.elsewhere is None:
        return None
    now = context.elsewhere.standing
    return InventoryView(now.url, now.state, when(now.answered_s), now.problem, now.elsewhere)


def _agent(context: Context) -> AgentView:
    sessions = sorted(context.host.sessions.by_node.values(), key=lambda s: (s.link, s.node))
    if not sessions:
        return AgentView(None, None)
    return AgentView(sessions[0].pid or None, sessions[0].node)


@get("/queue", summary="How many jobs wait and run", opt={"right": "read"})
async def queue(request: Asking) -> QueueStateView:
    """By state, and by band: high from 75, low up to 25, normal in between."""
    tally = Tally(context_of(request).host.cluster)
    return QueueStateView(
        states=tally.states, queued=tally.pending, running=tally.active, bands=tally.bands
    )


@get("/jobs/scheduler/info", summary="The scheduler's rules and load", opt={"right": "read"})
async def scheduler(request: Asking) -> SchedulerView:
    """Policy and quota provider by name, and how much is waiting."""
    context = context_of(request)
    cluster = context.host.cluster
    tally = Tally(cluster)
    return SchedulerView(
        policy=name_of(cluster.policy),
        quota_provider=context.settings.quota_provider,
        active_queues=sum(q.state is QueueState.ACTIVE for q in cluster.queues.values()),
        pending_jobs=tally.pending,
        running_jobs=tally.active,
    )


@post(
    "/jobs/scheduler/trigger",
    summary="Look at every waiting job now",
    opt={"right": "trigger", "body": TriggerRequest, "errors": (429, 503)},
    status_code=200,
)
async def trigger(request: Asking) -> TriggerView:
    """Runs a pass over everything and says what it started. Never needed: changes wake it."""
    await body_of(request, _trigger)
    host = context_of(request).host
    subscription = host.watch.subscribe()
    try:
        await host.ask(Trigger(actor=actor_of(request)))
        started = set()
        while not subscription.queue.empty():
            event = subscription.queue.get_nowait().event
            if isinstance(event, ev.AttemptPlaced):
                started.add(event.job)
    finally:
        host.watch.unsubscribe(subscription)
    return TriggerView(len(started), Tally(host.cluster).pending)


@get("/metrics", summary="Numbers for Prometheus", opt={"right": "read", "produces": "text/plain"})
async def metrics(request: Asking) -> Response[str]:
    """The text format of Prometheus."""
    context = context_of(request)
    found = gather(context)
    text = (await asyncio.to_thread(write_metrics, found)).decode()
    collectors = context.settings.collectors
    if collectors:
        figures = figures_of(context.host.cluster, context.host.clock.now_s())
        text += await collected(collectors, figures)
    return Response(text, media_type="text/plain; version=0.0.4")


ROUTES = [status, failover, queue, scheduler, trigger]
ROOT_ROUTES = [metrics]
