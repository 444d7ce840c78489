"""Care: how the machines do, who closed which and why, what needs attention, who did what."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rota.api.auth import require
from rota.api.site.node_keys import pending_views
from rota.api.watch.status import head_views
from rota.heads import GONE_S
from rota.hostlist import natural
from rota.web.views.now import shown_state

if TYPE_CHECKING:
    from rota.api.watch.status import HeadView
    from rota.core.facts.node import Node
    from rota.web.views.asked import PageRequest

TEMPLATE, RIGHT = "care", "operate"
OK, WARN, FAIL = "ok", "warn", "fail"
DISK_FAIL_MIB, DISK_WARN_MIB = 100, 1024


class CareFinding(NamedTuple):
    """How it is, what was looked at, what was seen, what to do."""

    level: str
    what: str
    seen: str
    advice: str = ""


class NodeCare(msgspec.Struct, omit_defaults=True):
    """A node as its keeper sees it. Times are seconds since 1970."""

    name: str
    state: str
    drained: bool
    connected: bool
    version: str
    heard_s: float
    jobs: int
    gpus: int
    system: str
    address: str
    note: str = ""
    engine: str = ""
    #: Who drained it; ``rota``: it was quarantined, or a device of it was.
    by: str = ""
    #: Some of its devices get no jobs until it is resumed.
    quarantined: bool = False


async def words(asked: PageRequest) -> dict[str, Any]:
    return {}


async def care(asked: PageRequest) -> dict[str, Any]:
    """Every node, nodes that wait for approval, and what was found out about the service."""
    require(asked.actor, RIGHT)
    cluster = asked.cluster
    names = sorted(cluster.nodes, key=natural)
    machines = [_machine(asked, cluster.nodes[name]) for name in names]
    return {
        "now_s": asked.host.clock.now_s(),
        "items": machines,
        "heads": head_views(asked.context),
        "pending": pending_views(cluster),
        "findings": [finding._asdict() for finding in findings(asked, machines)],
    }


def _machine(asked: PageRequest, node: Node) -> NodeCare:
    session = asked.host.sessions.by_node.get(node.name)
    return NodeCare(
        name=node.name,
        state=shown_state(node),
        drained=node.drained,
        connected=session is not None,
        version=session.version if session is not None else "",
        heard_s=_heard_s(asked, node) if session is not None else node.seen_s,
        jobs=len({asked.cluster.live.where[uid][0] for uid in node.live}),
        gpus=len(node.spec.devices),
        system=node.spec.system,
        address=node.spec.address,
        note="; ".join(filter(None, (node.note, *node.spec.remarks))),
        engine=node.spec.engine,
        by=node.drained_by or ("rota" if node.quarantined else ""),
        quarantined=bool(node.quarantined),
    )


def _heard_s(asked: PageRequest, node: Node) -> float:
    """An agent on our own machine does not beat: while it is connected it is there."""
    silent_s = asked.host.sessions.silent_s(node.name) if node.lease_s else 0.0
    return asked.host.clock.now_s() - silent_s


def findings(asked: PageRequest, machines: list[NodeCare]) -> list[CareFinding]:
    """What ``rota doctor`` would say of the service itself."""
    host, settings = asked.host, asked.context.settings
    found = [
        CareFinding(FAIL, "database", host.trouble, "see the log of the controller")
        if host.trouble
        else CareFinding(OK, "database", settings.database.partition("://")[0] or "ready")
    ]
    if host.warning:
        found.append(CareFinding(FAIL, "nodes", host.warning))
    found += _disk(settings.database)
    found += _heads(head_views(asked.context))
    away = [machine.name for machine in machines if not machine.connected and not machine.engine]
    seen = f"{len(machines) - len(away)} of {len(machines)} connected"
    advice = f"look at {', '.join(away[:5])}" if away else ""
    found.append(CareFinding(WARN if away else OK, "agents", seen, advice))
    old = sorted({m.version for m in machines if m.version} - {settings.version})
    if old:
        seen = f"agents of {', '.join(old)}, controller {settings.version}"
        found.append(CareFinding(WARN, "versions", seen, "install the same on every node"))
    else:
        found.append(CareFinding(OK, "versions", settings.version))
    return found


def _heads(heads: list[HeadView]) -> list[CareFinding]:
    """Whether one of the heads would take over, where there are several."""
    if not heads:
        return []
    waiting = [
        head.url for head in heads if not head.leads and head.silent_s <= GONE_S and not head.unfit
    ]
    seen = f"{len(waiting)} of {len(heads) - 1} stand by"
    if not waiting:
        return [CareFinding(WARN, "heads", seen, "nobody would take over: rota up --standby")]
    return [CareFinding(OK if len(waiting) == len(heads) - 1 else WARN, "heads", seen)]


def _disk(database: str) -> list[CareFinding]:
    """Only where the database is a file of this machine."""
    folder = os.path.dirname(database)
    if not os.path.isdir(folder):
        return []
    free_mib = shutil.disk_usage(folder).free >> 20
    seen = f"{free_mib / 1024:.1f} GiB free for the database"
    if free_mib < DISK_FAIL_MIB:
        return [CareFinding(FAIL, "disk", seen, "make room: submits are refused when it is full")]
    level = WARN if free_mib < DISK_WARN_MIB else OK
    return [CareFinding(level, "disk", seen, "make room soon" if level == WARN else "")]


FEEDS = {"care": care}
