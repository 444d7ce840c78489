"""The figures that are shown: what each is called, how it is written and which end is better."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rota.sim.figures import Summary


def whole(value: float) -> str:
    """Seconds and counts; small ones keep some digits, or all policies would look alike."""
    near = round(value, 2)
    if near == int(near) or abs(near) >= 100:
        return f"{near:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ratio(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"


def share(value: float) -> str:
    return f"{100 * value:.2f}"


def index(value: float) -> str:
    return f"{value:.3f}"


class Figure(NamedTuple):
    """One figure of a summary.

    ``rank`` says how important it is: a narrow table drops the highest ranks first.
    """

    key: str
    #: Short, for a column; and a sentence for people who meet it for the first time.
    title: str
    meaning: str
    rank: int
    show: Callable[[float], str] = whole
    #: -1: less is better, 1: more is better, 0: neither.
    better: int = 0
    #: Worth a place only where some run has more than 0 of it.
    rare: bool = False

    def of(self, summary: Summary) -> float | None:
        """Its value; a dot leads into an inner table. None where the run does not have it."""
        value: object = summary
        for part in self.key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value if isinstance(value, int | float) else None

    def text(self, summary: Summary) -> str:
        value = self.of(summary)
        return "-" if value is None else self.show(value)


FIGURES = (
    Figure("mean_wait", "wait s", "mean wait, seconds", 1, better=-1),
    Figure("median_wait", "median", "median wait, seconds", 5, better=-1),
    Figure("p95_wait", "p95", "95 % of jobs waited no longer, seconds", 4, better=-1),
    Figure("max_wait", "max", "longest wait, seconds", 12, better=-1),
    Figure(
        "mean_bounded_slowdown", "slowdown", "mean bounded slowdown (10 s)", 2, ratio, better=-1
    ),
    Figure("median_bounded_slowdown", "sd median", "median bounded slowdown", 15, ratio, better=-1),
    Figure(
        "p95_bounded_slowdown",
        "sd p95",
        "95th percentile of bounded slowdown",
        14,
        ratio,
        better=-1,
    ),
    Figure("utilization", "used %", "used share of the machine, %", 3, share, better=1),
    Figure("mean_turnaround", "turnaround s", "mean from submit to end, seconds", 13, better=-1),
    Figure("makespan", "makespan s", "first submit to last end, seconds", 6, better=-1),
    Figure("fairness.jain", "fair", "Jain's index over users, 1 is even", 8, index, better=1),
    Figure(
        "fairness.worst_mean_bounded_slowdown",
        "worst user",
        "mean bounded slowdown of the worst-off user",
        11,
        ratio,
        better=-1,
    ),
    Figure(
        "fairness.median_mean_bounded_slowdown",
        "median user",
        "mean bounded slowdown of the median user",
        16,
        ratio,
        better=-1,
    ),
    Figure("fragmentation", "fragm. %", "GPUs free but of no use, %", 7, ratio, better=-1),
    Figure("unallocated_gpus", "free GPUs", "GPUs that nobody holds at the end", 7, better=-1),
    Figure("unallocated", "free %", "mean share that nobody held, %", 17, share, better=-1),
    Figure("preemptions", "preempted", "preemptions", 9, better=-1, rare=True),
    Figure("lost_work_s", "lost s", "work done again, processor-seconds", 10, better=-1, rare=True),
    Figure("killed", "killed", "jobs stopped at their limit", 13, rare=True),
    Figure("too_large", "too large", "jobs larger than the machine, left out", 13, rare=True),
    Figure("unfinished", "unfinished", "jobs that never ran to an end", 10, better=-1, rare=True),
    Figure("never_started", "not started", "jobs that never ran", 10, better=-1, rare=True),
    Figure("jobs", "jobs", "jobs played", 18),
    Figure("cpu_seconds", "CPU s", "seconds of CPU that the run took", 20),
    Figure("jobs_per_second", "jobs/CPU s", "jobs played per second of CPU", 19),
)


def shown(summaries: Sequence[Summary]) -> list[Figure]:
    """The figures that at least one of the runs has something to say about."""
    return [figure for figure in FIGURES if _speaks(figure, summaries)]


def _speaks(figure: Figure, summaries: Sequence[Summary]) -> bool:
    values = [figure.of(summary) for summary in summaries]
    if figure.rare:
        return any(values)
    return any(value is not None for value in values)


def best(figure: Figure, summaries: Mapping[str, Summary]) -> set[str]:
    """Which policies show the best value; none where all show the same or it is no contest."""
    values = {
        policy: value
        for policy, summary in summaries.items()
        if (value := figure.of(summary)) is not None
    }
    if not figure.better or not values:
        return set()
    top = figure.show(max(values.values(), key=lambda value: figure.better * value))
    # What reads the same is the same to the reader.
    winners = {policy for policy, value in values.items() if figure.show(value) == top}
    return set() if len(winners) == len(values) else winners
