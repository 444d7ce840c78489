"""Room for all tasks of a job at once, or for none of them.

Equal tasks go to as few nodes as possible: a node that takes all that are left if there is one,
the tightest of those, else the one that takes most. With ``node_count`` they are spread evenly
over that number of nodes; with ``topology`` all nodes lie in one group. Placing is one
indivisible step of a pass, so two gangs can never hold halves of each other's room.
"""

from __future__ import annotations

from functools import partial
from itertools import islice, permutations
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rota.core.facts.placing import ground_of
from rota.core.facts.resources import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rota.core.facts.job import Role
    from rota.core.facts.node import Allocation
    from rota.core.facts.resources import Request
    from rota.scheduling.api import Entry
    from rota.scheduling.limits.quota import Short
    from rota.scheduling.place.node_checks import NodeChecks
    from rota.scheduling.place.node_index import Space
    from rota.scheduling.place.node_room import Room
    from rota.scheduling.place.wants import Want


#: The most orders of its roles that are tried for one job.
ORDERS_MAX = 6


class Placed(NamedTuple):
    """A task by its index in the job, and what it gets."""

    task: int
    allocation: Allocation


class Claims(Protocol):
    """What others have a claim on, as far as a placement must know."""

    def is_full(self, name: str, entry: Entry, request: Request) -> bool:
        """Whether plain amounts say already that a claimed node has no room for a task."""

    def window(self, name: str, entry: Entry) -> Room:
        """What is free on a node as long as the job may stay there."""


class Asker:
    """Answers for single nodes what integers cannot: claims, neighbours, names."""

    __slots__ = ("_checks", "_claims", "barred", "bonus", "entry", "group", "kept", "own",
                 "shape", "short", "side", "space", "until_s", "wants")  # fmt: skip

    def __init__(
        self, space: Space, checks: NodeChecks, claims: Claims, entry: Entry, until_s: float
    ) -> None:
        self.space = space
        self._checks = checks
        self._claims = claims
        self.entry = entry
        self.shape = entry.shape
        self.wants = space.wants(entry.key.shape, entry.shape)
        self.until_s = until_s
        #: Nodes that must not be used (again) in this placement; the value of its topology.
        self.barred: set[str] = set()
        self.group: str | None = None
        #: Of a gang, where there are engines: the one that all of it must lie in.
        self.side: str | None = None
        #: Nodes that this very job already has tasks on: exclusive, but its own.
        self.own: set[str] = set()
        #: What such nodes keep from others, and why one more may not be had: it exceeds a quota.
        self.kept = NOTHING
        self.short: Short | None = None
        #: Points of single nodes: for wishes about neighbours that can do without, and for the
        #: load of clusters.
        self.bonus: Callable[[str], int] | None = None
        if checks.has_bonus(self.shape):
            self.bonus = partial(checks.bonus, self.shape)

    def room(self, name: str, want: Want) -> Room | None:
        """What a node offers to a task of this want; None when it does not fit there."""
        if name in self.barred or not self._in_group(name):
            return None
        space, request = self.space, want.request
        room = space.rooms[name]
        alone = want.exclusive and name not in self.own
        if room.shortage(request, firm=want.firm, exclusive=alone, own=name in self.own):
            return None
        if self._checks.refuses(self.shape, name) or (alone and self._is_too_large(name)):
            return None
        if self.until_s > space.claimed_from.get(name, float("inf")):
            if self._claims.is_full(name, self.entry, request):
                return None
            room = self._claims.window(name, self.entry)
            if room.shortage(request, firm=want.firm, exclusive=alone, own=name in self.own):
                return None
        return room

    def _is_too_large(self, name: str) -> bool:
        """Whether a quota does not let the job have this node to itself, beside those it has."""
        short = self._checks.short_of_node(self.entry, name, self.kept)
        self.short = self.short or short
        return short is not None

    def room_for_all(self, name: str, want: Want, tasks: int) -> Room | None:
        """The same, if the node takes this number of them: counted by trying, on a copy."""
        room = self.room(name, want)
        if room is None or tasks == 1:
            return room
        trial = room.copy()
        for _ in range(1, tasks):
            trial.take(trial.choose(want.request, firm=want.firm, exclusive=want.exclusive))
            if trial.shortage(want.request, firm=want.firm, own=True):
                return None
        return room

    def _in_group(self, name: str) -> bool:
        if self.side is not None and self.space.engines.sides.get(name, "") != self.side:
            return False
        if self.group is None:
            return True
        labels = self.space.class_of[name].labels
        return ground_of(labels, self.shape.placement.topology) == self.group


def place(asker: Asker) -> list[Placed] | None:
    """Room for the job, taken in ``asker.space``; None, with nothing taken, when there is none.

    Members of a gang are all on machines of ours, or in one engine, or in one pool of it.
    """
    space = asker.space
    if not space.engines.sides or asker.shape.task_count == 1:
        return _place_anywhere(asker)
    group = asker.group
    for side in ("", *sorted(set(space.engines.sides.values()))):
        asker.side, asker.group = side, group
        placed = _place_anywhere(asker)
        if placed is not None:
            return placed
    return None


def _place_anywhere(asker: Asker) -> list[Placed] | None:
    shape = asker.shape
    if not shape.placement.topology:
        return _place_roles(asker)
    # A gang that grows has its group already.
    for group in _groups(asker) if asker.group is None else (asker.group,):
        asker.group = group
        placed = _place_roles(asker)
        if placed is not None:
            return placed
    return None


def _groups(asker: Asker) -> Iterator[str]:
    """The groups of a topology that may hold the job, the one with the least room first."""
    space, shape = asker.space, asker.shape
    largest = max(range(len(shape.roles)), key=lambda number: shape.roles[number].count)
    most, want = shape.roles[largest], asker.wants[largest]
    space.catch_up(want)
    places: dict[str, int] = {}
    for name in space.open_nodes(want):
        group = ground_of(space.class_of[name].labels, shape.placement.topology)
        if group is not None:
            places[group] = places.get(group, 0) + space.takes(want, name)
    enough = [group for group, count in places.items() if count >= (most.min_count or most.count)]
    yield from sorted(enough, key=lambda group: (places[group], group))


def _place_roles(asker: Asker) -> list[Placed] | None:
    """Role by role; where one order leaves too little for the last of them, others are tried."""
    count = len(asker.shape.roles)
    if count == 1:
        return _place_in_order(asker, (0,))
    for order in islice(permutations(range(count)), ORDERS_MAX):
        placed = _place_in_order(asker, order)
        if placed is not None:
            return sorted(placed)
    return None


def _place_in_order(asker: Asker, order: tuple[int, ...]) -> list[Placed] | None:
    placed: list[Placed] = []
    roles = asker.shape.roles
    for number in order:
        first = sum([role.count for role in roles[:number]]) if number else 0
        if not _place_role(asker, roles[number], asker.wants[number], first, placed):
            for _, allocation in reversed(placed):
                asker.space.give_back(allocation.node, allocation)
            placed.clear()
            break
    asker.own.clear()
    asker.kept = NOTHING
    asker.barred.clear()
    return placed or None


def _place_role(asker: Asker, role: Role, want: Want, first: int, placed: list[Placed]) -> bool:
    if role.count == 1:
        return _place_some(asker, want, 1, first, placed) > 0
    if nodes := asker.shape.placement.node_count:
        return _spread(asker, want, role, first, placed, nodes)
    done = 0
    while done < role.count:
        more = _place_some(asker, want, role.count - done, first + done, placed)
        if not more:
            break
        done += more
    return done == role.count or 0 < role.min_count <= done


def _spread(
    asker: Asker, want: Want, role: Role, first: int, placed: list[Placed], nodes: int
) -> bool:
    """The same number of tasks on each of these nodes, give or take one."""
    if any(asker.side == asker.space.engines.sides[name] for name in asker.space.engines.pools):
        # Its engine does that.
        return _place_some(asker, want, role.count, first, placed, whole=True) == role.count
    done = 0
    for number in range(min(nodes, role.count)):
        share = role.count // nodes + (number < role.count % nodes)
        if _place_some(asker, want, share, first + done, placed, whole=True) < share:
            return False
        asker.barred.add(placed[-1].allocation.node)
        done += share
    asker.barred.clear()
    return True


def _place_some(
    asker: Asker, want: Want, tasks: int, first: int, placed: list[Placed], *, whole: bool = False
) -> int:
    """Put up to ``tasks`` tasks on the one node that suits best; how many it was.

    ``whole``: all of them or none. What integers say about a node is then only a first guess.
    """
    space = asker.space
    space.catch_up(want)
    each = tasks if whole else 1
    if want.exclusive:
        # A node that the job has to itself already is in no bucket, but open to the rest of it.
        for name in sorted(asker.own):
            room = asker.room_for_all(name, want, each)
            if room is not None:
                return _fill(asker, want, (name, room), tasks, first, placed)
    for takes in _preferred(tasks, want.clip, whole, space.in_order):
        if not want.heaps[takes] and not space.in_order:
            continue
        found = space.best(
            want,
            takes,
            asker.until_s,
            lambda name: asker.room_for_all(name, want, each),
            asker.bonus,
        )
        if found is not None:
            return _fill(asker, want, found, tasks, first, placed)
    return 0


def _preferred(tasks: int, clip: int, whole: bool, in_order: bool) -> Sequence[int]:
    """Which nodes to try, by how many they take: just enough, more, then ever fewer."""
    if in_order or clip == 1:
        return (1,)
    enough = min(tasks, clip)
    more = range(enough, clip + 1)
    return more if whole else (*more, *range(enough - 1, 0, -1))


def _fill(
    asker: Asker,
    want: Want,
    found: tuple[str, Room],
    tasks: int,
    first: int,
    placed: list[Placed],
) -> int:
    name, room = found
    space, request, seed = asker.space, want.request, asker.entry.job
    here, done = space.rooms[name], 0
    # Where integers say it all, the room itself says whether one more fits.
    plain = tasks > 1 and not space.must_ask(name, want, asker.until_s)
    allocation: Allocation | None
    allocation = room.choose(request, firm=want.firm, exclusive=want.exclusive, seed=seed)
    while allocation is not None:
        here.take(allocation)
        placed.append(Placed(first + done, allocation))
        if allocation.keeps is not None and name not in asker.own:
            asker.kept = asker.kept.plus(allocation.keeps)
        asker.own.add(name)
        done += 1
        if done == tasks:
            break
        if plain:
            allocation = here.another(request, firm=want.firm, seed=seed)
            continue
        again = asker.room(name, want)
        if again is None:
            break
        allocation = again.choose(request, firm=want.firm, exclusive=want.exclusive, seed=seed)
    space.put(name)
    return done
