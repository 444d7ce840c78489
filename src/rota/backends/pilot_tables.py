"""From the settings of a pilot to the table of an engine, as ``registry.make`` takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.backends import registry
from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from rota.core.facts.site.pilot import Pilot

#: What the uid of each allocation begins with: no attempt's does.
PREFIX = "pilot-"
#: Keys that pilots themselves decide on.
_OURS = ("kind", "placement", "give_back_s", "backstop_s")


def table_of(pilot: Pilot, folder: str) -> dict[str, Any]:
    """Its own limit is the end of the allocation, not later. No node is named: it chooses."""
    for key in _OURS:
        if key in pilot.engine:
            raise Rejected(f"engine.{key}: a pilot has no such key", field=f"engine.{key}")
    table = {"kind": pilot.kind, "placement": "ours", **pilot.engine}
    if pilot.kind == "slurm":
        table = {"folder": folder, "backstop_s": 0, **table}
    return table


def check_table(pilot: Pilot) -> None:
    """Refuse in one line what the driver does not know."""
    registry.make(pilot.name, table_of(pilot, "/tmp"), section="pilots")
