"""Amounts as Kubernetes writes them: ``2000m``, ``1.5Gi``, ``100u``, ``12e6``."""

from __future__ import annotations

import re
from decimal import Decimal
from types import MappingProxyType

_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE]([+-]?[0-9]+)|([KMGTPE]i|[numkMGTPE]?))"
)
_POWERS = MappingProxyType(
    {"n": -3, "u": -2, "m": -1, "": 0} | {unit: at for at, unit in enumerate("kMGTPE", 1)}
)


def number_of(text: object) -> float:
    """What is no amount is none: one pod of a stranger must not hide all others."""
    found = _QUANTITY.fullmatch(str(text).strip())
    if found is None:
        return 0.0
    number, power, unit = found.groups()
    if power is not None:
        return float(f"{number}e{power}")
    binary = unit.endswith("i")
    power = _POWERS[unit.removesuffix("i").replace("K", "k") if binary else unit]
    return float(Decimal(number) * Decimal(1024 if binary else 1000) ** power)
