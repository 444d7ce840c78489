"""``--role worker=8,min=4,cpus=4,mem=16G,gpus=1``: one kind of member of a job."""

from __future__ import annotations

from typing import Any

import click

from rota.cli.submit.request import cpu_number
from rota.core.words.units import parse_cpu_milli, parse_memory_mib
from rota.digits import is_digits

#: What may stand behind the count.
_KEYS = ("min", "cpus", "mem", "gpus", "gpu-type", "gpu-mem", "disk")
FORM = "expected NAME=COUNT and then any of " + ", ".join(f"{key}=…" for key in _KEYS)


class RoleType(click.ParamType[dict[str, Any]]):
    """A role, read at once so that a mistake is seen here."""

    name = "role"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        try:
            return parse_role(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def parse_role(text: str) -> dict[str, Any]:
    """The body of a role, or ``ValueError`` with what is allowed."""
    first, *others = text.split(",")
    name, equals, count = (part.strip() for part in first.partition("="))
    if not name or not equals or not is_digits(count) or int(count) < 1:
        raise ValueError(f"'{text}' is not valid; {FORM}")
    body: dict[str, Any] = {"name": name, "count": int(count)}
    resources: dict[str, Any] = {}
    for word in others:
        key, equals, value = (part.strip() for part in word.partition("="))
        if key not in _KEYS or not value:
            raise ValueError(f"'{word}' is not valid; {FORM}")
        if key == "min":
            body["min_count"] = _number(word, value)
        else:
            resources |= _amount(key, word, value)
    return body | ({"resources": resources} if resources else {})


def _amount(key: str, word: str, value: str) -> dict[str, Any]:
    if key == "cpus":
        return {"cpus": cpu_number(parse_cpu_milli(value))}
    if key == "gpus":
        return {"gpus": _number(word, value)}
    if key == "gpu-type":
        return {"gpu_type": value}
    field = {"mem": "memory_mb", "gpu-mem": "gpu_memory_mb", "disk": "disk_mb"}[key]
    return {field: parse_memory_mib(value)}


def _number(word: str, value: str) -> int:
    if not is_digits(value):
        raise ValueError(f"'{word}' is not valid; expected a whole number")
    return int(value)
