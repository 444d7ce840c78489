"""Edits that know what they change.

Every record that admins edit has a tag, made of what can be edited of it: counters and states that
change by themselves are no part of it. Reading gives the tag (``ETag``), an edit that names another
one (``If-Match``) is refused. An edit has its turn (``turns``) from the look at the tag on.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rota.api.asgi import API
from rota.api.auth import require
from rota.api.bodies.queue_requests import QueueRequest
from rota.api.context import ACTOR
from rota.api.errors import EditedMeanwhile
from rota.api.site.accounts import EVERYBODY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping

    from rota.api.asgi import App, Receive, Scope, Send
    from rota.api.context import Context
    from rota.core.cluster import Cluster

TAG_LENGTH = 20
_encode = msgspec.json.Encoder(order="sorted").encode


class Edited(NamedTuple):
    """What a path edits: its kind, and by the path's last part what of it can be edited."""

    kind: str
    record: Callable[[Cluster, Any], object]


def _fields(record: object, names: tuple[str, ...]) -> object:
    return None if record is None else [getattr(record, name) for name in names]


def _queue(cluster: Cluster, name: str) -> object:
    return _fields(cluster.queues.get(name), QueueRequest.__struct_fields__)


def _node(cluster: Cluster, name: str) -> object:
    said = ("labels", "taints", "closed", "ignored_pids", "drained", "migrates", "deadline_s")
    return _fields(cluster.nodes.get(name), said)


def _user(cluster: Cluster, name: str) -> object:
    known = "" if name == EVERYBODY else name
    return (known in cluster.accounts.users, cluster.accounts.user(known))


def _project(cluster: Cluster, name: str) -> object:
    return cluster.accounts.projects.get(name)


_NODE = Edited("node", _node)
_PROJECT = Edited("project", _project)

#: Path below the prefix -> what it edits.
EDITED: Mapping[str, Edited] = {
    "/queues/{name}": Edited("queue", _queue),
    "/groups/{name}": Edited("group", lambda cluster, name: cluster.groups.get(name)),
    "/projects/{name}": _PROJECT,
    "/queues/quota/{project_id}": _PROJECT,
    "/users/{name}": Edited("user", _user),
    "/policy": Edited("policy", lambda cluster, _: cluster.policy),
    "/reservations/{reservation_id}": Edited(
        "reservation", lambda cluster, number: cluster.reservations.get(number)
    ),
    "/nodes/{name}": _NODE,
    "/nodes/{name}/drain": _NODE,
    "/nodes/{name}/cordon": _NODE,
    "/nodes/{name}/resume": _NODE,
    "/vdcs/{name}": Edited("vdc", lambda cluster, name: cluster.policy.vdc(name)),
    "/pilots/{name}": Edited("pilot", lambda cluster, name: cluster.pilots.get(name)),
}


class Editing:
    """Around the routes: gives tags with answers, and holds edits to the tags that they name."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        edited = EDITED.get(scope.get("path_template", "").removeprefix(API))
        if edited is None:
            await self._app(scope, receive, send)
            return
        name = next(iter(scope["path_params"].values()), "")
        context: Context = scope["litestar_app"].state["context"]

        def tag() -> str:
            return tag_of(edited.record(context.host.cluster, name))

        async def tagged(message: MutableMapping[str, Any]) -> None:
            fine = message["type"] == "http.response.start" and message["status"] < 300
            if fine and (now := tag()):
                message["headers"] = [*message.get("headers", ()), (b"etag", now.encode())]
            await send(message)

        if scope["method"] == "GET":
            await self._app(scope, receive, tagged)
            return
        require(scope[ACTOR], scope["route_handler"].opt["right"])
        async with context.turns.of(edited.kind, name):
            _refuse_changed(f"{edited.kind} {name}".strip(), scope["headers"], tag())
            await self._app(scope, receive, tagged)


def tag_of(record: object) -> str:
    """Empty: there is no such record."""
    return "" if record is None else f'"{sha256(_encode(record)).hexdigest()[:TAG_LENGTH]}"'


def _refuse_changed(what: str, headers: list[tuple[bytes, bytes]], now: str) -> None:
    for header, text in headers:
        wanted = [word.strip() for word in text.decode("latin-1").split(",")]
        if header == b"if-match" and not (now and ("*" in wanted or now in wanted)):
            why = f"was changed meanwhile and is {now}" if now else "does not exist"
            raise EditedMeanwhile(
                f"If-Match: {what} {why}; read it again",
                field="If-Match",
                value=text.decode("latin-1"),
                allowed=now or "none: there is nothing to match",
            )
        if header == b"if-none-match" and now and ("*" in wanted or now in wanted):
            raise EditedMeanwhile(
                f"If-None-Match: there is a {what} already",
                field="If-None-Match",
                value=text.decode("latin-1"),
                allowed="a name that is not taken",
            )
