"""The OpenAPI document as one readable page, made here: no script, nothing from elsewhere."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from rota.api.errors import CODES

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
h1{font-size:1.6rem}h2{margin-top:2.5rem;border-bottom:1px solid #ccc}
details{margin:.4rem 0;border:1px solid #ddd;border-radius:6px;padding:.4rem .7rem}
summary{cursor:pointer}code,pre{font:13px/1.45 ui-monospace,monospace}
pre{background:#f5f5f5;padding:.6rem;overflow:auto;border-radius:4px}
b.m{display:inline-block;width:4.2rem}table{border-collapse:collapse;width:100%}
td,th{text-align:left;vertical-align:top;border-top:1px solid #e5e5e5;padding:.2rem .6rem .2rem 0}
"""


def make_page(document: dict[str, Any]) -> bytes:
    """HTML for people."""
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            groups.setdefault(operation["tags"][0], []).append(
                _operation(document, path, method, operation)
            )
    info = document["info"]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'>",
        f"<title>Rota API {escape(info['version'])}</title><style>{_STYLE}</style>",
        f"<h1>Rota API {escape(info['version'])}</h1><p>{_text(info['description'])}</p>",
        "<p>The same for programs: <a href=/openapi.json>/openapi.json</a> (OpenAPI 3.1).</p>",
        *(f"<h2>{escape(tag)}</h2>{''.join(found)}" for tag, found in groups.items()),
        "<h2>Errors</h2><p>Every error is a problem document (RFC 9457) with a "
        "<code>code</code>, and where one field is to blame its <code>field</code>, "
        "<code>value</code> and what is <code>allowed</code>.</p><table>",
        *(
            f"<tr id={code}><td><code>{code}</code><td>{_text(text)}"
            for code, text in CODES.items()
        ),
        "</table><h2>Shapes</h2>",
        *(_schema(name, schema) for name, schema in document["components"]["schemas"].items()),
    ]
    return "\n".join(parts).encode()


def _text(text: str) -> str:
    """Escaped, with `words` in a fixed font."""
    pieces = escape(text.replace("``", "`")).split("`")
    return "".join(
        f"<code>{piece}</code>" if number % 2 else piece for number, piece in enumerate(pieces)
    )


def _operation(document: dict[str, Any], path: str, method: str, operation: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(entry['name'])}</code><td>{escape(entry['in'])}"
        f"<td>{_kind(entry.get('schema', {}))}<td>{_text(entry.get('description', ''))}"
        for entry in operation.get("parameters", ())
    )
    answers = "".join(
        f"<tr><td>{code}<td>{_answer(answer)}" for code, answer in operation["responses"].items()
    )
    return (
        f"<details><summary><b class=m>{method.upper()}</b><code>{escape(path)}</code> "
        f"{_text(operation['summary'])}{_older(operation)}</summary>"
        f"<p>{_text(operation.get('description', ''))}</p>"
        + (f"<table><tr><th>parameter<th>in<th>type<th>{rows}</table>" if rows else "")
        + _body(operation)
        + f"<pre>{escape(_curl(path, method, operation))}</pre>"
        + f"<table><tr><th>answer<th>{answers}</table></details>"
    )


def _older(operation: dict[str, Any]) -> str:
    return " <small>(an older name)</small>" if operation.get("deprecated") else ""


def _body(operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    return f"<p>Body: {_kind(content['schema'])}</p>" if content else ""


def _answer(answer: dict[str, Any]) -> str:
    text = _text(answer["description"])
    for media, content in answer.get("content", {}).items():
        if media == "application/problem+json":
            continue
        text += f" {_kind(content.get('schema', {}))} <small>{escape(media)}</small>"
        if "example" in content:
            text += f"<pre>{escape(json.dumps(content['example'], indent=1))}</pre>"
    return text


def _curl(path: str, method: str, operation: dict[str, Any]) -> str:
    line = f"curl --unix-socket ~/.local/state/rota/rota.sock -X {method.upper()}"
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    if "example" in content:
        line += f" \\\n  -d '{json.dumps(content['example'])}'"
    where = path.replace("{job_id}", "12").replace("{name}", "NAME").replace("{token_id}", "ID")
    return f"{line} \\\n  http://rota{where}"


def _kind(schema: dict[str, Any]) -> str:
    """A type in a few words; shapes link to their tables."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"<a href='#{name}'>{name}</a>"
    if "enum" in schema:
        return " | ".join(f"<code>{escape(str(word))}</code>" for word in schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(_kind(part) for part in schema[several])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if isinstance(schema.get("type"), list):
        return " or ".join(map(str, schema["type"]))
    limits = [
        f"{sign} {schema[key]:g}"
        for key, sign in (("minimum", "≥"), ("maximum", "≤"), ("maxLength", "length ≤"))
        if key in schema
    ]
    return escape(" ".join([schema.get("type", "anything"), *limits]))


def _schema(name: str, schema: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code><td>{_kind(part)}"
        f"<td>{_text(part.get('description', ''))}{_default(part)}"
        for field, part in schema.get("properties", {}).items()
    )
    words = " | ".join(map(str, schema.get("enum", ())))
    return (
        f"<details id='{name}'><summary><code>{name}</code> "
        f"{_text(schema.get('description', ''))}{escape(words)}</summary>"
        f"<table>{rows}</table></details>"
    )


def _default(part: dict[str, Any]) -> str:
    default = part.get("default")
    if default in (None, "", [], {}) or isinstance(default, dict):
        return ""
    return f" <small>default: <code>{escape(json.dumps(default))}</code></small>"
