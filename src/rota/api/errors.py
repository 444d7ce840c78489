"""Every error as an RFC 9457 problem document that names the field, the value, what is allowed."""

from __future__ import annotations

import difflib
import json
import logging
import re
import secrets
import typing
from enum import Enum
from http import HTTPStatus
from math import isfinite
from typing import Any, TypeVar

import msgspec

from rota.api.auth import Unauthenticated
from rota.core.facts.errors import (
    Busy,
    Conflict,
    Forbidden,
    KeyReused,
    NotFound,
    Rejected,
    RotaError,
    Unavailable,
)

log = logging.getLogger("rota.api")

T = TypeVar("T")

MEDIA_TYPE = "application/problem+json"

#: Code -> what it means, for the documentation.
CODES = {
    "invalid": "The request cannot be taken as it is; ``field`` says what to change.",
    "malformed": "The body is not JSON; ``detail`` says where it breaks.",
    "unauthenticated": "No token was shown, or it is not valid.",
    "forbidden": "The caller is known, and may not do this.",
    "not_found": "What was named does not exist.",
    "method_not_allowed": "The path exists, with other methods.",
    "conflict": "The thing is in a state that does not allow this.",
    "changed": "It is not as ``If-Match`` says: read it again, then edit it.",
    "key_reused": "The Idempotency-Key was used for another request; use a new one.",
    "too_large": "The body is larger than this path takes.",
    "busy": "Too much is waiting; nothing was changed. Try again after ``Retry-After``.",
    "unavailable": "The disk, an agent or Rota itself is not ready. Try again later.",
    "internal": "A bug in Rota; ``detail`` has an id that the log knows.",
}


class Problem(msgspec.Struct, omit_defaults=True):
    """RFC 9457, with a code for programs and the field that is to blame."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    field: str = ""
    value: Any = None
    allowed: str = ""


class TooLarge(Rejected):
    """The body is larger than the path takes."""

    code = "too_large"


class Malformed(Rejected):
    """The body is not JSON."""

    code = "malformed"


class EditedMeanwhile(Rejected):
    """What was to be edited is not as the caller read it."""

    code = "changed"


class WrongMethod(Rejected):
    """The path is known, the method is not one of its own."""

    code = "method_not_allowed"


_STATUS: dict[type[RotaError], int] = {
    Rejected: 400,
    Malformed: 400,
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    WrongMethod: 405,
    Conflict: 409,
    EditedMeanwhile: 412,
    TooLarge: 413,
    KeyReused: 422,
}

_encode = msgspec.json.Encoder(enc_hook=repr).encode


def problem_of(error: Exception) -> tuple[Problem, list[tuple[bytes, bytes]]]:
    """The document for an exception, and the headers that go with it."""
    if isinstance(error, Rejected):
        status = _STATUS.get(type(error), 400)
        headers = [(b"www-authenticate", b'Bearer realm="rota"')] if status == 401 else []
        if status == 405:
            headers.append((b"allow", error.allowed.encode()))
        problem = make(status, error.code, error.detail, error.field, error.value, error.allowed)
        return problem, headers
    if isinstance(error, Unavailable):
        busy = isinstance(error, Busy)
        headers = [(b"retry-after", f"{max(error.retry_after_s, 0.05):g}".encode())]
        code = "busy" if busy else "unavailable"
        return make(429 if busy else 503, code, error.what), headers
    name = secrets.token_hex(6)
    log.error("internal error %s", name, exc_info=error)
    detail = f"internal error {name}: nothing more is known here, the controller's log has it"
    return make(500, "internal", detail), []


def make(
    status: int, code: str, detail: str, field: str = "", value: object = None, allowed: str = ""
) -> Problem:
    title = HTTPStatus(status).phrase
    return Problem(f"/docs#{code}", title, status, detail, code, field, value, allowed)


def encode_problem(problem: Problem) -> bytes:
    try:
        return _encode(problem)
    except UnicodeEncodeError:
        # JSON may have half a pair of surrogates, as an escape; UTF-8 has none.
        return json.dumps(msgspec.to_builtins(problem, enc_hook=repr)).encode()


_AT = re.compile(r" - at `(?P<key>key in )?\$(?P<path>.*)`$")
_BYTE = re.compile(r"\(byte (\d+)\)")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_MARKED = re.compile(r"`([^`]*)`")


def from_decoding(error: msgspec.DecodeError, body: bytes, kind: Any) -> Rejected:  # noqa: ANN401
    """What msgspec refused, in our words. ``kind`` is the type that was expected."""
    text = str(error)
    if not isinstance(error, msgspec.ValidationError):
        return _malformed(text, body)
    found = _AT.search(text)
    path = found["path"] if found else ""
    head = text[: found.start()] if found else text
    field = path.lstrip(".")
    if unknown := _UNKNOWN.match(head):
        return unknown_field(field, unknown[1], _fields_at(kind, path))
    if missing := _MISSING.match(head):
        name = f"{field}.{missing[1]}" if field else missing[1]
        return Rejected(f"{name}: is required", field=name, allowed="a value")
    value = None if found and found["key"] else _value_at(body, path)
    if head.startswith("Invalid enum value"):
        words = _words_of(_kind_at(kind, path))
        return Rejected.bad(field, value, f"one of {words}" if words else "a known word")
    field = field.replace("[...]", "") or "body"
    return _of_length(field, value, head) or Rejected.bad(field, value, expectation(head))


#: As msgspec says it of texts and of lists.
_LENGTH = re.compile(r"Expected `(?:str|array|object)` of length (?P<sign>[<>]=) (?P<bound>[0-9]+)")


def _of_length(field: str, value: object, head: str) -> Rejected | None:
    """Too many or too few: how many there are says more than the beginning of a long list."""
    found = _LENGTH.match(head)
    if found is None or not isinstance(value, str | list | dict):
        return None
    bound, what = int(found["bound"]), "characters" if isinstance(value, str) else "entries"
    if found["sign"] == "<=":
        return Rejected.many(field, len(value), bound, what)
    if not value:
        allowed = f"expected at least {bound}"
        return Rejected(f"{field}: is empty; {allowed}", field=field, value=value, allowed=allowed)
    return None


def _malformed(text: str, body: bytes) -> Rejected:
    if not body.strip():
        return Malformed("the body is empty; expected a JSON object")
    if place := _BYTE.search(text):
        at = int(place[1])
        line = body.count(b"\n", 0, at) + 1
        column = at - (body.rfind(b"\n", 0, at) + 1) + 1
        text = text.removeprefix("JSON is malformed: ")
        return Malformed(f"the body is not JSON: {text}, line {line} column {column}", value=at)
    return Malformed(f"the body is not JSON: {text[:1].lower()}{text[1:]} (byte {len(body)})")


def unknown_field(path: str, name: str, known: list[str], kind: str = "field") -> Rejected:
    """A name that nothing has, with the nearest one that something has."""
    full = f"{path}.{name}" if path else name
    # Of two names of one thing the newer one is meant.
    newest = [one for one in known if f"{one.removesuffix('_mb')}_mib" not in known]
    close = difflib.get_close_matches(name, newest, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else "see /docs"
    allowed = ", ".join(known)
    return Rejected(f"{full}: there is no such {kind}; {hint}", field=full, allowed=allowed)


def expectation(head: str) -> str:
    """``Expected `int` >= 0, got `str` `` in plain words."""
    if head == "Number out of range":
        return "expected a number between -1e308 and 1e308"
    if not head.startswith("Expected "):
        return head
    expected = head.partition(", got")[0].removeprefix("Expected ")
    return "expected " + _MARKED.sub(lambda mark: _plain(mark[1]), expected)


def _plain(kinds: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds.split(" | "))


def _as_written(text: str) -> float | str:
    number = float(text)
    return number if isfinite(number) else text


def _value_at(body: bytes, path: str) -> object:
    """What the caller wrote there, as far as the path can be followed."""
    try:
        # Unlike msgspec it reads 1e400, too.
        value = json.loads(body, parse_float=_as_written)
    except (ValueError, RecursionError):
        return None
    for name, index in _STEP.findall(path):
        if name and isinstance(value, dict) and name in value:
            value = value[name]
        elif index and isinstance(value, list) and int(index) < len(value):
            value = value[int(index)]
        else:
            break
    return value


def _fields_at(kind: Any, path: str) -> list[str]:  # noqa: ANN401 - a type
    """The field names of the struct that stands at a path below ``kind``."""
    struct = _part_of(_kind_at(kind, path), msgspec.Struct)
    return [] if struct is None else [f.encode_name for f in msgspec.structs.fields(struct)]


def _kind_at(kind: Any, path: str) -> Any:  # noqa: ANN401 - types
    """The type that stands at a path below ``kind``; lists and options are looked through."""
    for name, _index in _STEP.findall(path):
        struct = _part_of(kind, msgspec.Struct)
        if name and struct is not None:
            kind = {f.encode_name: f.type for f in msgspec.structs.fields(struct)}.get(name)
    return kind


def _words_of(kind: Any) -> str:  # noqa: ANN401 - a type
    words = _part_of(kind, Enum)
    if words is not None:
        return ", ".join(str(word.value) for word in words)
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(word for word in typing.get_args(kind) if word)
    return next((found for part in typing.get_args(kind) if (found := _words_of(part))), "")


def _part_of(kind: Any, base: type[T]) -> type[T] | None:  # noqa: ANN401 - a type
    """The subclass of ``base`` in ``X``, ``list[X]``, ``X | None`` or ``Annotated[X, …]``."""
    if typing.get_origin(kind) is None and isinstance(kind, type):
        return kind if issubclass(kind, base) else None
    found = (_part_of(part, base) for part in typing.get_args(kind))
    return next((part for part in found if part is not None), None)
