"""One run in figures: waits, slowdowns, use of the machine, fairness and the classes of jobs."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from rota.sim.measures import finished, held_in_pieces, mean, measure, quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rota.sim.measures import RunMeasures
    from rota.sim.run import Run

#: Figures by name, ready for JSON.
Summary = dict[str, Any]

#: Each class of sizes ends with its number; the last one takes the rest.
SIZE_ENDS = (0, 1, 4, 16, 64, 256, 1024)
SIZE_NAMES = ("0", "1", "2-4", "5-16", "17-64", "65-256", "257-1024", "1025+")
#: Up to a quarter of an hour, up to four hours, and the rest.
LENGTH_ENDS_S = (900.0, 14400.0)
LENGTH_NAMES = ("short", "medium", "long")


def summarise(run: Run) -> Summary:
    """All figures of one run. Jobs that never ran to an end are counted and left out."""
    done = finished(run)
    measures = measure(done)
    waits = sorted(measures.waits_s)
    slowdowns = sorted(measures.slowdowns)
    first_s = min((job.submit_s for job in done.jobs), default=0.0)
    makespan_s = max(done.end_s, default=0.0) - first_s
    offered = done.capacity * makespan_s
    held = held_processor_s(done)
    utilization = held / offered if offered > 0 else 0.0
    offered_early = done.capacity * (max(done.start_s, default=0.0) - first_s)
    summary: Summary = {
        "jobs": len(done.jobs),
        "mean_wait": mean(waits),
        "mean_bounded_slowdown": mean(slowdowns),
        "utilization": utilization,
        # Some publications stop the clock when the last job starts.
        "utilization_until_last_start": held / offered_early if offered_early > 0 else 0.0,
        "makespan": makespan_s,
        # From submission to end; GPU clusters call it JCT.
        "mean_turnaround": mean(
            [end - job.submit_s for job, end in zip(done.jobs, done.end_s, strict=True)]
        ),
        "max_wait": waits[-1] if waits else 0.0,
        "cpu_seconds": run.cpu_s,
        "jobs_per_second": len(run.jobs) / run.cpu_s if run.cpu_s > 0 else 0.0,
        "median_wait": quantile(waits, 0.5),
        "p95_wait": quantile(waits, 0.95),
        "median_bounded_slowdown": quantile(slowdowns, 0.5),
        "p95_bounded_slowdown": quantile(slowdowns, 0.95),
        "unallocated": max(0.0, 1.0 - utilization) if offered > 0 else 0.0,
        "killed": len(run.killed),
        "too_large": run.too_large,
        "unfinished": len(run.jobs) - len(done.jobs),
        "preemptions": sum(run.preemptions),
        "lost_work_s": run.lost_s,
        "fairness": _fairness(done, measures),
        "by_size": by_size(done, measures),
        "by_length": by_length(done, measures),
        "by_group": by_group(done, measures),
    }
    # What a kind of run adds may not change the meaning of a name that all runs share.
    return {**run.extra, **summary}


def held_processor_s(run: Run) -> float:
    """Processors times seconds for which jobs held them."""
    held = sum(
        job.procs * (end - start)
        for job, start, end in zip(run.jobs, run.start_s, run.end_s, strict=True)
    )
    for place, held_s in held_in_pieces(run).items():
        whole_s = run.end_s[place] - run.start_s[place]
        held += run.jobs[place].procs * (held_s - whole_s)
    return held


def size_class(procs: int) -> str:
    return SIZE_NAMES[bisect_left(SIZE_ENDS, procs)]


def length_class(run_s: float) -> str:
    return LENGTH_NAMES[bisect_left(LENGTH_ENDS_S, run_s)]


def by_size(run: Run, measures: RunMeasures) -> Mapping[str, Summary]:
    return _classes((size_class(job.procs) for job in run.jobs), measures, SIZE_NAMES)


def by_length(run: Run, measures: RunMeasures) -> Mapping[str, Summary]:
    """By the recorded length, so that a job is in the same class under every policy."""
    return _classes((length_class(job.run_s) for job in run.jobs), measures, LENGTH_NAMES)


def by_group(run: Run, measures: RunMeasures) -> Mapping[str, Summary]:
    """Nothing where the trace names no groups."""
    names = sorted({job.group for job in run.jobs})
    if names in ([], [""]):
        return {}
    return _classes((job.group for job in run.jobs), measures, names)


def _classes(
    names: Iterable[str], measures: RunMeasures, order: Iterable[str]
) -> Mapping[str, Summary]:
    """The figures of each class that has jobs, in the order given."""
    waits: dict[str, array[float]] = {name: array("d") for name in order}
    slowdowns: dict[str, array[float]] = {name: array("d") for name in waits}
    for name, wait, slowdown in zip(names, measures.waits_s, measures.slowdowns, strict=True):
        waits[name].append(wait)
        slowdowns[name].append(slowdown)
    return {name: _class(waits[name], slowdowns[name]) for name in waits if waits[name]}


def _class(waits: array[float], slowdowns: array[float]) -> Summary:
    ordered = sorted(waits)
    return {
        "jobs": len(ordered),
        "mean_wait": mean(ordered),
        "median_wait": quantile(ordered, 0.5),
        "p95_wait": quantile(ordered, 0.95),
        "mean_bounded_slowdown": mean(slowdowns),
    }


def _fairness(run: Run, measures: RunMeasures) -> Summary | None:
    """How evenly users fared: nothing where the trace does not name them.

    Jain's index over the users' mean bounded slowdowns is 1 when all fared alike and 1/n when one
    of n bears everything. Each user counts once, however many jobs it submitted.
    """
    sums: dict[str, list[float]] = {}
    for job, slowdown in zip(run.jobs, measures.slowdowns, strict=True):
        entry = sums.get(job.user)
        if entry is None:
            entry = sums[job.user] = [0.0, 0.0]
        entry[0] += slowdown
        entry[1] += 1.0
    if not sums.keys() - {""}:
        return None
    means = {user: total / count for user, (total, count) in sums.items()}
    ordered = sorted(means.values())
    worst = max(means, key=lambda user: (means[user], user))
    return {
        "users": len(means),
        "jain": sum(ordered) ** 2 / (len(ordered) * sum(value * value for value in ordered)),
        "worst_user": worst,
        "worst_mean_bounded_slowdown": means[worst],
        "median_mean_bounded_slowdown": quantile(ordered, 0.5),
    }
