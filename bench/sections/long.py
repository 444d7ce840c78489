"""Does it slow down with what it has behind it? Two Rotas, one with a long past, measured in turn.

Taking turns cancels what else the machine does: both meet the same neighbours.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from bench.report import Row, against, ratio_at_least
from bench.sections.noop import JOBS, Way, batch, play

if TYPE_CHECKING:
    from bench.context import Context
    from bench.rota import Rota

SECTION = "long"
RATIO_MIN = 0.95
YOUNG = 1_000
OLD, OLD_QUICK = 50_000, 5_000
CHUNK = 1_000


def measure(context: Context) -> list[Row]:
    past = context.pick(OLD, OLD_QUICK)
    young, old = Way("young", batch), Way("old", batch)
    with context.rota("old") as experienced, context.rota("young") as fresh:
        live_through(context, experienced, past)
        live_through(context, fresh, YOUNG)
        for number in range(context.pick(9, 3)):
            turns = [(fresh, young), (experienced, old)]
            for rota, way in turns if number % 2 else reversed(turns):
                play(rota, way)
    ratios = [late / early for early, late in zip(young.rates, old.rates, strict=True)]
    cpu = [late / early for early, late in zip(young.cpu_ms, old.cpu_ms, strict=True)]
    return [
        against(
            SECTION, f"{JOBS} jobs after {past:,} finished", "/s", old.rate,
            f"after {YOUNG:,} finished /s", young.rate, ratio_at_least(RATIO_MIN),
            ratio=statistics.median(ratios),
            samples={"young": young.rates, "old": old.rates, "ratios": ratios},
        ),
        against(
            SECTION, f"CPU per job after {past:,} finished", "ms", statistics.median(old.cpu_ms),
            f"after {YOUNG:,} finished, ms", statistics.median(young.cpu_ms),
            ratio=statistics.median(cpu),
        ),
    ]  # fmt: skip


def live_through(context: Context, rota: Rota, count: int) -> None:
    """Run ``count`` real jobs to their end, all of them checked."""
    for start in range(0, count, CHUNK):
        ids = batch(rota, CHUNK)
        rota.await_end(ids)
        right = rota.count_right(ids)
        if right != CHUNK:
            context.say(f"only {right} of {CHUNK} jobs ended well")
        if start % (10 * CHUNK) == 0:
            context.say(f"{SECTION}: {start + CHUNK:,} of {count:,} jobs have run")
