"""Which devices of a node a task gets: near each other, and so that large tasks still fit later.

Exclusive tasks stay within one NUMA domain where one suffices, the smallest such domain, on
devices with the most links among them. Shared tasks fill the fullest device that still has room.
Parts of a device (MIG) are devices of their own, but never handed out beside the whole one.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rota.core.facts.node import Device
    from rota.core.facts.resources import Request

#: Subsets looked at one by one in search of the most links; beyond that the search is greedy.
SUBSETS_MAX = 128


class DeviceLike(Protocol):
    """What a choice must know about a device within a pass."""

    @property
    def device(self) -> Device: ...
    @property
    def taken(self) -> int: ...
    @property
    def sharers(self) -> int: ...
    @property
    def shared_mib(self) -> int: ...
    @property
    def foreign_mib(self) -> int: ...
    @property
    def foreign_pids(self) -> int: ...
    @property
    def left_milli(self) -> int: ...

    def offers(self, request: Request) -> bool: ...


def open_devices(request: Request, rooms: Collection[DeviceLike]) -> list[DeviceLike]:
    """Devices that the request could be given, all of them together: never a whole and its part."""
    found = [room for room in rooms if not room.taken and room.offers(request)]
    for room in rooms:
        if room.device.parent >= 0:
            return _without_overlap(request.device_count, found, [*rooms])
    return found


def _without_overlap(
    count: int, found: list[DeviceLike], every: Sequence[DeviceLike]
) -> list[DeviceLike]:
    """Take off what is blocked by a used part or whole, then cut up as few whole ones as needed."""
    used = {r.device.index for r in every if r.taken or r.sharers or r.foreign_pids}
    cut = {room.device.parent for room in every if room.device.index in used}
    free = [r for r in found if r.device.index not in cut and r.device.parent not in used]
    pieces: dict[int, int] = {}
    for room in free:
        if room.device.parent >= 0:
            pieces[room.device.parent] = pieces.get(room.device.parent, 0) + 1
    whole = [room.device.index for room in free if room.device.index in pieces]
    kept = set(whole)
    enough = len(free) - sum(pieces[index] for index in whole)
    for index in sorted(whole, key=lambda i: (-pieces[i], i)):
        if enough >= count:
            break
        kept.discard(index)
        enough += pieces[index] - 1
    return [
        room
        for room in free
        if room.device.parent not in kept
        and (room.device.index not in pieces or room.device.index in kept)
    ]


def choose_devices(
    request: Request, rooms: Sequence[DeviceLike], how: str, seed: int
) -> tuple[int, ...]:
    """The indices of the devices, in order; empty when there are not enough.

    ``rooms`` are the devices that offer what is asked for (``open_devices``). ``how`` is
    ``numa``, ``sequential`` (low indices first) or ``random``, which is a shuffle that depends
    on ``seed`` and the devices' identities only.
    """
    count = request.device_count
    if len(rooms) <= count:
        return tuple(sorted(r.device.index for r in rooms)) if len(rooms) == count else ()
    if request.shared:
        return _fullest(rooms, count, how, seed)
    devices = [room.device for room in rooms]
    if how == "sequential":
        return tuple(sorted(device.index for device in devices)[:count])
    if how == "random":
        devices.sort(key=lambda device: (_chance(seed, device), device.index))
        return tuple(sorted(device.index for device in devices[:count]))
    return _near(devices, count)


def _chance(seed: int, device: Device) -> bytes:
    return blake2b(f"{seed} {device.uuid}".encode(), digest_size=8).digest()


def _fullest(rooms: Sequence[DeviceLike], count: int, how: str, seed: int) -> tuple[int, ...]:
    """Devices in use before idle ones, and among them those with the least memory left."""

    def emptiness(room: DeviceLike) -> tuple[bool, int, bytes, int]:
        left = room.device.memory_mib - room.shared_mib - room.foreign_mib
        mixed = _chance(seed, room.device) if how == "random" else b""
        return not room.sharers, left, mixed, room.device.index

    if count == 1:
        return (min(rooms, key=emptiness).device.index,)
    return tuple(sorted(room.device.index for room in sorted(rooms, key=emptiness)[:count]))


def _near(devices: list[Device], count: int) -> tuple[int, ...]:
    domains: dict[int, list[Device]] = {}
    for device in devices:
        domains.setdefault(device.numa, []).append(device)
    if count == 1:
        return (_loneliest(domains),)
    enough = [group for group in domains.values() if len(group) >= count]
    if not enough:
        return tuple(sorted(_across(domains, count)))
    size = min(map(len, enough))
    picks = [_linked(group, count) for group in enough if len(group) == size]
    return min(picks, key=lambda pick: (-pick[0], pick[1]))[1]


def _loneliest(domains: dict[int, list[Device]]) -> int:
    """One device: from the domain with the fewest left, and rather one without linked peers."""
    group = min(domains.values(), key=lambda group: (len(group), group[0].numa))
    if not any([device.links for device in group]):
        return min([device.index for device in group])
    present = {device.index for device in group}
    return min([(len(present.intersection(d.links)), d.index) for d in group])[1]


def _linked(group: list[Device], count: int) -> tuple[int, tuple[int, ...]]:
    """The devices of the group with the most links among them, and how many links that is."""
    links = {device.index: frozenset(device.links) for device in group}
    order = sorted(links)
    if not any(links.values()) or len(order) == count:
        return _links_in(tuple(order[:count]), links), tuple(order[:count])
    if comb(len(order), count) <= SUBSETS_MAX:
        subsets = combinations(order, count)
        return min(
            ((_links_in(subset, links), subset) for subset in subsets),
            key=lambda pick: (-pick[0], pick[1]),
        )
    chosen = [max(order, key=lambda index: (len(links[index].intersection(order)), -index))]
    while len(chosen) < count:
        rest = (index for index in order if index not in chosen)
        chosen.append(max(rest, key=lambda i: (len(links[i].intersection(chosen)), -i)))
    subset = tuple(sorted(chosen))
    return _links_in(subset, links), subset


def _links_in(subset: tuple[int, ...], links: dict[int, frozenset[int]]) -> int:
    return sum(len(links[index].intersection(subset)) for index in subset)


def _across(domains: dict[int, list[Device]], count: int) -> list[int]:
    """The fewest domains: whole large ones first, the rest from the smallest that suffices."""
    groups = sorted(domains.values(), key=lambda group: (-len(group), group[0].numa))
    chosen: list[int] = []
    while len(chosen) < count:
        missing = count - len(chosen)
        group = next((g for g in reversed(groups) if len(g) >= missing), groups[0])
        groups.remove(group)
        chosen.extend(_linked(group, min(missing, len(group)))[1])
    return chosen
