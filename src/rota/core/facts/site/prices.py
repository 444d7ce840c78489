"""What an hour costs: rates by the kind of machine and device, and the price of what is held.

A rate is written ``UNIT[/LABEL=VALUE] PRICE``: ``gpu 1.5``, ``gpu/type=H100 4``,
``node/cluster=hpc 0.8``. Units are ``node``, ``gpu`` (any device), ``cpu`` and ``mem`` (a GiB),
each for an hour. ``type`` is the model of a device, ``cluster`` the cluster; all else are labels of
the node. Of several rates of a unit that apply the last one counts.
"""

from __future__ import annotations

from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rota.core.facts.placing import CLUSTER, cluster_of
from rota.core.facts.site.models import is_variant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rota.core.facts.node import Allocation, NodeSpec
    from rota.core.facts.resources import Amount

UNITS = ("node", "gpu", "cpu", "mem")
TYPE = "type"
HOUR_S = 3600.0
_HIGHEST = 1e9
_FORM = "expected UNIT[/LABEL=VALUE] PRICE such as 'gpu/type=H100 4'"


class PriceRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is charged. Without rates nothing costs anything."""

    rates: tuple[str, ...] = ()
    #: Shown behind amounts of money: ``EUR``, ``credits``.
    currency: str = ""


class Rate(NamedTuple):
    unit: str
    key: str
    value: str
    price: float


def parse_rate(text: str) -> Rate:
    """``ValueError`` says what is wrong with it."""
    what, _, amount = text.strip().rpartition(" ")
    unit, _, condition = what.strip().partition("/")
    key, _, value = condition.partition("=")
    if unit not in UNITS:
        raise ValueError(f"{text!r} is not valid; a unit is one of {', '.join(UNITS)}; {_FORM}")
    if bool(condition) != bool(key and value) or (key == TYPE and unit != "gpu"):
        raise ValueError(f"{text!r} is not valid; {_FORM}, and type goes with gpu")
    try:
        price = float(amount)
    except ValueError:
        price = -1.0
    if not (isfinite(price) and 0 <= price <= _HIGHEST):
        raise ValueError(f"{text!r} is not valid; a price is a number from 0 on; {_FORM}")
    return Rate(unit, key, value, price)


@lru_cache(64)
def _parsed(rates: tuple[str, ...]) -> tuple[Rate, ...]:
    return tuple(parse_rate(text) for text in reversed(rates))


def _rate(
    prices: PriceRules, unit: str, labels: Mapping[str, str], cluster: str, model: str = ""
) -> float:
    for rate in _parsed(prices.rates):
        if rate.unit != unit:
            continue
        if rate.key == TYPE:
            applies = is_variant(model, rate.value)
        elif rate.key == CLUSTER:
            applies = rate.value == cluster
        else:
            applies = not rate.key or labels.get(rate.key) == rate.value
        if applies:
            return rate.price
    return 0.0


def hourly(
    prices: PriceRules,
    spec: NodeSpec,
    labels: Mapping[str, str],
    amount: Amount,
    models: Sequence[str],
) -> float:
    """What an hour of this much on a node costs; ``models`` are those of the devices in it.

    A node that is shared counts with the largest part that is taken of anything it has.
    """
    if not prices.rates:
        return 0.0
    cluster = cluster_of(labels)
    price = _rate(prices, "cpu", labels, cluster) * amount.cpu_milli / 1000
    price += _rate(prices, "mem", labels, cluster) * amount.memory_mib / 1024
    for model in models:
        each = amount.device_milli / 1000 / len(models)
        price += _rate(prices, "gpu", labels, cluster, model) * each
    if whole := _rate(prices, "node", labels, cluster):
        parts = (
            amount.cpu_milli / (spec.cpu_milli or 1),
            amount.memory_mib / (spec.memory_mib or 1),
            amount.device_milli / (1000 * len(spec.devices) or 1),
        )
        price += whole * max(parts)
    return price


def models_of(spec: NodeSpec, allocation: Allocation) -> list[str]:
    """The models of the devices that an allocation keeps from others."""
    if allocation.keeps is not None:
        return [device.model for device in spec.devices if device.usable]
    held = set(allocation.devices)
    return [device.model for device in spec.devices if device.index in held]


def money(amount: float, currency: str = "") -> str:
    """``12.50 EUR``; a sum below a cent keeps two digits that count."""
    text = f"{amount:.2f}" if amount >= 0.01 or not amount else f"{amount:.2g}"
    return f"{text} {currency}".rstrip()
