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
        if str(status) not in self.shown["responses"]:
            return [f"{self.name} never answers {status}"]
        return _against(f"{self.name} {status}", self._schema(status), body)

    def whole_answer(self, status: int, body: Any) -> Any:
        """A fake tells what its test is about; what it leaves out and must be there is plain."""
        return _whole(self._schema(status), body)

    def _schema(self, status: int) -> dict[str, Any]:
        content = self.shown["responses"].get(str(status), {}).get("content", {})
        media = next((m for m in content if "json" in m), None)
        return dict(content[media].get("schema", {})) if media is not None else {}


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


def _whole(schema: dict[str, Any], value: Any) -> Any:
    """The value, with every field that its schema requires."""
    schema = _found(schema)
    if isinstance(value, list):
        return [_whole(schema.get("items", {}), one) for one in value]
    if not isinstance(value, dict):
        return value
    known = schema.get("properties", {})
    more = schema.get("additionalProperties")
    of_others = more if isinstance(more, dict) else {}
    told = {name: _whole(known.get(name, of_others), one) for name, one in value.items()}
    left_out = [name for name in schema.get("required", ()) if name not in value]
    return told | {name: _plain(known[name]) for name in left_out}


def _plain(schema: dict[str, Any]) -> Any:
    """The least that a schema allows."""
    choices = schema.get("oneOf") or schema.get("anyOf") or ()
    if any(choice.get("type") == "null" for choice in choices):
        return None
    schema = _found(schema)
    kind = schema.get("type")
    if isinstance(kind, list):
        return None if "null" in kind else _plain({**schema, "type": kind[0]})
    if "enum" in schema or "const" in schema:
        return schema["enum"][0] if "enum" in schema else schema["const"]
    if kind == "object":
        return _whole(schema, {})
    if schema.get("format") == "date-time":
        return "2026-01-01T00:00:00Z"
    least = schema.get("minimum", 0)
    return {"array": [], "string": "", "boolean": False}.get(str(kind), least)


def _found(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema itself, where another one is named; of several the one that is not null."""
    choices = schema.get("oneOf") or schema.get("anyOf") or schema.get("allOf") or ()
    named = next((choice for choice in choices if choice.get("type") != "null"), None)
    if named is not None:
        return _found(named)
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _found(document()["components"]["schemas"][name])
    return schema


def _against(what: str, schema: dict[str, Any], value: Any) -> list[str]:
    return [
        f"{what}: {'.'.join(map(str, error.instance_path)) or 'body'}: {error.message[:300]}"
        for error in _validator(json.dumps(schema)).iter_errors(value)
    ]


@cache
def _validator(schema: str) -> Any:
    whole = {**json.loads(schema), "components": _closed()}
    return jsonschema_rs.Draft202012Validator(whole)
