"""How well policies decide: bounded slowdown and longest wait beside EASY's, on all shared logs.

Each row is one policy on one log: its mean bounded slowdown over that of EASY with the users'
estimates; the note has its longest wait over EASY's. ``default`` has bars where a log has load.
"""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING

from bench.peers import shared_folder
from bench.report import Row, ratio_at_most, value_at_most
from rota.sim.figures import summarise
from rota.sim.machine import machine_for
from rota.sim.readers import read_trace
from rota.sim.settings import SimEstimates, SimSettings
from rota.sim.simulate import simulate

if TYPE_CHECKING:
    from pathlib import Path

    from bench.context import Context
    from rota.sim.trace import Trace

SECTION = "decide"
SLOWDOWN_MAX, WAIT_MAX, MEAN_MAX = 0.70, 1.5, 0.55
#: Below this mean bounded slowdown under EASY hardly anybody waits: there is nothing to gain.
LOADED = 5.0
JOBS_QUICK = 3_000
#: A policy, where its run times come from, and what it is called here.
POLICIES = (
    ("default", None, "default"),
    ("default", SimEstimates.USER, "default, users' estimates"),
    ("easy-sjbf", None, "easy-sjbf"),
    ("easy", SimEstimates.PREDICTED, "easy, predicted"),
    ("easy-sjbf", SimEstimates.PREDICTED, "easy-sjbf, predicted"),
    ("conservative", None, "conservative"),
)


def measure(context: Context) -> list[Row]:
    shared = shared_folder()
    logs = sorted((shared / "traces" / "swf").glob("*.swf.gz")) if shared else []
    if not logs:
        note = "the logs are not in the shared folder"
        return [Row(SECTION, "slowdown over EASY's", None, "ratio", note=note)]
    rows: list[Row] = []
    ratios: list[float] = []
    for path in logs:
        context.say(f"decide: {path.name}")
        found, ratio = _rows(context, path)
        rows += found
        if ratio is not None:
            ratios.append(ratio)
    mean = exp(sum(map(log, ratios)) / len(ratios))
    what = f"default: geometric mean over {len(ratios)} logs with load"
    return [*rows, Row(SECTION, what, round(mean, 3), "of EASY's", bar=value_at_most(MEAN_MAX))]


def _rows(context: Context, path: Path) -> tuple[list[Row], float | None]:
    """One log under all policies, and what ``default`` comes to; None: there is no load."""
    trace = read_trace(path)
    trace.jobs = trace.jobs[: context.pick(len(trace.jobs), JOBS_QUICK)]
    easy_slowdown, easy_wait_s = _played(trace, "easy", None)
    loaded = easy_slowdown >= LOADED
    rows, own = [], None
    for name, estimates, title in POLICIES:
        slowdown, wait_s = _played(trace, name, estimates)
        ratio, waits = slowdown / easy_slowdown, wait_s / easy_wait_s
        judged = title == "default" and loaded
        own = ratio if judged else own
        rows.append(
            Row(
                SECTION,
                f"{path.name.removesuffix('.swf.gz')}: {title}",
                round(slowdown, 2),
                "mean bounded slowdown",
                "EASY",
                round(easy_slowdown, 2),
                round(ratio, 3),
                ratio_at_most(SLOWDOWN_MAX) if judged else None,
                note=f"longest wait {waits:.2f} x EASY's {easy_wait_s / 86400:.1f} d",
            )
        )
        if judged:
            what = f"{path.name.removesuffix('.swf.gz')}: {title}, longest wait"
            bar = value_at_most(WAIT_MAX)
            rows.append(Row(SECTION, what, round(waits, 2), "x EASY's", bar=bar))
    return rows, own


def _played(trace: Trace, name: str, estimates: SimEstimates | None) -> tuple[float, float]:
    """Mean bounded slowdown and longest wait."""
    run = simulate(trace, machine_for(trace), name, SimSettings(estimates=estimates))
    figures = summarise(run)
    return figures["mean_bounded_slowdown"], figures["max_wait"]
