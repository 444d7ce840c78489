"""What every route works with: the host, the settings, and who is asking."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Request
from litestar.datastructures import State

from rota.api.auth import Identities
from rota.api.bodies.placing import CONTAINERS
from rota.api.bodies.repeated_submits import RepeatedSubmits
from rota.api.bodies.submission import Desk
from rota.api.collectors import Collector
from rota.api.gate import Gate
from rota.api.questions import Questions
from rota.api.rounds import Rounds
from rota.api.turns import EditTurns
from rota.api.unread import Unread
from rota.api.views.lookup import resolve_now
from rota.controller.agents.bundles import require_bundle
from rota.controller.chores.foretelling import Foretelling
from rota.controller.chores.measures import Measures
from rota.controller.chores.policy_guard import PolicyGuard
from rota.core.facts.tenant import Actor
from rota.settings.gpus import GpuSettings
from rota.settings.limits import UserLimits
from rota.settings.notify import Notify
from rota.settings.storage import Checkpoints

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from rota.api.bodies.pilot_requests import PilotStateRequest
    from rota.api.bodies.requests import Body
    from rota.controller.chores.elsewhere import Elsewhere
    from rota.controller.chores.outbox import Outbox
    from rota.controller.chores.quota_sync import QuotaSync
    from rota.controller.chores.reign import Reign
    from rota.controller.chores.saved_work import SavedWork
    from rota.controller.loop import Host

#: Where the front door leaves the actor for the routes behind it.
ACTOR = "rota.actor"

Asking = Request[Actor, Any, State]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the process knows about itself."""

    version: str
    url: str = ""
    #: Of the certificate, where it shows one.
    fingerprint: str = ""
    database: str = ""
    #: Its uid, and root, are admins on the local socket.
    own_uid: int = msgspec.field(default_factory=os.geteuid)
    quota_provider: str = "local"
    #: Sources of further metrics.
    collectors: tuple[Collector, ...] = ()
    #: Whom jobs may ask to be told, beside what the site itself wants to hear.
    notify: Notify = Notify()
    #: How much saved work may weigh, and how much of it is remembered.
    checkpoints: Checkpoints = Checkpoints()
    #: What one user may ask.
    limits: UserLimits = UserLimits()
    #: What follows from what is measured.
    gpus: GpuSettings = GpuSettings()
    #: Its machines are made up, and each answer says so.
    pretended: bool = False


class Context:
    """Shared by all routes of one app."""

    def __init__(self, host: Host, settings: Settings) -> None:
        #: Who tells others what happened; absent where nothing was set up to.
        self.outbox: Outbox | None = None
        #: Where jobs save their work; absent where there is no place for it.
        self.saved_work: SavedWork | None = None
        #: Who asks the inventory outside; absent where there is none.
        self.elsewhere: Elsewhere | None = None
        #: Who asks another program for its quotas; absent where Rota's own are all there is.
        self.quotas: QuotaSync | None = None
        #: What the heads that stand by are owed; absent where there are no other heads.
        self.reign: Reign | None = None
        self.attach(host, settings)
        #: Who went into which attempt, and when that was put on record.
        self.entered: dict[tuple[str, str, str], float] = {}
        #: How the allocations of each pilot fare, as its keeper told it last.
        self.pilots: dict[str, PilotStateRequest] = {}
        #: By job: whose it is, for the listeners to what happens.
        self.owners: dict[int, str] = {}
        #: Set when the server stops: streams and long polls end by themselves.
        self.closing = asyncio.Event()
        self.turns = EditTurns()
        self.rounds = Rounds()
        self.unread = Unread()

    def attach(self, host: Host, settings: Settings) -> None:
        """Serve this host from now on."""
        self.host, self.settings = host, settings
        self.identities = Identities(settings.own_uid)
        self.gate = Gate(settings.limits)
        #: Answers that take trials, in turns.
        self.questions = Questions(host)
        #: What agents measured lately.
        self.measures = Measures(host, self.settings.gpus)
        #: When jobs that wait will probably start.
        self.foretelling = Foretelling(host)
        #: Whether rules that were applied with a guard do what was foretold.
        self.guard = PolicyGuard(host)
        self.owners = {}
        self.desk = Desk(
            host.blobs.__contains__,
            host.clock.now_s,
            partial(resolve_now, host),
            self.settings.notify.target,
            lambda digest: require_bundle(host.links.bundles, digest),
            lambda: any(CONTAINERS in n.spec.labels for n in host.cluster.nodes.values()),
            host.secrets.get,
            host.secrets.vault,
            self.settings.limits,
        )
        self.repeated = RepeatedSubmits(self.desk)

    async def until_closing(self, work: Coroutine[Any, Any, None]) -> None:
        """Await something, but not longer than the server lives."""
        task = asyncio.ensure_future(work)
        closing = asyncio.ensure_future(self.closing.wait())
        try:
            await asyncio.wait({task, closing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
            task.cancel()


def context_of(request: Asking) -> Context:
    context: Context = request.app.state["context"]
    return context


def actor_of(request: Asking) -> Actor:
    actor: Actor = request.scope[ACTOR]  # type: ignore[literal-required]
    return actor


async def body_of(request: Asking, decode: Body) -> Any:  # noqa: ANN401 - what ``decode`` gives
    return decode(await request.body())
