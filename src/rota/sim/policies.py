"""Which rules a name on the command line stands for, and what plays them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.errors import Rejected
from rota.core.facts.policy import DEFAULT, PlaceRules, Policy
from rota.core.words.policy_text import nearest
from rota.core.words.presets import ALIASES, PRESETS

if TYPE_CHECKING:
    from collections.abc import Mapping


class Player(StrEnum):
    """What can play a policy."""

    #: Equal processors behind one line.
    POOL = "pool"
    #: The same, with jobs that give way at any moment.
    RANKED = "ranked"
    #: Nodes, devices and accounts, by the whole core.
    CLUSTER = "cluster"
    #: A list of jobs that come one after the other and stay: where are they put?
    PLACING = "placing"


#: Rules that know how long jobs will take and move them at will. The value: weighed by size.
RANKED: Mapping[str, bool] = {"srtf": False, "srsf": True}
#: Strategies that a list of pods is placed by.
PLACINGS = ("first-fit", "best-fit", "fgd", "spread", "dotprod", "gpu-packing")
#: Presets whose order needs nobody's account and whose backfill a pool knows.
POOLED = (
    *("fcfs", "fifo", "easy", "easy-sjbf", "conservative", "conservative-rebuild"),
    *("sjf", "sjf-easy", "saf", "wfp3", "unicef", "f1"),
)


def check_name(name: str) -> str:
    """The policy's own name, or a refusal that names the nearest."""
    name = ALIASES.get(name, name)
    known = [*PRESETS, *RANKED, *PLACINGS]
    if name not in known:
        raise Rejected(
            f"policy: {name!r} is not known; {nearest(name, known)}",
            field="policy",
            value=name,
            allowed=", ".join(known),
        )
    return name


def player_of(name: str, *, nodes: bool) -> Player:
    """What plays the policy; ``nodes``: the machine has nodes with several resources."""
    if name in PLACINGS:
        return Player.PLACING
    if name in RANKED:
        return Player.RANKED
    return Player.POOL if name in POOLED and not nodes else Player.CLUSTER


def rules_of(name: str, *, spare: bool = True) -> Policy:
    """The rules of a name.

    A named rule is played pure: that no job waits for ever, and that wrong estimates are not
    believed again, is part of the live policies and of ``default`` only.
    """
    if name in PLACINGS:
        return msgspec.structs.replace(DEFAULT, place=PlaceRules(strategy=name))
    policy = PRESETS[name]
    if policy is DEFAULT:
        return policy
    order = msgspec.structs.replace(policy.order, wait_max_s=0)
    backfill = msgspec.structs.replace(policy.backfill, spare=spare, stretch=False)
    return msgspec.structs.replace(policy, order=order, backfill=backfill)
