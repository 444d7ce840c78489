"""What a pass knows to find no room, so that nobody asks the same twice.

For want of *room* a shape waits until a node changes that may take it, however short its jobs
are. Where a *claim* is in the way, a job that stays for less may still fit: only one that stays
as long as one that was refused gets the same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.scheduling.order.lengths import run_s_of
from rota.scheduling.outcomes import NO_ROOM, ClaimedRoom, Vetoed

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.derived.lanes import Lane
    from rota.scheduling.api import Entry
    from rota.scheduling.later.promises import Promises
    from rota.scheduling.outcomes import RoomWait
    from rota.scheduling.place.node_checks import NodeChecks
    from rota.scheduling.waits import Waits


class Misses:
    """The ones of one pass, on top of the shapes that are known to find no room anywhere."""

    def __init__(
        self, cluster: Cluster, waits: Waits, promises: Promises, checks: NodeChecks
    ) -> None:
        self._cluster = cluster
        self._waits = waits
        self._promises = promises
        self._checks = checks
        #: Shapes (and accounts) that found no room for tasks that stay at least this long.
        self._shut: dict[tuple[object, ...], tuple[float, RoomWait]] = {}

    def known(self, entry: Entry, until_s: float) -> RoomWait | None:
        """What a job waits for, if that is known; it would stay until then."""
        if self._is_full(entry.key.shape) and not self._promises.is_due(entry.job):
            return NO_ROOM
        shut = self._shut.get(self._key(entry))
        return shut[1] if shut is not None and until_s >= shut[0] else None

    def _is_full(self, number: int) -> bool:
        """Whether no node has room for a shape, or only nodes had that were filled since."""
        waits = self._waits
        if number in waits.full:
            return True
        names = waits.open_shapes.get(number)
        if names is None or self._promises.may_fit(number, names):
            return False
        waits.no_room(number)
        return True

    def _key(self, entry: Entry) -> tuple[object, ...]:
        """Which jobs get the same answer: beside reservations it also depends on who asks."""
        key, promises = entry.key, self._promises
        if promises.reserved or entry.job in promises.kept:
            own = entry.job in promises.kept and entry.job
            return key.shape, key.user, key.project, key.reservation, own
        return (key.shape,)

    def note(self, entry: Entry, until_s: float) -> RoomWait:
        """No room was found for a job that would stay until then: what it waits for."""
        number, nodes = entry.key.shape, self._cluster.nodes
        if self._checks.hinders(entry.shape) and self._promises.may_fit(number, nodes):
            wait: RoomWait = Vetoed()
        elif self._promises.may_fit(number, self._promises.timeline.claims):
            wait = ClaimedRoom()
        else:
            self._waits.no_room(number)
            return NO_ROOM
        self._shut[self._key(entry)] = (until_s, wait)
        return wait

    def known_of(self, lane: Lane) -> RoomWait | None:
        """What all jobs of a lane wait for, if that is known without asking one of them."""
        number = lane.key.shape
        if self._is_full(number):
            return NO_ROOM
        if self._promises.reserved or self._promises.grounds.nodes:
            return None
        shut = self._shut.get((number,))
        if shut is None:
            return None
        roles = self._cluster.lanes.shapes[number].roles
        run_s = run_s_of(self._cluster, lane.key, roles)
        return shut[1] if self._promises.timeline.now_s + run_s >= shut[0] else None
