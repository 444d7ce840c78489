"""Our own format: a CSV file with a header, or a JSON object on each line.

Only ``submit``, ``run`` and ``procs`` have to be there. The ``jobs.csv`` that a run writes is such
a file too: what it says of the outcome is skipped, so that a result can be played again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.sim.readers.sheet import Row, in_order, read_rows
from rota.sim.readers.values import (
    PRIORITY_DEFAULT,
    parse_count,
    parse_priority,
    parse_time,
    shown,
    unknown,
)
from rota.sim.trace import Trace, TraceJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.sim.readers.text import Text

REQUIRED = ("submit", "run", "procs")
COLUMNS = (
    *("job", "submit", "run", "procs", "estimate"),
    *("user", "group", "name", "queue", "priority"),
)
#: What a run writes beside these.
OUTCOME = ("start", "end", "wait", "nodes")

_NO_ESTIMATE: float = 0
_OBJECT = msgspec.json.Decoder(dict[str, object])
_LABELS = {name: f"key {name!r}" for name in COLUMNS}


def table_of(text: Text, sort: bool) -> Trace:
    """The jobs of a table. Without a column ``job`` they are numbered from 1."""
    lines = text.head().startswith("{")
    rows = _objects(text) if lines else read_rows(text, REQUIRED, _check_column)
    records = ((row, _job(row, number)) for number, row in enumerate(rows, 1))
    jobs = in_order(records, "job", "submit", sort)
    if not jobs:
        raise text.bad(text.last_line, "no jobs")
    return Trace(text.stem, jobs)


def _job(row: Row, number: int) -> TraceJob:
    return TraceJob(
        id=row.read_or("job", parse_count, number),
        submit_s=row.read("submit", parse_time),
        run_s=row.read("run", parse_time),
        procs=row.read("procs", _parse_procs),
        estimate_s=row.read_or("estimate", parse_time, _NO_ESTIMATE),
        user=row.cell("user"),
        group=row.cell("group"),
        name=row.cell("name"),
        queue=row.cell("queue"),
        priority=row.read_or("priority", parse_priority, PRIORITY_DEFAULT),
    )


def _parse_procs(text: str) -> int:
    return parse_count(text, least=1)


def _check_column(name: str) -> None:
    if name not in COLUMNS and name not in OUTCOME:
        raise ValueError(unknown("the column", name, COLUMNS))


def _objects(text: Text) -> Iterator[Row]:
    for line, record in text.lines():
        try:
            found = _OBJECT.decode(record)
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
            raise text.bad(
                line, f"{shown(record)} is no JSON object on one line ({error})"
            ) from None
        for name in found:
            try:
                _check_column(name)
            except ValueError as error:
                raise text.bad(line, str(error)) from None
        absent = [name for name in REQUIRED if name not in found]
        if absent:
            raise text.bad(line, f"the key {absent[0]!r} is missing; needed: {', '.join(REQUIRED)}")
        cells = {name: _cell(text, line, name, value) for name, value in found.items()}
        yield Row(text, line, cells, _LABELS)


def _cell(text: Text, line: int, name: str, value: object) -> str:
    """The value as it would be written in a CSV file."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise text.bad(line, f"key {name!r}: {shown(value)} is neither a number nor text")
    return str(value)
