"""Runs in few words, for tests of figures, intervals and reports."""

import csv
import gzip
from functools import cache
from pathlib import Path

from rota.sim.run import Run
from rota.sim.trace import TraceJob


def job(number: int, submit: float, run: float, procs: int = 1, **more) -> TraceJob:
    return TraceJob(id=number, submit_s=submit, run_s=run, procs=procs, **more)


def played(jobs: list[TraceJob], starts: list[float], capacity: int = 4, **more) -> Run:
    """A run in which every job ran in one piece and for its whole length."""
    return Run(
        **{
            "policy": "easy",
            "jobs": jobs,
            "capacity": capacity,
            "start_s": starts,
            "end_s": [start + job.run_s for job, start in zip(jobs, starts, strict=True)],
            **more,
        }
    )


def steady(count: int, waits: list[float], policy: str = "easy", **more) -> Run:
    """``count`` jobs of 100 s, one every 100 s; their waits repeat."""
    jobs = [job(number + 1, number * 100, 100) for number in range(count)]
    starts = [each.submit_s + waits[place % len(waits)] for place, each in enumerate(jobs)]
    return played(jobs, starts, policy=policy, **more)


def published(shared: Path, log: str, column: str, capacity: int) -> Run:
    """A log of the shared folder with the start times that were published for it."""
    with gzip.open(shared / "traces" / "expected" / f"{log}.starts.csv.gz", "rt") as lines:
        starts = [int(row[column]) for row in csv.DictReader(lines)]
    return played(recorded(shared / "traces" / "swf" / f"{log}.swf.gz"), starts, capacity)


@cache
def recorded(path: Path) -> list[TraceJob]:
    """Only what the figures need of a log that is known to be well formed."""
    with gzip.open(path, "rt") as lines:
        rows = [line.split() for line in lines if line.strip() and not line.startswith(";")]
    return [job(int(f[0]), int(f[1]), int(f[3]), int(f[7]), user=f[11]) for f in rows]
