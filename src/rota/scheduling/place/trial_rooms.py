"""Placing a whole job in a given set of rooms: plain, exact, for small sets.

Used where the rooms are not those of now: in a future moment, with victims gone, with nothing
running at all. The pass itself uses the fast way (``node_index.py``, ``gang.py``); a property test
holds the two against each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.job import ServiceClass
from rota.core.facts.placing import ground_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rota.core.derived.lanes import Shape
    from rota.core.facts.job import Role
    from rota.core.facts.node import Allocation
    from rota.scheduling.place.node_room import Room
    from rota.scheduling.place.nodeclass import NodeClass


def place_in(
    rooms: Mapping[str, Room], shape: Shape, class_of: Mapping[str, NodeClass]
) -> list[Allocation] | None:
    """Room for every task, or None. The rooms are as before afterwards.

    An elastic job is content with its least number of tasks.
    """
    placement = shape.placement
    names = [name for name in sorted(rooms) if placement.admits(name)]
    key = placement.topology
    if not key:
        return place_among(rooms, shape, names)
    groups: dict[str, list[str]] = {}
    for name in names:
        group = ground_of(class_of[name].labels, key)
        if group is not None:
            groups.setdefault(group, []).append(name)
    for group in sorted(groups):
        placed = place_among(rooms, shape, groups[group])
        if placed is not None:
            return placed
    return None


def place_among(
    rooms: Mapping[str, Room], shape: Shape, names: Sequence[str]
) -> list[Allocation] | None:
    """The same on these nodes, whatever group they are in; of a gang all in one engine, or none."""
    sides: dict[str, list[str]] = {}
    for name in names:
        sides.setdefault(rooms[name].node.spec.side, []).append(name)
    if len(sides) <= 1 or shape.task_count == 1:
        return _place_beside(rooms, shape, names)
    tries = (_place_beside(rooms, shape, sides[side]) for side in sorted(sides))
    return next((placed for placed in tries if placed is not None), None)


def _place_beside(
    rooms: Mapping[str, Room], shape: Shape, names: Sequence[str]
) -> list[Allocation] | None:
    placed: list[Allocation] = []
    whole = True
    for role in shape.roles:
        before = len(placed)
        _place_role(rooms, shape, role, names, placed)
        if len(placed) - before < shape.least_tasks(role):
            whole = False
            break
    for allocation in reversed(placed):
        rooms[allocation.node].give_back(allocation)
    return placed if whole else None


def _place_role(
    rooms: Mapping[str, Room],
    shape: Shape,
    role: Role,
    names: Sequence[str],
    placed: list[Allocation],
) -> None:
    # A pool's engine spreads them itself.
    pool = any(rooms[name].node.spec.pool for name in names)
    nodes = 0 if pool else shape.placement.node_count
    # A node that the job has to itself is open to all of its roles.
    own = {a.node for a in placed} if shape.placement.exclusive else set()
    counts = {name: count_in(rooms[name], shape, role, own=name in own) for name in names}
    wanted = role.min_count or role.count
    if nodes:
        shares = [role.count // nodes + (number < role.count % nodes) for number in range(nodes)]
        for share in shares:
            name = min(
                (n for n in names if counts[n] >= share > 0),
                key=lambda n: (counts[n], n),
                default=None,
            )
            if name is None:
                return
            counts[name] = 0
            _fill(rooms[name], shape, role, share, placed, own=name in own)
        return
    while wanted > 0:
        enough = [n for n in names if counts[n] >= wanted]
        some = [n for n in names if counts[n]]
        if not some:
            return
        name = min(enough or some, key=lambda n: (counts[n] if enough else -counts[n], n))
        some_tasks = min(wanted, counts[name])
        wanted -= _fill(rooms[name], shape, role, some_tasks, placed, own=name in own)
        counts[name] = 0


def count_in(room: Room, shape: Shape, role: Role, *, own: bool = False) -> int:
    """How many tasks of a role fit in a room, by trying; ``own``: the job is there already."""
    taken: list[Allocation] = []
    count = _fill(room, shape, role, role.count, taken, own=own)
    for allocation in reversed(taken):
        room.give_back(allocation)
    return count


def _fill(
    room: Room, shape: Shape, role: Role, tasks: int, placed: list[Allocation], *, own: bool
) -> int:
    firm = shape.service is ServiceClass.GUARANTEED
    exclusive = shape.placement.exclusive
    done = 0
    while done < tasks:
        own = own or done > 0
        if room.shortage(role.request, firm=firm, exclusive=exclusive and not own, own=own):
            break
        allocation = room.choose(role.request, firm=firm, exclusive=exclusive)
        room.take(allocation)
        placed.append(allocation)
        done += 1
    return done
