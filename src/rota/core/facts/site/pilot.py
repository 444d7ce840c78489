"""Pilots: allocations of an engine in which Rota's own agent runs, asked for when jobs wait."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.core.facts.errors import Rejected

#: Kinds of engines that can be asked for them.
KINDS = ("kubernetes", "slurm")
MOST_MAX = 10_000
#: Slurm counts minutes, and a shorter one is gone before it is of use.
LEAST_S = 60
LONGEST_S = 366 * 86400


class Pilot(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How allocations of one kind are asked for: of what, how many, and for how long."""

    name: str
    kind: str
    #: The most at a time, those that wait in the engine included.
    most: int = 4
    #: An allocation ends after so long.
    time_s: int = 3600
    #: It is let go when nothing has run in it for so long.
    idle_s: int = 30
    #: What one has; without CPUs: a whole node of the engine.
    cpu_milli: int = 0
    memory_mib: int = 0
    gpus: int = 0
    gpu_type: str = ""
    #: What one costs in an hour, and what all of them may cost together; 0: no bound.
    price_per_hour: float = 0.0
    spend_per_hour: float = 0.0
    #: Jobs without a time limit may start in one although it ends.
    unlimited: bool = False
    labels: dict[str, str] = {}
    #: Where its agents reach the controller; empty: where the controller listens.
    url: str = ""
    #: The program ``rota`` on its nodes; empty: where this one is here.
    program: str = ""
    #: What its engine's driver wants to know, as in ``[engines.NAME]``.
    engine: dict[str, Any] = {}

    @property
    def affordable(self) -> int:
        """How many there may be at a time, by number and by cost."""
        if not (self.spend_per_hour and self.price_per_hour):
            return self.most
        return min(self.most, int(self.spend_per_hour / self.price_per_hour + 1e-9))


def check(pilot: Pilot) -> None:
    """Refuse what cannot be meant, naming the field, the value and what is allowed."""
    plain = pilot.name.replace("-", "").isalnum() and pilot.name.isascii()
    for field, good, allowed in (
        ("name", plain and 0 < len(pilot.name) <= 32, "up to 32 letters, digits and -"),
        ("kind", pilot.kind in KINDS, " or ".join(KINDS)),
        ("most", 1 <= pilot.most <= MOST_MAX, f"1 to {MOST_MAX}"),
        ("time_s", LEAST_S <= pilot.time_s <= LONGEST_S, f"{LEAST_S} to {LONGEST_S} seconds"),
        ("idle_s", 0 < pilot.idle_s <= LONGEST_S, f"1 to {LONGEST_S} seconds"),
        ("cpus", pilot.cpu_milli >= 0, "from 0"),
        ("memory_mib", pilot.memory_mib >= 0, "from 0"),
        ("gpus", pilot.gpus >= 0, "from 0"),
        ("price_per_hour", pilot.price_per_hour >= 0, "from 0"),
        ("spend_per_hour", pilot.spend_per_hour >= 0, "from 0"),
    ):
        if not good:
            value = pilot.cpu_milli if field == "cpus" else getattr(pilot, field)
            raise Rejected.bad(field, value, allowed)
    if not pilot.cpu_milli and (pilot.memory_mib or pilot.gpus):
        raise Rejected.bad("cpus", 0, "a number, or neither memory nor gpus: a whole node")
    if not pilot.affordable:
        allowed = f"at least the price of one, {pilot.price_per_hour:g}"
        raise Rejected.bad("spend_per_hour", pilot.spend_per_hour, allowed)
