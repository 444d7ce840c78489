"""What a pass knows to find no room, so that nobody asks the same twice.

There are two kinds. For want of *room* a shape waits until a node changes that may take it,
however short its jobs are. Where a *claim* or a neighbour is in the way, somebody who stays for
less may still fit: only those who stay as long as one that was refused get the same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.scheduling.order.lengths import run_s_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.derived.lanes import Lane, Shape
    from rota.scheduling.api import Entry
    from rota.scheduling.passes import Pass

INFINITE = float("inf")


class Refusals:
    """Those of one pass, on top of what its Scheduler remembers from earlier ones."""

    def __init__(self, this: Pass) -> None:
        self._pass = this
        self._no_room = this.scheduler.no_room
        #: Shapes (and for whom) that found no room for tasks that stay at least this long.
        self._shut: dict[tuple[object, ...], float] = {}
        #: Shapes whose lanes are passed over, as far as their jobs would stay until then.
        self.dead: dict[int, float] = {}
        self._hinders: dict[int, bool] = {}
        #: Shapes that may find room, and whether that was looked at since the last change.
        self._hopeful: dict[int, None] = {}
        self.is_known = False
        #: Lanes of those who were promised something: each of them is asked.
        self._spared: frozenset[int] = frozenset()
        #: One of them should start by now.
        self._is_due = False

    def begin(self, lanes: Iterable[Lane]) -> None:
        """These lanes are looked at."""
        self._hopeful = {lane.key.shape: None for lane in lanes}
        this = self._pass
        self._spared = frozenset(this.promises.lanes_due(INFINITE))
        self._is_due = bool(this.promises.lanes_due(this.now_s))

    def is_hopeless(self) -> bool:
        """No shape that waits fits on any of the few nodes that changed: the rest is as before."""
        this, scheduler = self._pass, self._pass.scheduler
        if self.is_known or scheduler.changed is None or not this.promises.is_done:
            return False
        self.is_known = True
        if this.policy.preempt.enabled or self._is_due:
            return False
        for number in [*self._hopeful]:
            if number not in self._no_room or self.may_fit(number):
                return False
            del self._hopeful[number]
        return True

    def may_fit(self, number: int) -> bool:
        """Whether one of the nodes that changed takes a task of this shape now."""
        this = self._pass
        changed, space = this.scheduler.changed or (), this.space
        wants = space.wants(number, this.cluster.lanes.shapes[number])
        return any(space.may_fit(want, name) for want in wants for name in changed)

    def knows(self, entry: Entry, until_s: float) -> bool:
        """Whether the answer is known to be no."""
        shut_s = self._shut.get(self._key(entry))
        # A job without a limit stays for ever, and nobody may have asked yet.
        return (shut_s is not None and until_s >= shut_s) or self._was_full(entry)

    def _was_full(self, entry: Entry) -> bool:
        """Whether the shape found no room before, and no node changed that could help it now."""
        number, this = entry.key.shape, self._pass
        if this.scheduler.changed is None or number not in self._no_room:
            return False
        if this.promises.is_due(entry.job):
            # What was promised to him is free by now, if it is: others could not have it.
            return False
        return not self.may_fit(number)

    def _key(self, entry: Entry) -> tuple[object, ...]:
        """Who gets the same answer: with reservations about it also depends on who asks."""
        key, promises = entry.key, self._pass.promises
        if promises.reserved or entry.job in promises.kept:
            own = entry.job in promises.kept and entry.job
            return key.shape, key.user, key.project, key.reservation, own
        return (key.shape,)

    def note(self, entry: Entry, until_s: float) -> None:
        """No room was found for a job that would stay until then."""
        self._shut[self._key(entry)] = until_s
        number = entry.key.shape
        if self.hindered(number, entry.shape):
            # Somebody of this shape who stays for less may fit beside the claim.
            self._no_room.discard(number)
        else:
            self._no_room.add(number)

    def hindered(self, number: int, shape: Shape) -> bool:
        """Whether a claim or a neighbour, rather than want of room, may keep a shape waiting."""
        known = self._hinders.get(number)
        if known is None:
            this = self._pass
            known = this.near.hinders(shape) or this.promises.may_hinder(number)
            self._hinders[number] = known
        return known

    def give_up(self, entry: Entry) -> None:
        """A job waits, and no other of its shape can be promised anything in this pass."""
        number, this = entry.key.shape, self._pass
        if not self.hindered(number, entry.shape):
            self.dead[number] = -INFINITE
        elif this.promises.reserved or this.policy.backfill.look_ahead:
            # It depends on who asks, or whoever asks is counted.
            return
        elif self._was_full(entry):
            self.dead[number] = this.now_s
        elif (until_s := self._shut.get((number,))) is not None:
            self.dead[number] = until_s

    def covers(self, lane: Lane) -> bool:
        """Whether the jobs of a lane, whose shape was given up, need not be asked."""
        key, this = lane.key, self._pass
        from_s = self.dead[key.shape]
        if from_s == -INFINITE:
            return True
        if lane.number in self._spared:
            return False
        roles = this.cluster.lanes.shapes[key.shape].roles
        return this.now_s + run_s_of(this.cluster, key, roles) >= from_s

    def hindered_among(self, lanes: Iterable[Lane]) -> dict[int, bool]:
        """Those that were passed over although more than want of room may keep them out."""
        this = self._pass
        shapes = this.cluster.lanes.shapes
        beside = {
            number: this.near.hinders(shapes[number])
            for number, from_s in self.dead.items()
            if from_s > -INFINITE and number in shapes
        }
        return {lane.number: beside[lane.key.shape] for lane in lanes if lane.key.shape in beside}

    def forget_untried(self, lanes: Iterable[Lane]) -> None:
        """These were not asked for room: if a node changed for them, they may fit by now.

        Something else kept them back, and they may ask again when no node has changed.
        """
        if self._pass.scheduler.changed is None:
            return
        tried = {key[0] for key in self._shut}
        for number in {lane.key.shape: None for lane in lanes}:
            # Of those that are not hopeful any more it is known that no node changed for them.
            is_open = number in self._hopeful and number not in tried
            if is_open and number in self._no_room and self.may_fit(number):
                self._no_room.discard(number)
