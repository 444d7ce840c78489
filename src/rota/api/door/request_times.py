"""How long requests take until their answer begins, by method, kind of path and status."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rota.api.asgi import API

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from rota.api.asgi import Scope, Send
    from rota.api.context import Context

#: What paths of the API begin with, and what is served beside it; anything else is ``other``, so
#: that nobody makes series by asking for what does not exist.
ROUTES = frozenset(
    {
        *("jobs", "arrays", "nodes", "gpus", "queues", "queue", "projects", "users", "usage"),
        *("events", "status", "stats", "policy", "reservations", "topology", "tokens", "quotas"),
        *("groups", "clusters", "pilots", "audit", "bundles", "secrets", "metrics", "report"),
        *("healthz", "readyz", "docs", "slurm", "agents", "notify", "allocations"),
        *("checkpoints", "endpoints", "failover", "gpu", "plan", "pools", "vdcs", "web"),
    }
)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})


def timed(context: Context, scope: Scope, send: Send) -> Send:
    """The same, with the time noted when the answer begins."""
    began_s = time.perf_counter()

    async def noting(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            method = scope["method"]
            note_time(context, method, route_of(scope["path"]), message["status"], began_s)
        await send(message)

    return noting


def route_of(path: str) -> str:
    """``jobs`` of ``/api/v1/jobs/12/why``."""
    first = path.removeprefix(API).lstrip("/").partition("/")[0].partition(":")[0]
    return first if first in ROUTES else "other"


def note_time(context: Context, method: str, route: str, status: int, began_s: float) -> None:
    method = method if method in _METHODS else "other"
    taken_s = time.perf_counter() - began_s
    meters = context.host.meters
    meters.http.labels(method, route, f"{status // 100}xx").observe(taken_s)
    meters.span("http", taken_s, method=method, route=route, status=status)
