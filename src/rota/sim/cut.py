"""A part of a trace, or the same trace under more load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from rota.sim.trace import Trace, TraceJob

#: What ``--scale`` can change, and how it is told.
SCALES = {"load": "jobs come faster", "run": "jobs run longer"}


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are played, and how they are stretched."""

    skip: int = 0
    #: 0: all.
    jobs: int = 0
    #: Seconds of the trace's own clock.
    from_s: float = 0.0
    to_s: float = float("inf")
    scale: Mapping[str, float] = {}


def cut(trace: Trace, wanted: Cut) -> Trace:
    """The wanted part of a trace. The machine is empty when its first job comes."""
    jobs = trace.jobs
    if wanted.skip or wanted.jobs:
        end = wanted.skip + wanted.jobs if wanted.jobs else len(jobs)
        jobs = jobs[wanted.skip : end]
    if wanted.from_s > 0 or wanted.to_s != float("inf"):
        jobs = [job for job in jobs if wanted.from_s <= job.submit_s < wanted.to_s]
    if not jobs:
        raise Rejected(
            f"{trace.name}: no job is left of {len(trace.jobs)}; "
            "look at --skip, --jobs, --from and --to",
            field="jobs",
        )
    if wanted.scale:
        jobs = _scaled(jobs, wanted.scale)
    return msgspec.structs.replace(trace, jobs=jobs)


def _scaled(jobs: list[TraceJob], scale: Mapping[str, float]) -> list[TraceJob]:
    """With ``load`` 1.2 jobs come in 1/1.2 of the time; ``run`` stretches what they take."""
    load, run = scale.get("load", 1.0), scale.get("run", 1.0)
    first_s = jobs[0].submit_s
    return [
        msgspec.structs.replace(
            job,
            submit_s=first_s + (job.submit_s - first_s) / load,
            run_s=job.run_s * run if run != 1.0 else job.run_s,
            estimate_s=job.estimate_s * run if run != 1.0 else job.estimate_s,
        )
        for job in jobs
    ]
