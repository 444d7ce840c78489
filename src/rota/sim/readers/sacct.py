"""What Slurm's accounting exports: ``sacct -P`` (columns between bars) and ``sacct --json``.

Steps and jobs that never ran to an end are left out and counted. Where a job asked for GPUs these
are counted, and every job has its request, so that it can be played on nodes; else processors are.
Times without a zone are taken as they stand.
"""

from __future__ import annotations

import csv
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rota.core.words.units import parse_memory_mib
from rota.sim.readers.booked import NO_NUMBER, STEP, Booked, count, trace_of
from rota.sim.readers.sacct_json import records_of
from rota.sim.readers.sheet import Row
from rota.sim.readers.values import parse_number, parse_time, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.sim.readers.text import Text
    from rota.sim.trace import Trace

#: What a table needs at least: each of these, or one that says the same.
NEEDED = (
    ("JobID", "JobIDRaw"),
    ("Submit", "Eligible"),
    ("Start",),
    ("End", "ElapsedRaw", "Elapsed"),
)
MISFIT = "a line of other fields than the header"
#: Columns whose text is free: a delimiter may be part of it.
_FREE = ("JobName", "SubmitLine", "Comment", "AdminComment", "WorkDir")
_NAMES = re.compile(r"[A-Za-z]+")

_UNKNOWN = ("", "none", "unknown", "n/a", "invalid", "?")
_LIMITLESS = ("unlimited", "partition_limit", "infinite")
_SPAN = re.compile(r"(?:[0-9]+-)?[0-9]+(?::[0-9]+){0,2}(?:\.[0-9]+)?")
#: States of jobs that have not ended, whatever is said about how long they took.
_GOING = ("RUNNING", "SUSPENDED", "RESIZING", "PENDING")
#: Between these, cells may stand in quotes; between bars a quote is a letter like others.
_QUOTED = (",", ";", "\t")
_PER = re.compile(r"[cn?]$", re.IGNORECASE)
_GRES = re.compile(r"(?:gres/)?gpu(?::[^:,(=]+)?(?:[:=]([0-9]+))?(?:\(.*\))?")
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def sacct_of(text: Text, sort: bool) -> Trace:
    """The jobs of an export. Names of jobs are whatever bytes their users gave."""
    text.odd_bytes = "replace"
    left_out: dict[str, int] = {}
    is_json = text.head().startswith("{")
    found = records_of(text) if is_json else _rows(text, left_out)
    return trace_of(text, found, left_out)


def delimiter_of(header: str) -> str:
    """What stands between the names of the columns; nothing: these are no columns of sacct."""
    between = _NAMES.split(_unquoted(header))[1:-1]
    names = set(_NAMES.findall(header))
    known = all(names.intersection(same) for same in NEEDED[:2])
    return between[0] if known and between and len(set(between)) == 1 else ""


def _unquoted(header: str) -> str:
    return header.strip().replace('"', "")


def _rows(text: Text, left_out: dict[str, int]) -> Iterator[Booked]:
    lines = text.lines()
    line, header = next(lines, (1, ""))
    header = _unquoted(header)
    bar = delimiter_of(header) or "|"
    closed = header.endswith(bar)
    names = header.removesuffix(bar).split(bar)
    for same in NEEDED:
        if not set(same).intersection(names):
            listed = ", ".join(one[0] for one in NEEDED)
            raise text.bad(line, f"the column {same[0]!r} is missing; needed: {listed}")
    labels = {name: f"field {place} ({name})" for place, name in enumerate(names, 1)}
    free = next((names.index(name) for name in _FREE if name in names), -1)
    for line, record in lines:
        body = record.rstrip("\r\n")
        cells = _cells(body.removesuffix(bar) if closed else body, bar)
        surplus = len(cells) - len(names)
        if surplus > 0 and free >= 0:
            cells[free : free + surplus + 1] = [bar.join(cells[free : free + surplus + 1])]
        if len(cells) != len(names):
            count(left_out, MISFIT)
            continue
        row = Row(text, line, dict(zip(names, cells, strict=True)), labels)
        if "." in (row.cell("JobID") or row.cell("JobIDRaw")):
            count(left_out, STEP)
        else:
            yield _booked(row)


def _cells(body: str, bar: str) -> list[str]:
    if '"' in body and bar in _QUOTED:
        return next(csv.reader([body], delimiter=bar))
    return body.split(bar)


def _first(row: Row, *names: str) -> str:
    """The first of these columns that says something."""
    return next((name for name in names if row.cell(name)), names[0])


def _booked(row: Row) -> Booked:
    # What was asked for, else what was given.
    asked = row.read(_first(row, "ReqTRES", "AllocTRES"), parse_tres)
    nodes = row.read_or(_first(row, "NNodes", "AllocNodes", "ReqNodes"), parse_amount, 0)
    nodes = max(nodes or asked["node"], 1)
    cpus = row.read_or(_first(row, "ReqCPUS", "NCPUS", "AllocCPUS"), parse_amount, 0)
    processors = max(asked["cpu"], cpus, 1)
    memory = asked["mem"] or row.read("ReqMem", lambda text: _memory(text, processors, nodes))
    gpus = asked["gpu"] or nodes * row.read(_first(row, "ReqGRES", "AllocGRES"), _gpus)
    start_s = row.read("Start", parse_moment)
    run_s = row.read("ElapsedRaw", parse_seconds) or row.read("Elapsed", parse_span)
    end_s = row.read("End", parse_moment)
    state = row.cell("State").upper()
    if not row.cell("End") and start_s and run_s and not state.startswith(_GOING):
        end_s = start_s + run_s
    return Booked(
        row.read("Submit", parse_moment) or row.read("Eligible", parse_moment) or start_s,
        start_s,
        end_s,
        run_s or end_s - start_s,
        row.read("TimelimitRaw", parse_minutes) or row.read("Timelimit", parse_span),
        processors,
        nodes,
        gpus,
        memory,
        row.cell("User") or row.cell("UID"),
        row.cell("Account"),
        row.cell("JobName"),
        row.cell("Partition"),
        row.cell("JobID").rpartition("+")[0],
        state.startswith("CANCELLED"),
    )


def parse_tres(text: str) -> dict[str, int]:
    """``cpu=4,mem=16G,node=1,gres/gpu:a100=2``; GPUs in all, or the sum over their models."""
    found = {"cpu": 0, "mem": 0, "node": 0, "gpu": 0}
    typed = 0
    for part in text.split(","):
        name, _, amount = part.strip().partition("=")
        kind = name.removeprefix("gres/")
        if kind.startswith("gpu:"):
            typed += parse_amount(amount)
        elif kind in found:
            found[kind] = _memory(amount, 1, 1) if kind == "mem" else parse_amount(amount)
    found["gpu"] = found["gpu"] or typed
    return found


def _gpus(text: str) -> int:
    """Of each node: ``gpu:2``, ``gpu:tesla:2(S:0-1)``, ``gpu``."""
    found = [_GRES.fullmatch(part.strip()) for part in text.split(",")]
    return sum(int(one[1] or 1) for one in found if one is not None)


def parse_amount(text: str) -> int:
    """A count, which sacct writes as ``2K`` from 1024 on."""
    body = text.strip().lower()
    unit = _UNITS.get(body[-1:], 1)
    return round(parse_time(body[:-1] if unit > 1 else text) * unit)


def _memory(text: str, cpus: int, nodes: int) -> int:
    """MiB of ``16G``; ``4Gc`` is per processor, ``8Gn`` per node. A bare number is MiB."""
    body = text.strip()
    if body.lower() in _UNKNOWN:
        return 0
    times = {"c": cpus, "n": nodes}.get(body[-1].lower(), 1)
    body = _PER.sub("", body)
    try:
        return parse_memory_mib(f"{body}M" if body[-1:].isdigit() else body) * times
    except ValueError:
        raise ValueError(f"{shown(text)} is no amount of memory such as 16G") from None


def parse_moment(text: str) -> float:
    """``2026-11-16T18:00:00``, with a zone or without, or seconds since 1970; 0 for ``Unknown``."""
    body = text.strip()
    if body.lower() in _UNKNOWN:
        return 0.0
    if body.isdigit():
        return parse_time(body)
    try:
        at = datetime.fromisoformat(body)
    except ValueError:
        raise ValueError(f"{shown(text)} is no time such as 2026-11-16T18:00:00") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def parse_seconds(text: str) -> float:
    body = text.strip()
    return 0.0 if body.lower() in _UNKNOWN else parse_time(body)


def parse_minutes(text: str) -> float:
    """A limit in minutes; 0: none."""
    body = text.strip()
    if body.lower() in (*_UNKNOWN, *_LIMITLESS):
        return 0.0
    minutes = parse_number(body)
    return 60.0 * minutes if 0 < minutes < NO_NUMBER else 0.0


def parse_span(text: str) -> float:
    """``1-02:03:04``, ``1-02``, ``02:03:04``, ``03:04`` or minutes alone; 0 for none."""
    body = text.strip()
    if body.lower() in (*_UNKNOWN, *_LIMITLESS):
        return 0.0
    if _SPAN.fullmatch(body) is None:
        raise ValueError(f"{shown(text)} is no span of time such as 1-02:03:04")
    days, dash, clock = body.partition(".")[0].rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    if dash or len(parts) == 3:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    else:
        hours, minutes, seconds = 0, *(*parts, 0)[:2]
    return float(((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds)
