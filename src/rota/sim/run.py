"""What came out when one policy was played over one trace."""

from __future__ import annotations

import msgspec

from rota.sim.trace import TraceJob


class Run(msgspec.Struct):
    """Columns run in step: entry ``i`` of each is about ``jobs[i]``."""

    policy: str
    #: Those that were played, in the order of the trace.
    jobs: list[TraceJob]
    #: Processors (or GPUs) of the machine, and what they are called.
    capacity: int
    unit: str = "processors"
    #: When each job started for good, and when it was over.
    start_s: list[float] = []
    end_s: list[float] = []
    #: How long it was taken to run when it was first looked at.
    estimate_s: list[float] = []
    #: Where it ran, such as ``0-3,7``; empty where processors have no names.
    nodes: list[str] = []
    #: Positions of jobs that were stopped at their limit.
    killed: list[int] = []
    #: How often each job had to give way; empty: nobody ever did.
    preemptions: list[int] = []
    #: Processor-seconds of work that had to be done again.
    lost_s: float = 0.0
    #: Pieces ``(position, from, to)`` of jobs that ran in several; others ran in one.
    pieces: list[tuple[int, float, float]] = []
    #: Jobs larger than the machine, which were left out.
    too_large: int = 0
    #: What the run itself took.
    cpu_s: float = 0.0
    #: Further figures of this kind of run by name, for the summary.
    extra: dict[str, object] = {}
