"""[pilots.NAME], and what ``rota engine pilot`` takes: one reader for both.

Keys that are not here are those of the engine's driver, as in [engines.NAME].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rota.core.facts.errors import Rejected
from rota.core.facts.site.pilot import Pilot, check
from rota.core.words.units import parse_cpu_milli, parse_duration_s, parse_memory_mib

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: How people write it -> the field, and how it is read.
_READ: dict[str, tuple[str, Callable[[str], object]]] = {
    "time": ("time_s", parse_duration_s),
    "idle": ("idle_s", parse_duration_s),
    "cpus": ("cpu_milli", parse_cpu_milli),
    "memory": ("memory_mib", parse_memory_mib),
    "price": ("price_per_hour", float),
    "spend": ("spend_per_hour", float),
}
_PLAIN = ("kind", "most", "gpus", "gpu_type", "unlimited", "labels", "url", "program")


def read_pilot(name: str, table: Mapping[str, Any], where: str) -> Pilot:
    """What a table says; ``where`` stands before what is wrong with it."""
    fields = read_fields(table, where)
    try:
        pilot = msgspec.convert({"name": name, **fields}, Pilot)
        check(pilot)
    except (msgspec.ValidationError, Rejected) as error:
        dot = "." if isinstance(error, Rejected) else ": "
        raise Rejected(f"{where}{dot}{error}") from None
    return pilot


def read_fields(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The fields of a pilot that a table names, the keys of its engine among them."""
    fields: dict[str, Any] = {}
    engine: dict[str, Any] = {}
    for key, value in table.items():
        if key in _READ:
            field, read = _READ[key]
            try:
                fields[field] = read(str(value))
            except ValueError as error:
                raise Rejected(f"{where}.{key}: {error}", field=key) from None
        elif key in _PLAIN:
            fields[key] = value
        else:
            engine[key] = value
    return fields | ({"engine": engine} if engine else {})
