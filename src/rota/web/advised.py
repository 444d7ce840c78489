"""The command that an advice names, as the REST call that the command line makes of it. Pure."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from rota.core.words.units import parse_cpu_milli, parse_duration_s, parse_memory_mib

if TYPE_CHECKING:
    from collections.abc import Callable

API = "/api/v1"


class AdvisedCall(msgspec.Struct, frozen=True):
    """One REST call, and the right that it needs."""

    method: str
    path: str
    body: dict[str, Any]
    right: str = "change"


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number


def _cpus(text: str) -> int | float:
    return _number(str(parse_cpu_milli(text) / 1000))


def _model(text: str) -> str:
    return "" if text == "auto" else text


#: Option of ``rota update`` -> its field below ``resources``, and how its value is read.
_RESOURCES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "--gpus": ("gpus", _number),
    "--gpu-type": ("gpu_type", _model),
    "--gpu-mem": ("gpu_memory_mb", parse_memory_mib),
    "--cpus": ("cpus", _cpus),
    "--mem": ("memory_mb", parse_memory_mib),
    "--disk": ("disk_mb", parse_memory_mib),
}
_PLAIN: dict[str, tuple[str, Callable[[str], Any]]] = {
    "--time": ("time_limit_s", parse_duration_s),
    "--tasks": ("tasks", int),
    "--nodes": ("nodes", int),
    "--topology": ("topology", str),
    "--qos": ("qos", str),
    "--queue": ("queue", str),
    "--priority": ("priority", int),
    "--cluster": ("cluster", str),
    "--engine": ("engine", str),
    "--vdc": ("vdc", str),
    "--begin": ("begin_at", str),
    "--max-concurrent": ("max_concurrent", int),
}
#: Option of ``rota quota set`` -> its field of the limits, and how its value is read.
_LIMITS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "--jobs": ("jobs", int),
    "--cpus": ("cpus", _cpus),
    "--mem": ("memory_mb", parse_memory_mib),
    "--gpus": ("gpus", _number),
    "--gpu-hours": ("gpu_hours", _number),
    "--cost": ("cost", _number),
}
#: Options that may be repeated; an empty text takes away what was there.
_LISTS = {
    "--constraint": "constraints",
    "--tolerate": "tolerate",
    "--near": "near",
    "--apart": "apart",
    "--exclude": "exclude",
    "--nodelist": "node_list",
}
_FLAGS: dict[str, tuple[str, Any]] = {
    "--no-exclusive": ("exclusive", False),
    "--no-dependencies": ("depends_on", []),
}


def call_of(command: str) -> AdvisedCall | None:
    """None: a page cannot make it; people type it."""
    try:
        match shlex.split(command):
            case ["rota", "update", job, *options]:
                return AdvisedCall("PATCH", f"{API}/jobs/{quote(job, safe='')}", _patch(options))
            case ["rota", "release", job]:
                return AdvisedCall("POST", f"{API}/jobs:release", {"ids": [job]})
            case ["rota", "requeue", job, "--hold"]:
                return AdvisedCall("POST", f"{API}/jobs:requeue", {"ids": [job], "hold": True})
            case ["rota", "node", "resume", name]:
                return AdvisedCall(
                    "POST", f"{API}/nodes/{quote(name, safe='')}:resume", {}, "operate"
                )
            case ["rota", "reserve", "remove", number]:
                return AdvisedCall("DELETE", f"{API}/reservations/{int(number)}", {}, "operate")
            case ["rota", "group", "set", name, "--max-concurrent", most]:
                body = {"max_concurrent": int(most)}
                return AdvisedCall("PUT", f"{API}/groups/{quote(name, safe='')}", body)
            case ["rota", "queue-admin", "set", name, option, value]:
                field = option.removeprefix("--").replace("-", "_")
                known = value if field in ("state", "hours") else int(value)
                path = f"{API}/queues/{quote(name, safe='')}"
                return AdvisedCall("PATCH", path, {field: known}, "operate")
            case ["rota", "quota", "set", ("--user" | "--project") as whose, name, *limit]:
                path = f"{API}/{whose.removeprefix('--')}s/{quote(name, safe='')}"
                return AdvisedCall("PATCH", path, {"quota": _quota(limit)}, "operate")
    except ValueError:
        return None
    return None


def _quota(words: list[str]) -> dict[str, Any]:
    """One limit: a hard one, a soft one, or one for jobs of a type."""
    match words:
        case [option, value]:
            place = {"hard": _limit(option, value)}
        case [option, value, "--soft"]:
            place = {"soft": _limit(option, value)}
        case [option, value, "--type", kind]:
            place = {"types": {kind: _limit(option, value)}}
        case _:
            raise ValueError(" ".join(words))
    return place


def _limit(option: str, value: str) -> dict[str, Any]:
    if option not in _LIMITS:
        raise ValueError(option)
    field, read = _LIMITS[option]
    return {field: read(value)}


def _patch(options: list[str]) -> dict[str, Any]:
    """The body of ``PATCH /jobs/ID``; ``ValueError`` for an option that is not known here."""
    body: dict[str, Any] = {}
    rest = iter(options)
    for option in rest:
        if option == "--shared":
            body.setdefault("resources", {})["shared"] = True
        elif option in _FLAGS:
            field, value = _FLAGS[option]
            body[field] = value
        elif option in _RESOURCES:
            field, read = _RESOURCES[option]
            body.setdefault("resources", {})[field] = read(_value(rest))
        elif option in _LISTS:
            word = _value(rest)
            body.setdefault(_LISTS[option], []).extend([word] if word else [])
        elif option in _PLAIN:
            field, read = _PLAIN[option]
            body[field] = read(_value(rest))
        else:
            raise ValueError(option)
    return body


def _value(rest: Any) -> str:  # noqa: ANN401 - an iterator over words
    value: str | None = next(rest, None)
    if value is None:
        raise ValueError("an option without its value")
    return value
