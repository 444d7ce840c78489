"""When and where a waiting job can start at the earliest.

The moments at which something is given back are gone through in order, and only nodes where that
happens are looked at; once enough room seems to have come together, the job is placed in it.
"""

from __future__ import annotations

from operator import ge
from typing import TYPE_CHECKING

from rota.scheduling.later.free_profile import ALONE, FIELD, need_of
from rota.scheduling.place.trial_rooms import count_in, place_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rota.core.facts.node import Allocation
    from rota.scheduling.later.free_profile import Need
    from rota.scheduling.later.timeline import Asking, Timeline
    from rota.scheduling.place.node_room import Room
    from rota.scheduling.place.wants import Want

INFINITE = float("inf")


def earliest(
    timeline: Timeline,
    asking: Asking,
    until_s: float,
    wants: Sequence[Want],
    open_now: Iterable[str],
    refuses: Callable[[str], bool] | None,
) -> tuple[float, list[Allocation]] | None:
    """The first moment to come at which all tasks of a job find room, and which room that is.

    ``open_now`` are nodes that could take some of its tasks today; ``refuses`` says which must
    not be used.
    """
    search = StartSearch(timeline, asking)
    space = timeline.space
    classes = space.classes_for(wants)

    def is_open(name: str) -> bool:
        kind = space.class_of.get(name)
        return kind is not None and kind.id in classes and not (refuses and refuses(name))

    for name in open_now:
        search.look(name, timeline.now_s)
    for at_s, name, *_ in timeline.ends(classes):
        if at_s > until_s:
            return None
        if at_s < search.shut_s.get(name, at_s) and not search.suffices:
            continue
        if is_open(name):
            search.look(name, at_s)
            placed = search.find(at_s) if search.suffices else None
            if placed is not None:
                return at_s, placed
    return None


class StartSearch:
    """What the nodes take of one job, as far as they were looked at."""

    def __init__(self, timeline: Timeline, asking: Asking) -> None:
        self._timeline = timeline
        self._space = timeline.space
        self._asking = asking
        roles = asking.shape.roles
        #: What each role asks, by class of node.
        self._needs: list[dict[int, Need]] = [{} for _ in roles]
        #: How many tasks of each role fit where, and in all, and how many have to.
        self._counts: list[dict[str, int]] = [{} for _ in roles]
        self._sums = [0] * len(roles)
        self._least = [role.min_count or role.count for role in roles]
        #: Nodes where nothing can start before a moment.
        self.shut_s: dict[str, float] = {}
        #: Whether enough has come together, by what is known of single nodes.
        self.suffices = not any(self._least)
        #: When each node was looked at last: for a later moment it may have less, never more.
        self._looked_s: dict[str, float] = {}

    @property
    def _is_plain(self) -> bool:
        placement = self._asking.shape.placement
        if self._space.engines.sides:
            return False
        return len(self._counts) == 1 and not placement.topology and not placement.node_count

    def _ask(self, name: str, at_s: float, number: int) -> tuple[int, float]:
        """How many tasks of a role a node takes from a moment on, and when it may take one."""
        timeline, asking = self._timeline, self._asking
        kind, role = self._space.class_of[name], asking.shape.roles[number]
        need = self._needs[number].get(kind.id)
        if need is None:
            bars = FIELD if asking.shape.placement.exclusive else ALONE
            need = need_of(kind, role.request, firm=asking.is_firm, bars=bars)
            self._needs[number][kind.id] = need
        profile = timeline.profile(name, asking)
        until_s = timeline.until_s(name, at_s, asking)
        found = profile.look(self._space.rooms[name], need, role.count, at_s, until_s)
        if found[0] and not need.exact:
            count = count_in(self._room(name, at_s), asking.shape, role)
            return count, at_s if count else profile.next_s(at_s)
        return found

    def _room(self, name: str, at_s: float) -> Room:
        until_s = self._timeline.until_s(name, at_s, self._asking)
        return self._timeline.window(name, at_s, until_s, self._asking)

    def look(self, name: str, at_s: float) -> None:
        self._looked_s[name] = at_s
        found = [self._ask(name, at_s, number) for number in range(len(self._counts))]
        self.shut_s[name] = min(open_s for _, open_s in found)
        for number, (count, _) in enumerate(found):
            known = self._counts[number]
            before = known.get(name, 0)
            if count != before:
                self._sums[number] += count - before
                known[name] = count
                self.suffices = all(map(ge, self._sums, self._least))

    def find(self, at_s: float) -> list[Allocation] | None:
        """Room for all tasks, where enough seems to have come together."""
        if self._timeline.claims and self._look_again(at_s) and not self.suffices:
            return None
        rooms = {name: self._room(name, at_s) for name in self._enough()}
        return place_in(rooms, self._asking.shape, self._space.class_of)

    def _look_again(self, at_s: float) -> bool:
        """Claims may have come nearer since a node was looked at; whether there were such nodes."""
        stale = [
            name
            for name in self._timeline.claims
            if self._looked_s.get(name, at_s) < at_s
            and any(known.get(name) for known in self._counts)
        ]
        for name in stale:
            self.look(name, at_s)
        return bool(stale)

    def _enough(self) -> list[str]:
        """All nodes that take any tasks; of an only role the fewest that take enough."""
        if not self._is_plain:
            known = [name for counts in self._counts for name, count in counts.items() if count]
            return [*dict.fromkeys(known)]
        left = self._least[0]
        chosen: list[str] = []
        for name, count in sorted(self._counts[0].items(), key=lambda item: (-item[1], item[0])):
            if left <= 0:
                break
            chosen.append(name)
            left -= count
        return chosen
