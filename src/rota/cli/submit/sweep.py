"""Sweeps: ``--param`` and ``--param-file`` become a table, one row per job."""

from __future__ import annotations

import csv
import io
import re
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from rota.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: More rows than this in one request is refused; an array has no such bound.
MAX_ROWS = 100_000

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_RANGE = re.compile(rf"({_NUMBER}):({_NUMBER})(?::({_NUMBER}))?")


class Sweep(NamedTuple):
    """Names and, for each job, their values as text."""

    names: list[str]
    rows: list[list[str]]


def parse_param(text: str) -> tuple[str, list[str]]:
    """``lr=1e-3,1e-4`` or ``n=1:10[:2]``, both ends included; parts may be mixed with commas."""
    name, equals, body = text.partition("=")
    name = name.strip()
    if not equals or not _NAME.fullmatch(name):
        raise ClientError(
            f"--param: {text[:80]!r} is not valid; expected NAME=VALUES, as in lr=1,2"
        )
    values: list[str] = []
    for part in next(csv.reader([body], skipinitialspace=True), []):
        values += _expand(part, text)
    if not values:
        raise ClientError(f"--param: {text[:80]!r} gives no values; expected NAME=VALUES")
    return name, values


def _expand(part: str, text: str) -> list[str]:
    found = _RANGE.fullmatch(part.strip())
    if found is None:
        return [part]
    try:
        first, last = Decimal(found[1]), Decimal(found[2])
        step = Decimal(found[3]) if found[3] else Decimal(1 if last >= first else -1)
    except InvalidOperation:
        raise ClientError(f"--param: {text[:80]!r}: the range cannot be read") from None
    if step == 0 or (last - first) * step < 0:
        raise ClientError(f"--param: {text[:80]!r}: the step never leads from {first} to {last}")
    count = int((last - first) // step) + 1
    if count > MAX_ROWS:
        raise ClientError(f"--param: {text[:80]!r} has {count} values; at most {MAX_ROWS}")
    return [_plain(first + step * number) for number in range(count)]


def _plain(number: Decimal) -> str:
    """``0.5``, neither ``0.50`` nor ``5E-1``."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def parse_csv(text: str, source: str) -> Sweep:
    """The first line has the names, each further one the values of one job."""
    try:
        lines = [line for line in csv.reader(io.StringIO(text), strict=True) if any(line)]
    except csv.Error as error:
        raise ClientError(f"{source}: {error}") from None
    if len(lines) < 2:
        raise ClientError(f"{source}: expected a line with names and at least one with values")
    names = [name.strip() for name in lines[0]]
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(names):
            raise ClientError(f"{source}:{number}: {len(line)} values for {len(names)} names")
    return Sweep(names, lines[1:])


def make_sweep(params: Iterable[str], table: Sweep | None) -> Sweep | None:
    """The product of all parameters and the table's rows; the last one varies fastest."""
    single = [parse_param(text) for text in params]
    if not single and table is None:
        return None
    names = [*(table.names if table else ()), *(name for name, _ in single)]
    _refuse_names(names)
    axes: list[Sequence[list[str]]] = [[[value] for value in values] for _, values in single]
    if table is not None:
        axes.insert(0, table.rows)
    count = 1
    for axis in axes:
        count *= len(axis)
    if count > MAX_ROWS:
        raise ClientError(f"--param: the sweep has {count} jobs; at most {MAX_ROWS} in one go")
    return Sweep(names, [[value for part in row for value in part] for row in product(*axes)])


def _refuse_names(names: list[str]) -> None:
    for name in names:
        if not _NAME.fullmatch(name):
            raise ClientError(f"--param: {name[:60]!r} is no name; letters, digits and _ only")
        if names.count(name) > 1:
            raise ClientError(f"--param: {name} is given twice")
