"""[gpus]: what is measured of GPUs, and what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.core.words.units import parse_duration_s
from rota.settings.checks import at_least, one_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: What becomes of a job that holds more GPU memory than it asked for.
OVERUSES = ("warn", "end")


class GpuSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[gpus]: for all nodes."""

    #: Agents measure their devices and jobs so often, in seconds; 0: they do not.
    measure_s: float = 5.0
    #: A job that holds more memory of a shared GPU than it asked for: ``warn`` its owner, or also
    #: ``end`` it.
    overuse: str = "warn"
    #: The owner of a job is told when a GPU that it has to itself did nothing for so long;
    #: empty: never.
    idle_after: str = "30m"
    #: A device that reported this many failures within a day is kept from jobs; 0: never.
    failures: int = 3

    @property
    def idle_after_s(self) -> float:
        return float(parse_duration_s(self.idle_after)) if self.idle_after else 0.0


#: Setting -> what refuses a bad value of it.
CHECKS: dict[str, Callable[[Any], object]] = {
    "gpus.measure_s": at_least(0),
    "gpus.overuse": one_of(OVERUSES),
    "gpus.idle_after": lambda text: parse_duration_s(text) if text else 0,
    "gpus.failures": at_least(0),
}
