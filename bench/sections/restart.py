"""``kill -9`` of a controller with a long record: how soon does the next one serve?"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from bench import scene
from bench.report import Row, against, value_at_most
from bench.rota import Broken

if TYPE_CHECKING:
    from bench.context import Context
    from bench.rota import Rota

SECTION = "restart"
RECORD, RECORD_QUICK = 100_000, 10_000
SERVES_S_MAX = 5


def measure(context: Context) -> list[Row]:
    count = context.pick(RECORD, RECORD_QUICK)
    rounds = context.pick(3, 1)
    with context.rota("empty") as rota:
        empty = Times(rota, rounds)
    with context.rota(SECTION) as rota:
        scene.block(rota)
        ids = scene.fill(rota, count)
        # Half of them final, half of them waiting: what a controller finds after a busy week.
        for start in range(0, count // 2, 1000):
            rota.wire.post("/jobs:cancel", {"ids": ids[start : start + 1000]})
        full = Times(rota, rounds)
        last = rota.wire.get(f"/jobs/{ids[-1]}")
        if last["state"] != "queued":
            raise Broken(f"the last of {count} jobs is {last['state']} after the restart")
    what = f"{count:,} jobs on record: kill -9 of "
    return [
        compared(what + "the controller, to the next answer", full.controller, empty.controller),
        compared(what + "everything, `rota up` to first answer", full.everything, empty.everything),
    ]


class Times:
    """Seconds until Rota serves again, over some rounds."""

    def __init__(self, rota: Rota, rounds: int) -> None:
        self.controller = [rota.kill_controller() for _ in range(rounds)]
        self.everything: list[float] = []
        for _ in range(rounds):
            rota.kill_all()
            self.everything.append(rota.start())


def compared(what: str, full: list[float], empty: list[float]) -> Row:
    return against(
        SECTION, what, "s", statistics.median(full), "with nothing on record, s",
        statistics.median(empty), value_at_most(SERVES_S_MAX),
        samples={"full": full, "empty": empty},
    )  # fmt: skip
