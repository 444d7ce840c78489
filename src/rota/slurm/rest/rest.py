"""The paths of slurmrestd, ``/slurm/v0.0.38`` and ``/slurmdb/v0.0.38``, on the same records.

Who asks says so with ``X-SLURM-USER-TOKEN``, which is a token of Rota, or is known on the local
socket. Errors have slurmrestd's shape, because its clients read that.
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from rota.api.auth import Unauthenticated, require
from rota.api.door.front import read_body
from rota.core.facts.errors import Forbidden, RotaError
from rota.slurm.call.command import CommandFailed
from rota.slurm.call.list_turns import lists_of
from rota.slurm.call.people import knowing, users_of
from rota.slurm.formats.documents import DB_PLUGIN, PLUGIN, meta
from rota.slurm.formats.long_documents import long_text
from rota.slurm.rest import account_changes
from rota.slurm.rest import accounting as rest_accounting
from rota.slurm.rest import changes as rest_changes
from rota.slurm.rest import reading as rest_reading
from rota.slurm.rest.errors import RestRefusal, RestRequest, error_entry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rota.api.asgi import Receive, Scope, Send
    from rota.api.context import Context
    from rota.api.door.front import Identify
    from rota.core.facts.tenant import Actor

    Way = Callable[[RestRequest], Awaitable[dict[str, Any]]]

log = logging.getLogger("rota.slurm")

#: The versions that Slurm 22.05 serves. All get the documents of the last one, which has what
#: clients of the older ones look for.
VERSIONS = frozenset({"v0.0.36", "v0.0.37", "v0.0.38"})
BODY_MAX = 32 * 1024 * 1024
NO_PATH = "Unable find requested URL. Please view /openapi/v3 for API reference."
#: Method and path (a star for one word) -> the right that it needs, and who answers.
WAYS: dict[tuple[str, str], tuple[str, Way]] = {
    ("GET", "slurm/ping"): ("read", rest_reading.ping),
    ("GET", "slurm/diag"): ("read", rest_reading.diag),
    ("GET", "slurm/jobs"): ("read", rest_reading.jobs),
    ("GET", "slurm/job/*"): ("read", rest_reading.job),
    ("GET", "slurm/nodes"): ("read", rest_reading.nodes),
    ("GET", "slurm/node/*"): ("read", rest_reading.node),
    ("GET", "slurm/partitions"): ("read", rest_reading.partitions),
    ("GET", "slurm/partition/*"): ("read", rest_reading.partition),
    ("GET", "slurm/reservations"): ("read", rest_reading.reservations),
    ("GET", "slurm/reservation/*"): ("read", rest_reading.reservation),
    ("GET", "slurm/licenses"): ("read", rest_reading.licenses),
    ("POST", "slurm/job/submit"): ("submit", rest_changes.submit),
    ("POST", "slurm/job/*"): ("change", rest_changes.update),
    ("DELETE", "slurm/job/*"): ("change", rest_changes.cancel),
    ("GET", "slurmdb/jobs"): ("read", rest_accounting.jobs),
    ("GET", "slurmdb/job/*"): ("read", rest_accounting.job),
    ("GET", "slurmdb/associations"): ("read", rest_accounting.associations),
    ("GET", "slurmdb/association"): ("read", rest_accounting.association),
    ("GET", "slurmdb/accounts"): ("read", rest_accounting.accounts),
    ("GET", "slurmdb/account/*"): ("read", rest_accounting.account),
    ("GET", "slurmdb/users"): ("read", rest_accounting.users),
    ("GET", "slurmdb/user/*"): ("read", rest_accounting.user),
    ("GET", "slurmdb/qos"): ("read", rest_accounting.qos),
    ("GET", "slurmdb/qos/*"): ("read", rest_accounting.one_qos),
    ("POST", "slurmdb/accounts"): ("operate", account_changes.post_accounts),
    ("DELETE", "slurmdb/account/*"): ("operate", account_changes.delete_account),
    ("POST", "slurmdb/users"): ("operate", account_changes.post_users),
    ("DELETE", "slurmdb/user/*"): ("operate", account_changes.delete_user),
    ("POST", "slurmdb/associations"): ("operate", account_changes.post_associations),
    ("POST", "slurmdb/qos"): ("operate", account_changes.post_qos),
    ("DELETE", "slurmdb/qos/*"): ("operate", account_changes.delete_qos),
    ("GET", "slurmdb/tres"): ("read", rest_accounting.tres),
    ("GET", "slurmdb/clusters"): ("read", rest_accounting.clusters),
}


async def serve(
    context: Context, identify: Identify, scope: Scope, receive: Receive, send: Send
) -> None:
    """One request, answered in slurmrestd's words."""
    path = unquote(scope["path"]).strip("/")
    family, _, rest = path.partition("/")
    plugin = DB_PLUGIN if family == "slurmdb" else PLUGIN
    try:
        actor = _actor(identify, scope)
    except RotaError:
        actor = None
    if actor is None:
        await _send(send, 401, "Authentication failure", b"text/plain")
        return
    version, _, tail = rest.partition("/")
    found = _find(scope["method"], f"{family}/{tail}") if version in VERSIONS else None
    if found is None:
        await _send(send, 404, NO_PATH, b"text/plain")
        return
    right, way, name = found
    body = await read_body(receive, BODY_MAX)
    query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
    asked = RestRequest(context=context, actor=actor, name=name, query=query, body=body)
    async with lists_of(context, actor):
        status, text = await _answer(asked, right, way, plugin)
    await _send(send, status, text, b"application/json")


def _actor(identify: Identify, scope: Scope) -> Actor | None:
    """Slurm's header stands for ours."""
    headers = list(scope["headers"])
    tokens = [value for name, value in headers if name == b"x-slurm-user-token" and value]
    if tokens:
        headers = [pair for pair in headers if pair[0] != b"authorization"]
        headers.append((b"authorization", b"Bearer " + tokens[-1]))
    actor = identify({**scope, "headers": headers})
    if actor is None:
        raise Unauthenticated("a token is needed over the network: X-SLURM-USER-TOKEN")
    return actor


def _find(method: str, path: str) -> tuple[str, Way, str] | None:
    plain = path.rstrip("/")
    exact = WAYS.get((method, plain))
    if exact is not None:
        return *exact, ""
    head, _, name = plain.rpartition("/")
    starred = WAYS.get((method, f"{head}/*"))
    return None if starred is None or not name else (*starred, name)


async def _answer(
    asked: RestRequest, right: str, way: Way, plugin: dict[str, str]
) -> tuple[int, str]:
    """The document as text, whatever happens."""
    more: dict[str, Any] = {}

    async def told() -> str:
        return await long_text({"meta": meta(plugin), "errors": [], **await way(asked)})

    try:
        require(asked.actor, right)
        cluster = asked.context.host.cluster
        return 200, await knowing(told, lambda: users_of(cluster))
    except RestRefusal as refusal:
        status, entries, more = refusal.status, refusal.entries, refusal.more
    except Forbidden as error:
        status, entries = 500, [error_entry(str(error), 2002, "Access/permission denied")]
    except CommandFailed as failed:
        status, entries = 500, [error_entry(failed.answer.stderr.strip(), -1)]
    except RotaError as error:
        status, entries = 500, [error_entry(str(error), -1)]
    except Exception as error:
        number = secrets.token_hex(6)
        log.error("internal error %s in slurmrestd's paths", number, exc_info=error)
        status, entries = 500, [error_entry(f"internal error {number}", -1)]
    return status, await long_text({"meta": meta(plugin), "errors": entries, **more})


async def _send(send: Send, status: int, text: str, kind: bytes) -> None:
    body = text.encode()
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
