"""Which format a trace is in: told by the caller, else by what the file begins with."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from rota.sim.readers.gpu_jobs import (
    HELIOS_COLUMNS,
    MURI_COLUMNS,
    PHILLY_COLUMNS,
    helios_of,
    muri_of,
    philly_of,
)
from rota.sim.readers.openb import NODE_COLUMNS, POD_COLUMNS, pods_of
from rota.sim.readers.sacct import delimiter_of, sacct_of
from rota.sim.readers.swf import swf_of
from rota.sim.readers.table import COLUMNS, REQUIRED, table_of
from rota.sim.readers.text import Text
from rota.sim.readers.values import parse_number, shown, unknown
from rota.sim.trace import BadTrace, Trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def read_trace(path: Path, kind: str = "", sort: bool = False) -> Trace:
    """The jobs of a file, plain or compressed, in the order of their submission.

    ``kind`` is one of ``KINDS``; empty: found out. With ``sort`` a file may be out of order.
    Raises ``BadTrace`` with one line that says where and why.
    """
    if kind and kind not in KINDS:
        raise BadTrace(unknown("the kind of trace", kind, tuple(KINDS)))
    text = Text(path)
    return KINDS[kind or _kind_of(text)](text, sort)


def _pods(text: Text, sort: bool) -> Trace:
    """Pods are listed by name, which need not be the order of their creation."""
    trace = pods_of(text)
    trace.jobs.sort(key=lambda job: job.submit_s)
    return trace


def _philly(text: Text, sort: bool) -> Trace:
    return philly_of(text)


def _helios(text: Text, sort: bool) -> Trace:
    return helios_of(text)


KINDS: MappingProxyType[str, Callable[[Text, bool], Trace]] = MappingProxyType(
    {
        "swf": swf_of,
        "openb": _pods,
        "philly": _philly,
        "muri": muri_of,
        "helios": _helios,
        "sacct": sacct_of,
        "table": table_of,
    }
)

#: The columns by which a CSV file is known.
_MARKS = (
    ("openb", POD_COLUMNS),
    ("philly", PHILLY_COLUMNS),
    ("muri", MURI_COLUMNS),
    ("helios", HELIOS_COLUMNS),
)


def _kind_of(text: Text) -> str:
    head = text.head()
    if head.startswith("{"):
        # A row of a table is an object on a line; an export is one large object.
        return "sacct" if head == "{" or '"jobs"' in head else "table"
    if delimiter_of(head) or ("|" in head and {"JobID", "Submit"}.intersection(head.split("|"))):
        return "sacct"
    if head.startswith(";"):
        return "swf"
    columns = {name.strip(' "') for name in head.split(",")}
    for kind, marks in _MARKS:
        if columns.issuperset(marks):
            return kind
    if columns.issuperset(NODE_COLUMNS):
        raise text.bad(1, "a list of nodes, not of jobs; --cluster reads it")
    if {name.lower() for name in columns}.intersection(COLUMNS):
        return "table"
    if text.suffix == "swf" or _is_number(head.replace("\t", " ").partition(" ")[0]):
        return "swf"
    kinds = ", ".join(KINDS)
    problem = f"{shown(head)} begins no trace that is known; {_hint(head)}known kinds: {kinds}"
    raise text.bad(1, problem)


def _hint(head: str) -> str:
    """What an export that is nearly right lacks."""
    words = head.lower().replace('"', "")
    if "jobid" in words:
        return "of sacct it takes what -P or --json prints, with its header as it is; "
    if head.count("|") > 1:
        return "the line with the names of the columns is missing (sacct has --noheader); "
    for bar in (";", "\t"):
        if REQUIRED[0] in {name.strip() for name in words.split(bar)}:
            return "columns of a table stand between commas; "
    return ""


def _is_number(text: str) -> bool:
    try:
        parse_number(text)
    except ValueError:
        return False
    return True
