"""The OpenAPI document, held against what hand-written servers and their callers say."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from functools import cache
from typing import Any, NamedTuple

import jsonschema_rs

from rota.api.app import Settings, make_app
from rota.controller.loop import Host
from rota.store.memory import MemoryStore
from rota.store.writer import InlineWriter

API = "/api/v1"
_PART = re.compile(r"\\{[^}]*\\}")


@cache
def document() -> dict[str, Any]:
    """What the server says of its routes."""

    async def make() -> dict[str, Any]:
        store = MemoryStore()
        app = make_app(Host(store, InlineWriter(store)), Settings(version="test"))
        page = app.page("/openapi.json")
        assert page is not None
        return dict(json.loads(page[2]))

    return asyncio.run(make())


@cache
def _closed() -> dict[str, Any]:
    """The schemas, in which a name that the document does not have is a mistake."""
    schemas = copy.deepcopy(document()["components"]["schemas"])
    for schema in schemas.values():
        if "properties" in schema:
            schema["additionalProperties"] = False
            # A fake tells what its test is about; what it tells must be true.
            schema.pop("required", None)
    return {"schemas": schemas}


class Operation(NamedTuple):
    """One operation of the document."""

    name: str
    shown: dict[str, Any]

    def wrong_query(self, query: dict[str, str]) -> list[str]:
        known = {entry["name"] for entry in self.shown.get("parameters", ())}
        return [f"{self.name} takes no parameter {name}" for name in query if name not in known]

    def wrong_body(self, body: Any) -> list[str]:
        content = self.shown.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            return [] if body is None else [f"{self.name} takes no body"]
        return [] if body is None else _against(self.name, content["schema"], body)

    def wrong_answer(self, status: int, body: Any) -> list[str]:
        answer = self.shown["responses"].get(str(status))
        if answer is None:
            return [f"{self.name} never answers {status}"]
        content = answer.get("content", {})
        media = next((m for m in content if "json" in m), None)
        if media is None:
            return []
        return _against(f"{self.name} {status}", content[media].get("schema", {}), body)


def operation(method: str, path: str) -> Operation | None:
    """What stands at a path (below the prefix, unless it is public); None: nothing does."""
    for known, shown in _operations():
        if (found := shown.get(method.lower())) and known.fullmatch(path):
            return Operation(f"{method} {path}", found)
    return None


@cache
def _operations() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    """Paths without parameters first: they win over those with."""
    paths = sorted(document()["paths"].items(), key=lambda pair: pair[0].count("{"))
    return [
        (re.compile(_PART.sub("[^/]+", re.escape(path.removeprefix(API)))), shown)
        for path, shown in paths
    ]


def _against(what: str, schema: dict[str, Any], value: Any) -> list[str]:
    return [
        f"{what}: {'.'.join(map(str, error.instance_path)) or 'body'}: {error.message[:300]}"
        for error in _validator(json.dumps(schema)).iter_errors(value)
    ]


@cache
def _validator(schema: str) -> Any:
    whole = {**json.loads(schema), "components": _closed()}
    return jsonschema_rs.Draft202012Validator(whole)
