"""The OpenAPI document: what the framework knows of the routes, completed with what we know.

Bodies, errors and examples are declared with each route (``opt``); the schemas of all structs
come from msgspec itself, so they say exactly what is decoded and encoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from litestar.routes import HTTPRoute

from rota.api.asgi import API
from rota.api.door.editing import EDITED
from rota.api.errors import CODES, MEDIA_TYPE, Problem
from rota.api.jobs.submit import KEY_MAX
from rota.api.openapi import examples
from rota.api.openapi.glossary import MEANINGS
from rota.api.openapi.older import mark_operation, mark_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from litestar import Litestar
    from litestar.handlers import HTTPRouteHandler

_REF = "#/components/schemas/{name}"
_ERRORS = {
    400: "The request cannot be taken as it is; `field` says what to change",
    401: "No token was shown, or it is not valid",
    403: "The caller may not do this",
    404: "What was named does not exist",
    409: "The thing is in a state that does not allow this",
    412: "It is not as `If-Match` or `If-None-Match` says; read it again",
    413: "The body is too large",
    422: "The Idempotency-Key was used for another request",
    429: "Too much is waiting; nothing was changed",
    500: "A bug in Rota",
    503: "Not ready; try again later",
}
_ALWAYS = (400, 401, 403, 429, 500, 503)
_TAG = {
    "ETag": {
        "description": "A name for what can be edited of it, for `If-Match`",
        "schema": {"type": "string"},
    }
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "maxLength": KEY_MAX},
    "description": "Makes it safe to repeat: the same request with this key gets the first answer;"
    " another request gets 422",
}
#: What an edit may say of the record that it is about.
_CONDITIONS = {
    "If-Match": "The `ETag` that was read: 412 if it is another one now",
    "If-None-Match": "`*`: 412 if it exists already",
}
_TAGS = {
    "jobs": "Jobs and arrays",
    "plan": "Jobs and arrays",
    "endpoints": "Jobs and arrays",
    "allocations": "Machines",
    "pilots": "Machines",
    "pools": "Machines",
    "clusters": "Machines",
    "vdcs": "Machines",
    "nodes": "Machines",
    "gpus": "Machines",
    "topology": "Machines",
    "tokens": "Tokens",
    "projects": "Projects, users, quotas",
    "users": "Projects, users, quotas",
    "bundles": "Jobs and arrays",
    "checkpoints": "Jobs and arrays",
    "usage": "Projects, users, quotas",
    "stats": "Projects, users, quotas",
    "reservations": "Reservations and rules",
    "policy": "Reservations and rules",
    "status": "Rota itself",
    "events": "Rota itself",
    "metrics": "Rota itself",
    "audit": "Rota itself",
    "notify": "Rota itself",
    "gpu": "Machines",
    "secrets": "Projects, users, quotas",
    "slurm": "Jobs and arrays",
}


def make_document(inner: Litestar, version: str) -> dict[str, Any]:
    """The whole document, ready to be encoded."""
    document: dict[str, Any] = inner.openapi_schema.to_schema()
    schemas = _schemas(inner)
    paths: dict[str, Any] = {}
    for path, method, handler in _operations(inner):
        operation = document["paths"][path][method]
        shown = path
        if handler.opt.get("verb"):
            head, _, verb = path.rpartition("/")
            shown = f"{head}:{verb}"
        _complete(operation, shown, method, handler)
        if path.removeprefix(API) in EDITED:
            _tag_it(operation, method)
        mark_operation(operation)
        paths.setdefault(shown, {})[method] = operation
    document["paths"] = dict(sorted(paths.items())) | _public_paths()
    document["components"] = {
        "schemas": schemas,
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    # On the local socket the kernel says who it is, and nothing need be shown.
    document["security"] = [{"token": []}, {}]
    document["info"] = {
        "title": "Rota",
        "version": version,
        "description": "One scheduler for AI/ML compute. Over the network every call but "
        "`/healthz`, `/readyz`, `/docs` and `/openapi.json` needs a token; on the local socket "
        "the kernel says who is asking.",
    }
    return document


def _operations(inner: Litestar) -> Iterator[tuple[str, str, HTTPRouteHandler]]:
    """Every route that names a right, with its path as the document writes it."""
    for route in inner.routes:
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                if "right" in handler.opt:
                    for method in sorted(handler.http_methods):
                        yield route.path_format, str(method).lower(), handler


def _schemas(inner: Litestar) -> dict[str, Any]:
    """Every struct that goes in or out, by its name."""
    kinds: list[Any] = [Problem]
    for _, _, handler in _operations(inner):
        kinds.append(handler.opt.get("body"))
        answer = handler.parsed_fn_signature.return_type
        kinds += [answer.annotation, *(inside.annotation for inside in answer.inner_types)]
    structs = {
        kind.__name__: kind
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    }
    _, schemas = msgspec.json.schema_components(structs.values(), ref_template=_REF)
    _describe(schemas)
    return dict(sorted(schemas.items()))


def _describe(schemas: dict[str, Any]) -> None:
    """Every property says what it means; those of a change mean what they mean in a request."""
    asked = schemas.get("JobRequest", {}).get("properties", {})
    for schema, body in schemas.items():
        for name, shown in body.get("properties", {}).items():
            if "description" in shown:
                continue
            meant = MEANINGS.get(f"{schema}.{name}")
            if meant is None and schema == "JobPatch":
                meant = asked.get(name, {}).get("description")
            meant = meant or MEANINGS.get(name)
            if meant is not None:
                body["properties"][name] = {**shown, "description": meant}
        mark_schema(body)


def _complete(operation: dict[str, Any], path: str, method: str, handler: HTTPRouteHandler) -> None:
    opt = handler.opt
    operation["tags"] = [_tag(path)]
    operation["operationId"] = handler.handler_name.rpartition(".")[2]
    operation["description"] = (handler.fn.__doc__ or "").strip()
    body = opt.get("body")
    if body is not None:
        content: dict[str, Any] = {"schema": {"$ref": _REF.format(name=body.__name__)}}
        if body in examples.BODIES:
            content["example"] = examples.BODIES[body]
        operation["requestBody"] = {
            "required": body not in examples.OPTIONAL,
            "content": {"application/json": content},
        }
    elif takes := opt.get("takes"):
        schema = {"type": "string", "format": "binary"}
        operation["requestBody"] = {"required": True, "content": {takes: {"schema": schema}}}
    _complete_answers(operation, path, method, opt)


def _complete_answers(
    operation: dict[str, Any], path: str, method: str, opt: dict[str, Any]
) -> None:
    answers: dict[str, Any] = {
        code: answer for code, answer in operation["responses"].items() if code < "300"
    }
    for answer in answers.values():
        answer.pop("headers", None)
        if produces := opt.get("produces"):
            answer["content"] = {produces: {"schema": {"type": "string"}}}
        example = examples.ANSWERS.get((method, path.removeprefix("/api/v1")))
        if example is not None and "application/json" in answer.get("content", {}):
            answer["content"]["application/json"]["example"] = example
    keyed = "creates" in opt or opt.get("keyed")
    if keyed:
        _key_it(operation, answers)
    problem = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(name="Problem")}}}
    large = (413,) if "requestBody" in operation else ()
    more = (409, 422) if keyed else ()
    for status in sorted({*_ALWAYS, *large, *more, *opt.get("errors", ())}):
        answers[str(status)] = {"description": _ERRORS[status], "content": problem}
    operation["responses"] = answers


def _key_it(operation: dict[str, Any], answers: dict[str, Any]) -> None:
    """It makes something: a key makes it safe to send it again."""
    if "201" in answers:
        answers["200"] = {**answers["201"], "description": "A repeat under the same key"}
    others = [p for p in operation.get("parameters", ()) if p["name"] != _KEY["name"]]
    operation["parameters"] = [*others, _KEY]


def _tag_it(operation: dict[str, Any], method: str) -> None:
    """Of a record that has a tag: reading gives it, edits may name it."""
    answers = operation["responses"]
    for code, answer in answers.items():
        if code < "300":
            answers[code] = {**answer, "headers": _TAG}
    if method == "get":
        return
    answers["412"] = {"description": _ERRORS[412], "content": answers["400"]["content"]}
    operation["parameters"] = [
        *operation.get("parameters", ()),
        *(
            {"name": name, "in": "header", "schema": {"type": "string"}, "description": text}
            for name, text in _CONDITIONS.items()
        ),
    ]


def _tag(path: str) -> str:
    part = path.removeprefix("/api/v1").lstrip("/").partition("/")[0].partition(":")[0]
    return _TAGS.get(part, "Queues and groups")


def _public_paths() -> dict[str, Any]:
    """What needs nobody's name."""
    texts = {
        "/healthz": ("Does the process answer", "application/json", "health"),
        "/readyz": (
            "Does it take requests; 503 while it starts, stops, or cannot write",
            "application/json",
            "ready",
        ),
        "/openapi.json": ("This document", "application/json", "openapi"),
        "/docs": ("This document, for people", "text/html", "docs"),
    }
    return {
        path: {
            "get": {
                "summary": summary,
                "operationId": name,
                "tags": ["Rota itself"],
                "security": [{}],
                "responses": {"200": {"description": "It does", "content": {media: {}}}},
            }
        }
        for path, (summary, media, name) in texts.items()
    }


__all__ = ["CODES", "make_document"]
