"""Logs of jobs that are made up, the same ones for the same seed, and how they are written."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import TYPE_CHECKING

from rota.sim.trace import Trace, TraceJob

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

#: Sizes that people ask for; three jobs in ten ask for any other.
SIZES = (1, 1, 1, 2, 2, 4, 4, 8, 16, 32, 64, 128)
ODD_PART = 0.3
#: What people say that a job takes at most: seldom near the truth.
LIMITS_S = (600, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)
LONGEST_S = 86_400
USERS = 50
#: Jobs from which the mean amount of work is taken, for the gaps between arrivals.
SAMPLE = 20_000


def made_up(count: int, procs: int, load: float, seed: int = 1) -> Iterator[TraceJob]:
    """Jobs that ask together for ``load`` times what the processors give."""
    sample = [*islice(_shapes(Random(seed), procs), SAMPLE)]
    work = sum(size * run_s for size, run_s, _ in sample) / len(sample)
    gap_s = work / (procs * load)
    chance = Random(seed + 1)
    now_s = 0.0
    for number, (size, run_s, limit_s) in enumerate(islice(_shapes(Random(seed), procs), count), 1):
        user = str(number % USERS)
        yield TraceJob(number, int(now_s), run_s, size, limit_s, user=user)
        now_s += chance.expovariate(1 / gap_s)


def _shapes(chance: Random, procs: int) -> Iterator[tuple[int, int, int]]:
    """Size, run time, limit, without end."""
    while True:
        size = min(procs, chance.choice(SIZES))
        if chance.random() < ODD_PART:
            size = chance.randint(1, min(procs, max(SIZES)))
        run_s = min(int(chance.lognormvariate(6.5, 1.8)) + 1, LONGEST_S)
        yield size, run_s, min(max(run_s, chance.choice(LIMITS_S)), LONGEST_S)


def made_up_trace(name: str, count: int, procs: int, load: float) -> Trace:
    return Trace(name, [*made_up(count, procs, load)], procs)


def write_swf(path: Path, jobs: Iterable[TraceJob], procs: int) -> None:
    """In the Standard Workload Format, line by line: a million jobs are never held at once."""
    with path.open("w", encoding="ascii") as file:
        file.write(f"; MaxProcs: {procs}\n")
        for job in jobs:
            file.write(
                f"{job.id} {job.submit_s} -1 {job.run_s} {job.procs} -1 -1 {job.procs} "
                f"{job.estimate_s} -1 1 {job.user or -1} -1 -1 -1 -1 -1 -1\n"
            )


def deepest(jobs: Sequence[TraceJob], start_s: Sequence[float]) -> int:
    """How many waited at the worst moment; a job that starts when it comes does not wait."""
    changes = sorted(
        [
            *(
                (job.submit_s, 1)
                for job, at_s in zip(jobs, start_s, strict=True)
                if at_s > job.submit_s
            ),
            *((at_s, -1) for job, at_s in zip(jobs, start_s, strict=True) if at_s > job.submit_s),
        ]
    )
    waiting = most = 0
    for _, change in changes:
        waiting += change
        most = max(most, waiting)
    return most
