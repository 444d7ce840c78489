"""The openb list of pods on its nodes: how fast it is placed, and how near to what was published.

One round per seed, which is one order of pods and nodes. Rates are pods per second of CPU time
through the whole core; reading the lists is not in them.
"""

from __future__ import annotations

import csv
import gc
import gzip
import statistics
from typing import TYPE_CHECKING

from bench.peers import shared_folder
from bench.report import Row, value_at_least, value_at_most
from rota.core.facts.policy import DEFAULT
from rota.sim.placing import place_list
from rota.sim.readers.openb import read_nodes, read_pods

if TYPE_CHECKING:
    from pathlib import Path

    from bench.context import Context
    from rota.sim.run import Run

SECTION = "sim"
RATE_MIN = 2_000
POINTS_MAX = 0.01
#: The best of the published curves, at its end.
GIVEN_MIN = 95.38
SEEDS = range(42, 47)
STEPS = range(0, 131, 5)
#: What each strategy is called in the published table.
PUBLISHED = {
    "best-fit": "05-BestFit",
    "fgd": "06-FGD",
    "gpu-packing": "04-GpuPacking",
    "dotprod": "02-DotProd",
}


def measure(context: Context) -> list[Row]:
    shared = shared_folder()
    if shared is None or not (shared / "traces" / "gpu").is_dir():
        note = "the openb lists are not in the shared folder"
        return [Row(SECTION, "placing the openb list", None, "pods / CPU s", note=note)]
    rows: list[Row] = []
    seeds = SEEDS[: context.pick(len(SEEDS), 1)]
    for strategy in [*PUBLISHED][: context.pick(len(PUBLISHED), 2)]:
        context.say(f"sim: placing openb by {strategy}")
        rows += _rows(shared / "traces", strategy, seeds)
    context.say("sim: placing openb by the default")
    return [*rows, _default_row(shared / "traces", seeds)]


def _default_row(traces: Path, seeds: range) -> Row:
    """What the default gives out when 130 % have been asked for, the mean over the seeds."""
    given = [_curve(_placed(traces / "gpu", DEFAULT.place.strategy, seed))[130] for seed in seeds]
    return Row(
        SECTION, "openb by the default: given out at 130 % asked", statistics.mean(given), "%",
        bar=value_at_least(GIVEN_MIN), note=", ".join(f"{one:.2f}" for one in given),
    )  # fmt: skip


def _rows(traces: Path, strategy: str, seeds: range) -> list[Row]:
    rates, deviations = [], []
    for seed in seeds:
        gc.collect()
        run = _placed(traces / "gpu", strategy, seed)
        rates.append(len(run.jobs) / run.cpu_s)
        deviations.append(_deviation(run, _published(traces / "expected", strategy, seed)))
    spread = f"{min(rates):,.0f} to {max(rates):,.0f}, {len(run.jobs):,} pods, seeds {seeds[0]} on"
    worst = f"largest distance in {len(STEPS)} points of the curve for each of {len(seeds)} seeds"
    return [
        Row(
            SECTION, f"openb by {strategy}", statistics.median(rates), "pods / CPU s",
            bar=value_at_least(RATE_MIN), note=spread,
        ),
        Row(
            SECTION, f"openb by {strategy}: off the published curve", max(deviations), "points",
            bar=value_at_most(POINTS_MAX), note=worst,
        ),
    ]  # fmt: skip


def _placed(folder: Path, strategy: str, seed: int) -> Run:
    return place_list(
        read_pods(folder / "openb_pod_list_default.csv.gz"),
        read_nodes(folder / "openb_node_list_gpu_node.csv.gz"),
        strategy,
        _names(folder / f"openb_default.seed{seed}.pods.txt.gz"),
        _names(folder / f"openb_default.seed{seed}.nodes.txt.gz"),
    )


def _names(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().split()


def _published(folder: Path, strategy: str, seed: int) -> dict[int, float]:
    path = folder / "openb_alloc_published_seeds42-46.csv.gz"
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            if row["sc_policy"] == PUBLISHED[strategy] and row["seed"] == str(seed):
                return {at: float(row[str(at)]) for at in STEPS}
    raise AssertionError(f"{path.name} has no row for {PUBLISHED[strategy]} with seed {seed}")


def _deviation(run: Run, published: dict[int, float]) -> float:
    """In points, to the digits that were published."""
    curve = _curve(run)
    return float(max(round(abs(curve[at] - value), 2) for at, value in published.items()))


def _curve(run: Run) -> dict[int, float]:
    curve = run.extra["allocated"]
    assert isinstance(curve, dict)
    return curve
