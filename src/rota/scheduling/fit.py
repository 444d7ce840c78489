"""Plain first fit over a handful of rooms: for what could never run, and as an oracle in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.scheduling.room import DeviceRoom, Room, is_variant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.core.node import Allocation
    from rota.core.resources import Request

__all__ = ["DeviceRoom", "Room", "is_variant", "place"]


def place(requests: Sequence[Request], rooms: Sequence[Room]) -> list[Allocation] | str:
    """Room for every task, or the dimension that is short. All or nothing.

    First fit in node order. What is taken stays taken in ``rooms``; on failure it is given back.
    """
    taken: list[tuple[Room, Allocation]] = []
    for request in requests:
        short = "nodes"
        for room in rooms:
            short = room.shortage(request)
            if not short:
                allocation = room.choose(request)
                room.take(allocation)
                taken.append((room, allocation))
                break
        else:
            for room, allocation in reversed(taken):
                room.give_back(allocation)
            return short
    return [allocation for _, allocation in taken]
