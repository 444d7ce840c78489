"""Which rules a name on the command line stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.errors import Rejected
from rota.core.facts.policy import DEFAULT, Backfill, PlaceRules, Policy
from rota.core.words.policy_text import nearest
from rota.core.words.presets import ALIASES, PRESETS

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Rules that know how long jobs will take and move them at will. The value: weighed by size.
RANKED: Mapping[str, bool] = {"srtf": False, "srsf": True}
#: Strategies that a list of pods is placed by: all that a live site may choose.
PLACINGS = ("score", "first-fit", "best-fit", "fgd", "spread", "dotprod", "gpu-packing")
#: Between an order and the placement that is played with it: ``easy+best-fit``.
WITH = "+"

#: More jobs than wait in any log: a live site promises a bounded number a start.
EVERY_JOB = 1 << 30


def check_name(name: str) -> str:
    """The policy's own name, or a refusal that names the nearest."""
    order, plus, placing = name.partition(WITH)
    if plus:
        return _known(order, [*PRESETS]) + WITH + _known(placing, [*PLACINGS])
    return _known(name, [*PRESETS, *RANKED, *PLACINGS])


def _known(name: str, known: list[str]) -> str:
    name = ALIASES.get(name, name)
    if name not in known:
        raise Rejected(
            f"policy: {name!r} is not known; {nearest(name, known)}",
            field="policy",
            value=name,
            allowed=", ".join(known),
        )
    return name


def rules_of(name: str, *, spare: bool = True) -> Policy:
    """The rules of a name.

    A named rule is played pure: that no job waits for ever, and that wrong estimates are not
    believed again, is part of the live policies and of ``default`` only.
    """
    order_by, _, placing = name.partition(WITH)
    if placing:
        rules = rules_of(order_by, spare=spare)
        place = msgspec.structs.replace(rules.place, strategy=placing)
        return msgspec.structs.replace(rules, place=place)
    if name in PLACINGS:
        return msgspec.structs.replace(DEFAULT, place=PlaceRules(strategy=name))
    policy = PRESETS[name]
    if policy is DEFAULT:
        return policy
    order = msgspec.structs.replace(policy.order, wait_max_s=0)
    backfill = msgspec.structs.replace(policy.backfill, stretch=False)
    if backfill.kind is Backfill.CONSERVATIVE:
        backfill = msgspec.structs.replace(backfill, depth=EVERY_JOB)
    else:
        backfill = msgspec.structs.replace(backfill, spare=spare)
    return msgspec.structs.replace(policy, order=order, backfill=backfill)
