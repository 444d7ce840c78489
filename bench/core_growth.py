"""How the time of a full pass grows with the queue, and a picture of it."""

from __future__ import annotations

import gc
import math
from typing import TYPE_CHECKING

from bench import crowd, gauge
from bench.chart import Series, log_chart
from bench.peers import REPOSITORY
from bench.report import Row, value_at_most
from rota.controller.chores.garbage import quiet_collector
from rota.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from bench.context import Context

SECTION = "core"
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
QUICK = (1_000, 3_000, 10_000)
#: n log n is a slope of 1; the rest is what two measurements of the same thing differ by.
SLOPE_MAX = 1.05
PICTURE = REPOSITORY / "docs" / "pictures" / "core-growth.svg"


def measure(context: Context) -> list[Row]:
    """Ten jobs per node at every size, so that the same part of the queue finds room."""
    sizes = QUICK if context.quick else SIZES
    seconds = [pass_s(size, context.quick) for size in sizes]
    work = [size * math.log2(size) for size in sizes]
    rows = [
        Row(SECTION, f"growth: full pass, {size:,} jobs on {size // 10:,} nodes",
            1e6 * took / size, "us per job", note=f"{took:.3f} s")
        for size, took in zip(sizes, seconds, strict=True)
    ]  # fmt: skip
    by_n, by_work = slope(sizes, seconds), slope(work, seconds)
    rows.append(
        Row(SECTION, "growth: exponent of the time over n log n", by_work, "",
            bar=value_at_most(SLOPE_MAX), note=f"over n: {by_n:.3f}")
    )  # fmt: skip
    if not context.quick:
        draw(sizes, seconds, by_n)
        rows[-1].samples["picture"] = str(PICTURE.relative_to(REPOSITORY))
    return rows


def pass_s(job_count: int, quick: bool) -> float:
    """Median CPU time of a pass from cold: more rounds where one is short."""
    cluster = crowd.site(job_count // 10, job_count)
    quiet_collector()
    rounds = []
    for _ in range(3 if quick else max(3, min(15, 150_000 // job_count))):
        gc.collect()
        with gauge.taking() as took:
            Scheduler(cluster).run(5_000.0, 10**9)
        rounds.append(took)
    return gauge.median_cpu_s(rounds)


def slope(amounts: tuple[int, ...] | list[float], seconds: list[float]) -> float:
    """The exponent k of the best fit of seconds = c * amount ** k, by least squares of logs."""
    xs, ys = [math.log(x) for x in amounts], [math.log(y) for y in seconds]
    mean_x, mean_y = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    both = math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return both / math.fsum((x - mean_x) ** 2 for x in xs)


def draw(sizes: tuple[int, ...], seconds: list[float], exponent: float) -> None:
    """Measured times beside n log n through the first of them."""
    scale = seconds[0] / (sizes[0] * math.log2(sizes[0]))
    bound = [scale * size * math.log2(size) for size in sizes]

    def points(values: list[float]) -> list[tuple[float, float]]:
        return [*zip(sizes, values, strict=True)]

    picture = log_chart(
        "Full pass from cold: CPU seconds over queued jobs (ten per node)",
        [
            Series(f"measured, exponent {exponent:.2f}", "#1668b3", points(seconds)),
            Series("n log n", "#999999", points(bound), dashed=True),
        ],
        ("jobs", "seconds"),
    )  # fmt: skip
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(picture, encoding="utf-8")
