"""The app: every route, what guards it, and how errors leave it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar import Litestar, Response, Router
from litestar.datastructures import State
from litestar.exceptions import (
    ClientException,
    HTTPException,
    MethodNotAllowedException,
    NotFoundException,
    ValidationException,
)
from litestar.openapi import OpenAPIConfig

from rota.api import aliases, errors
from rota.api.asgi import API
from rota.api.auth import require
from rota.api.context import ACTOR, Asking, Context, Settings, actor_of, context_of
from rota.api.door.editing import Editing
from rota.api.door.front import BODY_MAX, Front
from rota.api.door.methods import Methods, with_implied
from rota.api.door.repeating import Repeating
from rota.api.errors import Problem, WrongMethod
from rota.api.jobs import (
    allocations,
    bundles,
    changes,
    changes_many,
    checkpoints,
    endpoints,
    jobs,
    logs,
    measures,
    plan,
    resubmit,
    starts,
    why,
)
from rota.api.left import artifacts, progress, results
from rota.api.pages import Pages
from rota.api.site import (
    accounts,
    audit,
    clusters,
    node_keys,
    nodes,
    pilots,
    policy,
    policy_apply,
    policy_replay,
    pools,
    queue_stats,
    queues,
    quotas,
    report,
    reservations,
    stats,
    tokens,
    usage,
    user_secrets,
    vdcs,
)
from rota.api.watch import curves, database, live, notify, status
from rota.core.facts.errors import Forbidden, NotFound, Rejected
from rota.slurm import routes as slurm_routes
from rota.slurm import serving as slurm
from rota.slurm.rest import door as rest_door
from rota.web import door as web_door
from rota.web import routes as web_routes

if TYPE_CHECKING:
    from litestar.connection import ASGIConnection
    from litestar.handlers.base import BaseRouteHandler

    from rota.api.door.front import Wing
    from rota.controller.loop import Host

#: Every module with routes, by what they are about.
_PARTS = (
    *(jobs, changes, changes_many, resubmit, bundles, checkpoints, allocations),
    *(logs, results, progress, artifacts, measures, curves, endpoints, live, why, plan, starts),
    *(
        status,
        database,
        stats,
        usage,
        report,
        queue_stats,
        policy,
        policy_replay,
        policy_apply,
        notify,
    ),
    *(queues, quotas, accounts, reservations, nodes, node_keys, pools, tokens, user_secrets),
    *(pilots, clusters, vdcs, audit, aliases, slurm_routes, web_routes),
)
ROUTES = [route for part in _PARTS for route in part.ROUTES]


def make_app(host: Host, settings: Settings, made: Front | None = None) -> Front:
    """The ASGI app over a host that runs. ``made``: one that served another host until now."""
    if made is not None:
        made.context.attach(host, settings)
        slurm.watch(made.context)
        return made
    context = Context(host, settings)
    inner = Litestar(
        [Router(API, route_handlers=ROUTES), *status.ROOT_ROUTES],
        state=State({"context": context}),
        guards=[_guard],
        middleware=[Editing, Repeating],  # type: ignore[list-item]  # ASGI in our words
        exception_handlers={Exception: _problem, HTTPException: _problem},
        openapi_config=OpenAPIConfig("Rota", settings.version, create_examples=False),
        request_max_body_size=BODY_MAX,
        logging_config=None,
    )
    doors = {slurm.PATH: slurm.serve}
    slurm.watch(context)
    return Front(context, inner, Pages(context, inner), Methods(inner), doors, _wing_of)  # type: ignore[arg-type]


def _wing_of(path: str) -> Wing | None:
    """What answers all paths of a kind: slurmrestd's, and the web page's."""
    if path.startswith(rest_door.PREFIXES):
        return rest_door.serve
    return web_door.serve if web_door.is_page(path) else None


def _guard(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Default deny: a route that names no right does not exist; unknown parameters are refused."""
    right = handler.opt.get("right")
    if right is None:
        raise NotFound(f"there is nothing at {connection.url.path}")
    require(connection.scope[ACTOR], right)  # type: ignore[literal-required]
    known = [
        getattr(field.kwarg_definition, "name", None) or name
        for name, field in handler.parsed_fn_signature.parameters.items()
        if name != "request"
    ]
    for name in connection.query_params:
        if name not in known:
            raise errors.unknown_field("", name, sorted(known), kind="parameter")


def _problem(request: Asking, error: Exception) -> Response[bytes]:
    if isinstance(error, Forbidden) and ACTOR in request.scope:
        where = f"{request.method} {request.url.path}"
        context_of(request).host.audit.note(actor_of(request), "denied", where, str(error))
    problem, headers = errors.problem_of(_in_our_words(request, error))
    return Response(
        errors.encode_problem(problem),
        status_code=problem.status,
        media_type=errors.MEDIA_TYPE,
        headers={name.decode(): value.decode() for name, value in headers},
    )


def _in_our_words(request: Asking, error: Exception) -> Exception:
    """What the framework refused, as one of our errors."""
    if isinstance(error, ValidationException):
        return _parameter(request, error)
    if isinstance(error, NotFoundException):
        return NotFound(f"there is nothing at {request.url.path}; see /docs")
    if isinstance(error, MethodNotAllowedException):
        known = (error.headers or {}).get("allow", "").replace(",", " ").split()
        allowed = ", ".join(with_implied(known))
        return WrongMethod(
            f"{request.method} is not allowed on {request.url.path} (allowed: {allowed})",
            field="method",
            value=request.method,
            allowed=allowed,
        )
    if isinstance(error, HTTPException) and error.status_code == 413:
        return errors.TooLarge(f"the body has more than {BODY_MAX} bytes", field="body")
    if isinstance(error, ClientException):
        return Rejected(error.detail)
    return error


def _parameter(request: Asking, error: ValidationException) -> Rejected:
    extra = error.extra if isinstance(error.extra, list) else []
    for entry in extra:
        key = str(entry.get("key", ""))
        value = request.query_params.get(key) or request.path_params.get(key)
        text = str(entry.get("message", ""))
        if value is None:
            return Rejected(f"{key}: is required", field=key)
        return Rejected.bad(key, value, errors.expectation(text))
    if "Missing required query parameter" in error.detail:
        name = error.detail.partition("'")[2].partition("'")[0]
        return Rejected(f"{name}: is required", field=name, allowed="a value")
    return Rejected(error.detail)


__all__ = ["Problem", "Settings", "make_app"]
