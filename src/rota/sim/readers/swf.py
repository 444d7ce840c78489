"""The Standard Workload Format: 18 numbers per job, remarks and the machine behind ``;``.

Some logs have one more number behind them in every line, of their own meaning: it is not read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from rota.sim.readers.values import NUMBER_MAX, parse_number, shown
from rota.sim.trace import Trace, TraceJob

if TYPE_CHECKING:
    from rota.sim.readers.text import Text
    from rota.sim.trace import BadTrace

FIELDS = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "processors allocated",
    "CPU time",
    "memory used",
    "processors requested",
    "time requested",
    "memory requested",
    "status",
    "user",
    "group",
    "program",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
_ID, _SUBMIT, _RUN, _ALLOCATED, _REQUESTED, _ESTIMATE = 0, 1, 3, 4, 7, 8
_STATUS = 10
_USER, _GROUP, _PROGRAM, _QUEUE = 11, 12, 13, 14
_USED = (
    *(_ID, _SUBMIT, _RUN, _ALLOCATED, _REQUESTED, _ESTIMATE),
    *(_USER, _GROUP, _PROGRAM, _QUEUE),
)

#: Why records are left out.
NO_RUN_TIME = "no run time"
NO_PROCESSORS = "no processors"
PART = "part of a job"
NEVER_RAN = "never started"

_UNKNOWN = -1
#: A job that was stopped and went on has a line for the whole, and then one for each part.
_PARTS = (2, 3, 4)
#: With no length and no processors: it was cancelled while it waited.
_CANCELLED = 5
_SIZE = re.compile(r"\s*;\s*(MaxProcs|MaxNodes)\s*:\s*([0-9][0-9,]{0,18})\b", re.IGNORECASE)

_CELLS: msgspec.json.Decoder[list[int | float]] = msgspec.json.Decoder(list[int | float])
#: Stands for the end of a line among its numbers; larger than any of them may be.
_END = NUMBER_MAX + 1


def swf_of(text: Text, sort: bool = False) -> Trace:
    """The jobs of a log, which has to be in the order of submission unless it is to be sorted."""
    log = _Log(text, sort)
    for first, block in text.blocks():
        # Remarks may be in any encoding; every byte is a letter of this one.
        log.read(first, block.decode("latin-1"))
    return log.trace()


class _Log:
    """What was read so far."""

    def __init__(self, text: Text, sort: bool) -> None:
        self._text = text
        self._sort = sort
        self._jobs: list[TraceJob] = []
        self._ids: set[int] = set()
        self._last_s: float = 0
        self._left_out = {NO_RUN_TIME: 0, NO_PROCESSORS: 0, PART: 0, NEVER_RAN: 0}
        self._sizes: dict[str, int] = {}
        self._names = _Names()
        #: Numbers in a line, as the first job has them.
        self._width = 0

    def read(self, first: int, block: str) -> None:
        """Take in a block of whole lines, the first of which has this number.

        Nearly every line is a job in 18 plain numbers, and is done with here. All others are
        looked at field by field, which takes ten times as long.
        """
        lines = block.removesuffix("\n").split("\n")
        start = next((at for at, line in enumerate(lines) if not line.startswith(";")), len(lines))
        self._width = self._width or _width(lines[start:])
        cells = _cells(lines[start:], self._width)
        if not cells:
            start = len(lines)
        for place in range(start):
            self._read_carefully(first + place, lines[place])
        columns = [cells[field :: self._width + 1] for field in _USED]
        for place, row in enumerate(zip(*columns, strict=True), start):
            id, submit_s, run_s, held, asked, time_s, user, group, program, queue = row
            procs = asked if asked > 0 else held
            if (
                isinstance(id, int)
                and id >= 0
                and id not in self._ids
                and submit_s >= self._last_s
                and run_s > 0
                and isinstance(procs, int)
                and procs > 0
                and (time_s >= 0 or time_s == _UNKNOWN)
            ):
                self._add(id, submit_s, run_s, procs, time_s, (user, group, program, queue))
            else:
                self._read_carefully(first + place, lines[place])

    def trace(self) -> Trace:
        """Everything that was read."""
        left_out = {reason: count for reason, count in self._left_out.items() if count}
        if not self._jobs:
            told = ", ".join(f"{count} with {reason}" for reason, count in left_out.items())
            hint = f"; left out: {told}" if told else ""
            raise self._text.bad(self._text.last_line, f"no jobs{hint}")
        if self._sort:
            self._jobs.sort(key=lambda job: job.submit_s)
        procs = self._sizes.get("maxprocs") or self._sizes.get("maxnodes", 0)
        return Trace(self._text.stem, self._jobs, procs=procs, left_out=left_out)

    def _add(
        self,
        id: int,
        submit_s: float,
        run_s: float,
        procs: int,
        time_s: float,
        owners: tuple[float, float, float, float],
    ) -> None:
        names = self._names
        user, group, program, queue = owners
        job = TraceJob(
            id,
            submit_s,
            run_s,
            procs,
            time_s if time_s > 0 else 0,
            names[user],
            names[group],
            names[program],
            names[queue],
        )
        self._ids.add(id)
        self._jobs.append(job)
        if not self._sort:
            self._last_s = submit_s

    def _read_carefully(self, line: int, record: str) -> None:
        """A line of any kind: blank, a remark, a record that is unusual or broken."""
        fields = record.split()
        if not fields:
            return
        if fields[0].startswith(";"):
            if size := _SIZE.match(record):
                self._sizes.setdefault(size[1].lower(), int(size[2].replace(",", "")))
            return
        width = self._width or len(FIELDS)
        if len(fields) != width:
            raise self._text.bad(line, f"{len(fields)} fields instead of {width}")
        known = fields[: len(FIELDS)]
        row = [self._number(line, place, field) for place, field in enumerate(known)]
        if row[_STATUS] in _PARTS and row[_ID] in self._ids:
            self._left_out[PART] += 1
            return
        self._refuse_negative(line, row, fields)
        procs = self._whole(line, _REQUESTED if row[_REQUESTED] > 0 else _ALLOCATED, row)
        if row[_RUN] == _UNKNOWN:
            self._left_out[NO_RUN_TIME] += 1
        elif row[_STATUS] == _CANCELLED and not row[_RUN] and row[_ALLOCATED] <= 0:
            self._left_out[NEVER_RAN] += 1
        elif procs <= 0:
            self._left_out[NO_PROCESSORS] += 1
        else:
            id = self._whole(line, _ID, row)
            self._check(line, id, row[_SUBMIT], fields)
            owners = (row[_USER], row[_GROUP], row[_PROGRAM], row[_QUEUE])
            self._add(id, row[_SUBMIT], row[_RUN], procs, row[_ESTIMATE], owners)

    def _number(self, line: int, place: int, field: str) -> float:
        try:
            return parse_number(field)
        except ValueError as error:
            raise self._bad(line, place, str(error)) from None

    def _refuse_negative(self, line: int, row: list[float], fields: list[str]) -> None:
        """An unknown run time or estimate is -1, but a job has a number and a submit time."""
        for place in (_ID, _SUBMIT, _RUN, _ESTIMATE):
            unknown = row[place] == _UNKNOWN and place in (_RUN, _ESTIMATE)
            if row[place] < 0 and not unknown:
                raise self._bad(line, place, f"{shown(fields[place])} is negative")

    def _whole(self, line: int, place: int, row: list[int | float]) -> int:
        number = row[place]
        if number != int(number):
            raise self._bad(line, place, f"'{number}' is not a whole number")
        return int(number)

    def _check(self, line: int, id: int, submit_s: float, fields: list[str]) -> None:
        if id in self._ids:
            raise self._bad(line, _ID, f"{shown(fields[_ID])} is there twice")
        if submit_s < self._last_s:
            above = f"is before the job above it ({self._last_s}); --sort puts them in order"
            raise self._bad(line, _SUBMIT, f"{shown(fields[_SUBMIT])} {above}")

    def _bad(self, line: int, place: int, problem: str) -> BadTrace:
        return self._text.bad(line, f"field {place + 1} ({FIELDS[place]}): {problem}")


class _Names(dict[int | float, str]):
    """One string for each user, group, program and queue: a log names few of them often."""

    def __missing__(self, number: int | float) -> str:
        whole = int(number) if number == int(number) else number
        return self.setdefault(number, "" if number == _UNKNOWN else str(whole))


def _width(lines: list[str]) -> int:
    """How many numbers the first job has: 18, or one more."""
    first = next((line.split() for line in lines if line.split()), [])
    return len(first) if len(first) == len(FIELDS) + 1 else len(FIELDS)


def _cells(lines: list[str], width: int) -> list[int | float]:
    """All numbers of these lines, each line with an end mark; nothing if one is irregular.

    Joined to one JSON text, they are converted at once by compiled code. JSON is stricter about
    numbers than Python: what it takes is a number for us too.
    """
    text = f" {_END} ".join(lines).replace("\t", " ").strip()
    if "," in text or "[" in text:
        return []
    while "  " in text:
        text = text.replace("  ", " ")
    try:
        cells = _CELLS.decode(f"[{text.replace(' ', ',')},{_END}]")
    except msgspec.DecodeError:
        return []
    ends = cells[width :: width + 1]
    regular = cells.count(_END) == ends.count(_END) == len(lines) == len(ends)
    return cells if regular and max(cells) == _END else []
