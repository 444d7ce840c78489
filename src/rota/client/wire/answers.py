"""What a server answers, as a value or as the exception that it stands for."""

from __future__ import annotations

import json
from http.client import HTTPException, HTTPResponse, responses
from typing import Any

from rota.client.errors import Refused, Unreachable


def decode(response: HTTPResponse) -> Any:  # noqa: ANN401 - JSON
    """The answer's value; ``Refused`` for an error, whatever form its body has."""
    try:
        payload = response.read()
    except (OSError, HTTPException):
        raise Unreachable("the connection broke while the answer was being read") from None
    if response.status >= 400:
        raise refusal(response.status, payload, response.headers.get("Retry-After"))
    return _value(payload)


def refusal(status: int, payload: bytes, retry_after: str | None) -> Refused:
    """The exception for an answer that says no, whatever form its body has."""
    value = _value(payload)
    problem = value if isinstance(value, dict) else {"detail": _plain(value, status)}
    return Refused(status, problem, _seconds(retry_after))


def _value(payload: bytes) -> Any:  # noqa: ANN401 - JSON
    if not payload:
        return None
    try:
        return json.loads(payload)
    except ValueError:
        return payload.decode("utf-8", "replace")


def _plain(value: object, status: int) -> str:
    text = value.strip() if isinstance(value, str) else ""
    first = text.splitlines()[0][:200] if text else ""
    return first or f"the server answered {status} {responses.get(status, '')}".rstrip()


def _seconds(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 1.0
