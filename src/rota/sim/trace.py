"""A recorded workload: what was submitted when, and how long it really ran.

Times are seconds from the beginning of the record; where the file has whole numbers they stay
whole, so that results can be compared to the digit.
"""

from __future__ import annotations

import msgspec

from rota.core.facts.node import NodeSpec
from rota.core.facts.resources import Request


class TraceJob(msgspec.Struct, frozen=True, gc=False):
    """One job as it was recorded."""

    id: int
    submit_s: float
    #: How long it ran, or would have run had nobody stopped it.
    run_s: float
    #: Its size on a machine that counts one thing only: processors, or GPUs.
    procs: int
    #: What its user said that it would take at most; 0: nothing.
    estimate_s: float = 0
    user: str = ""
    #: The project, group or virtual cluster.
    group: str = ""
    #: The program or model.
    name: str = ""
    queue: str = ""
    priority: int = 50
    #: What each of its tasks asks for, where nodes and several resources matter.
    request: Request | None = None
    tasks: int = 1


class Trace(msgspec.Struct):
    """Jobs in the order of their submission, and the machine that they ran on if it is told."""

    name: str
    jobs: list[TraceJob]
    #: Processors (or GPUs) of the machine; 0: the file does not say.
    procs: int = 0
    nodes: tuple[NodeSpec, ...] = ()
    #: What ``procs`` counts.
    unit: str = "processors"
    #: It says when jobs came and how long they ran; else they can only be placed.
    timed: bool = True
    #: Records that were left out, by reason ("no run time").
    left_out: dict[str, int] = {}


class BadTrace(Exception):
    """A file that cannot be read as a trace: one line that names the file and the line in it."""
