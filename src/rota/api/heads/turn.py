"""When a controller process leads: at once, or, as one head of several, when its turn has come."""

from __future__ import annotations

import logging
import platform
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from rota import __version__
from rota.api.door.certificate import EVERYWHERE, wants_tls
from rota.api.door.sockets import url_of
from rota.api.heads import shared_keys
from rota.heads import BEAT_S
from rota.store.open import open_lookout, open_store

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable

    from rota.api.context import Context
    from rota.api.door.front import Front
    from rota.api.plan import ControllerPlan
    from rota.core.derived.ids import Ledger
    from rota.store.heads import HeadRecord
    from rota.store.sql import SqlStore

log = logging.getLogger("rota.controller")


class LeadingStart(NamedTuple):
    """What a process that leads begins with; where it stood by, it knows something already."""

    store: SqlStore
    #: How all jobs ended.
    ended: Ledger | None = None
    app: Front | None = None


async def first_turn(
    plan: ControllerPlan,
    folder: Path,
    sockets: list[socket.socket],
    stop: asyncio.Event,
    write_record: Callable[..., None],
) -> LeadingStart | None:
    """Once this process leads; None: it was told to stop before."""
    if not plan.standby:
        return LeadingStart(open_store(plan.database or str(folder / "rota.db")))
    # PostgreSQL comes with an extra.
    from rota.api.heads.standby import Standby, check

    check(plan)
    url = _known_as(plan, url_of(sockets[-1], scheme(plan)))
    standby = Standby(plan, folder, sockets, _head(url))
    if said := remark(plan):
        log.warning("%s", said)
    waits = partial(write_record, url, "", standby=True, remark=said)
    return await standby.wait(waits, stop)


def begin_reign(
    context: Context, plan: ControllerPlan, url: str, stop: asyncio.Event
) -> list[asyncio.Task[None]]:
    """What the head that leads owes those that stand by; there are none without ``standby``."""
    if not plan.standby:
        return []
    from rota.controller.chores.reign import Reign
    from rota.controller.chores.rounds import begin

    host = context.host
    shared_keys.share(Path(plan.state_dir), host.secrets.vault, host.store)
    head = _head(_known_as(plan, url))
    context.reign = Reign(host, open_lookout(plan.database), head, stop)
    return [begin("leading", context.reign.run, BEAT_S)]


def remark(plan: ControllerPlan) -> str:
    """What heads that share a database should share, too; empty: they do."""
    if not plan.standby or plan.bundles.path:
        return ""
    return (
        "each head keeps packed working folders for itself: jobs that wait with one are held after"
        " a take-over; set bundles.path to a folder that all heads see"
    )


def scheme(plan: ControllerPlan) -> str:
    return "https" if wants_tls(plan.tls, plan.host) else "http"


def _known_as(plan: ControllerPlan, url: str) -> str:
    """An address that says something to other machines."""
    if plan.host not in EVERYWHERE:
        return url
    name = next(iter(plan.tls_names), platform.node())
    return f"{scheme(plan)}://{name}:{urlsplit(url).port}"


def _head(url: str) -> Callable[[int, int], HeadRecord]:
    """What this head says of itself."""
    from rota.store.heads import own_record

    return partial(own_record, url, __version__)
