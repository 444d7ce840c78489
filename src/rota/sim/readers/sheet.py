"""Records with named fields, such as the rows of a CSV file, and errors that name their place."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, TypeVar

from rota.sim.readers.values import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from rota.sim.readers.text import Text
    from rota.sim.trace import BadTrace, TraceJob

_Value = TypeVar("_Value")


class Row:
    """One record. Cells are asked for by the name of their column."""

    __slots__ = ("_cells", "_labels", "_text", "line")

    def __init__(
        self, text: Text, line: int, cells: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        self._text = text
        self.line = line
        self._cells = cells
        #: What a message calls a column.
        self._labels = labels

    def cell(self, column: str) -> str:
        """What is written there; nothing where the record has no such field."""
        return self._cells.get(column, "").strip()

    def read(self, column: str, parse: Callable[[str], _Value]) -> _Value:
        """The parsed cell; what ``parse`` refuses is told with the place of the cell."""
        try:
            return parse(self._cells.get(column, ""))
        except ValueError as error:
            raise self.bad(column, str(error)) from None

    def read_or(self, column: str, parse: Callable[[str], _Value], missing: _Value) -> _Value:
        """The same for a cell that may be blank."""
        return self.read(column, parse) if self.cell(column) else missing

    def bad(self, column: str, problem: str) -> BadTrace:
        """What is to be raised about a cell."""
        return self._text.bad(self.line, f"{self._labels.get(column, column)}: {problem}")


def read_rows(
    text: Text, required: Collection[str], known: Callable[[str], None] | None = None
) -> Iterator[Row]:
    """The rows of a CSV file below its header, which has to name the required columns.

    ``known`` may refuse a column with a ``ValueError``; without it all others are ignored.
    """
    lines = text.lines()
    line, header = next(lines, (1, ""))
    names = [name.strip() for name in _cells(text, line, header)]
    labels = {name: f"field {place} ({name})" for place, name in enumerate(names, 1)}
    for place, name in enumerate(names):
        if name in names[:place]:
            raise text.bad(line, f"field {place + 1}: the column {shown(name)} is there twice")
        try:
            if known:
                known(name)
        except ValueError as error:
            raise text.bad(line, f"field {place + 1}: {error}") from None
    absent = [name for name in required if name not in labels]
    if absent:
        raise text.bad(line, f"the column {absent[0]!r} is missing; needed: {', '.join(required)}")
    for line, record in lines:
        cells = _cells(text, line, record)
        if len(cells) != len(names):
            raise text.bad(line, f"{len(cells)} fields instead of {len(names)} as in the header")
        yield Row(text, line, dict(zip(names, cells, strict=True)), labels)


def in_order(
    records: Iterable[tuple[Row, TraceJob]], id_column: str, submit_column: str, sort: bool
) -> list[TraceJob]:
    """The jobs of these records: no id twice, and in the order of submission.

    A file that is out of order is refused rather than sorted, unless that is asked for: it is
    more often a broken file than a wish.
    """
    jobs: list[TraceJob] = []
    ids: set[int] = set()
    last_s: float = 0
    for row, job in records:
        if job.id in ids:
            raise row.bad(id_column, f"'{job.id}' is there twice")
        if job.submit_s < last_s and not sort:
            above = "is before the job above it; --sort puts them in order"
            raise row.bad(submit_column, f"{shown(row.cell(submit_column))} {above}")
        ids.add(job.id)
        last_s = job.submit_s
        jobs.append(job)
    jobs.sort(key=lambda job: job.submit_s)
    return jobs


def _cells(text: Text, line: int, record: str) -> list[str]:
    """The cells of a line; a quoted cell ends on the line that it begins on."""
    record = record.rstrip("\r")
    if '"' not in record:
        return record.split(",")
    try:
        return next(csv.reader([record], strict=True, skipinitialspace=True))
    except csv.Error as error:
        raise text.bad(line, f"{shown(record)} is no row of a CSV file ({error})") from None
