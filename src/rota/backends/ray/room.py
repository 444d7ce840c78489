"""What we hold and what others hold of Ray's nodes: whether an attempt fits now.

Ray writes down what is in use every few seconds. What of that is ours is known here, so the rest is
held by others; and what we have taken or let go of since then counts at once. A job that Ray takes
in and that does not fit waits there, where only a job of its own can take it out again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from rota.backends.ray.package import claimed
from rota.backends.ray.records import RayAmount, RayUse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rota.backends.ray.records import RayJob

#: What Ray writes down may be this much older than it says, and it lets go of things late.
LAG_S = 6.0
#: A claim of which Ray has heard nothing for so long came to nothing.
UNHEARD_S = 90.0
#: What has not begun after so long waits for something else than a processor.
START_S = 30.0


class RayClaim(NamedTuple):
    """What one job of ours holds of each of its nodes. Without any it may be on all."""

    nodes: tuple[str, ...]
    amount: RayAmount
    since_s: float
    #: The same by our own clock: Ray's may be another.
    seen_s: float
    until_s: float = math.inf
    #: Whether Ray has its process now.
    begun: bool = False

    def on(self, node: str) -> bool:
        return not self.nodes or node in self.nodes


class RayRoom:
    """Claims of ours by the id of their job."""

    def __init__(self) -> None:
        self._claims: dict[str, RayClaim] = {}

    def take(self, number: str, nodes: tuple[str, ...], amount: RayAmount, now_s: float) -> None:
        self._claims[number] = RayClaim(nodes, amount, now_s, now_s)

    def drop(self, number: str) -> None:
        self._claims.pop(number, None)

    def see(self, jobs: Iterable[RayJob], names: Mapping[str, str], now_s: float) -> None:
        """A whole list of ours; ``names`` of nodes by their ids."""
        listed = {}
        for job in jobs:
            nodes, amount = claimed(job)
            if not nodes and (name := names.get(job.driver_node_id or "")):
                nodes = (name,)
            until_s = (job.ended_s or now_s) if job.over else math.inf
            begun = job.status != "PENDING"
            before = self._claims.get(job.id)
            seen_s = before.seen_s if before is not None else now_s
            listed[job.id] = RayClaim(nodes, amount, job.started_s, seen_s, until_s, begun)
        past = {
            number: claim
            for number, claim in self._claims.items()
            if number not in listed and _recent(claim, now_s)
        }
        self._claims = past | listed

    def let_go(self, number: str, now_s: float) -> None:
        """It has ended, and Ray shall forget it."""
        if (claim := self._claims.get(number)) is not None:
            self._claims[number] = claim._replace(until_s=min(claim.until_s, now_s))

    def foreign(self, node: str, node_id: str, use: RayUse) -> RayAmount:
        """What others hold, as far as Ray has written it down: rather too little than too much."""
        used = use.used.get(node_id, RayAmount())
        for claim in self._claims.values():
            counted = claim.since_s <= use.at_s + 1 and claim.until_s >= use.at_s - LAG_S
            if counted and claim.on(node):
                used = used.less(claim.amount)
        return used

    def starting(self, node: str, now_s: float) -> int:
        """How many of ours are being started there, or without a node in all of Ray."""
        return sum(
            claim.until_s == math.inf
            and not claim.begun
            and now_s - claim.seen_s < START_S
            and (not node or claim.on(node))
            for claim in self._claims.values()
        )

    def ours(self, node: str) -> RayAmount:
        held = RayAmount()
        for claim in self._claims.values():
            if claim.until_s == math.inf and claim.on(node):
                held = held.plus(claim.amount)
        return held


def _recent(claim: RayClaim, now_s: float) -> bool:
    """Ended a moment ago, or handed in a moment ago."""
    if claim.until_s < math.inf:
        return now_s - claim.until_s < 2 * LAG_S
    return now_s - claim.seen_s < UNHEARD_S
