"""Who comes first among those that wait for room: they get the promises."""

from __future__ import annotations

from heapq import heapify, heappop
from typing import TYPE_CHECKING

from rota.scheduling.later.promises import MANY_FULL
from rota.scheduling.order.account_queues import key_of
from rota.scheduling.order.key_memo import holds

if TYPE_CHECKING:
    from rota.core.derived.lanes import Lane
    from rota.scheduling.passes import Pass
    from rota.scheduling.scheduler import Scheduler

#: A key, and the number of its lane.
Ranked = tuple[tuple[float, ...], int]


class Firsts:
    """Found anew by each pass; where very many wait, once a second."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._numbers: list[int] = []
        self._found_s = float("-inf")

    def find(self, this: Pass, count: int) -> list[Lane]:
        """Those lanes that wait for room and come first in the order of the policy."""
        lanes, full = this.cluster.lanes.by_number, self._scheduler.full
        if len(full) > MANY_FULL and 0 <= this.now_s - self._found_s < 1.0:
            first = [lanes[n] for n in self._numbers if n in full and n in lanes]
            if len(first) == min(count, len(self._numbers)) > 0:
                return first
        self._found_s = this.now_s
        by_account: dict[tuple[str, str], list[Ranked]] = {}
        for number in [*full]:
            lane = lanes.get(number)
            own = this.own_key(lane) if lane is not None else None
            if own is not None and lane is not None:
                by_account.setdefault(lane.account, []).append((own, number))
        if this.is_fixed and self._scheduler.checks_keys:
            # Own keys say it all, and are right.
            ranked = [one for found in by_account.values() for one in found]
            return self._note(_least(this, ranked, count), lanes)
        ranked = [
            (key, number)
            for found in by_account.values()
            for _, number in _least(this, found, count)
            if (key := _full_key(this, lanes[number])) is not None
        ]
        return self._note(sorted(ranked)[:count], lanes)

    def _note(self, chosen: list[Ranked], lanes: dict[int, Lane]) -> list[Lane]:
        self._numbers = [number for _, number in chosen]
        return [lanes[number] for number in self._numbers]


def _least(this: Pass, ranked: list[Ranked], count: int) -> list[Ranked]:
    """The first of these lanes that wait for room and for nothing else."""
    lanes = this.cluster.lanes.by_number
    chosen: list[Ranked] = []
    heapify(ranked)
    while ranked and len(chosen) < count:
        one = heappop(ranked)
        # Many were passed over with their shape: only now it matters what else they wait for.
        if not this.is_capped(lanes[one[1]]):
            chosen.append(one)
    return chosen


def _full_key(this: Pass, lane: Lane) -> tuple[float, ...] | None:
    """The key of a lane's first job with all that counts; None when it has no job left."""
    if this.is_fixed and holds(lane, this.cluster, this.now_s):
        return lane.note
    head = this.head(lane)
    return key_of(this, head, this.view) if this.open(head) else None
