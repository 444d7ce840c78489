"""The controller's clock, and what it does about a wall clock that was set while it was away.

Heads that share a database go by the wall clock of its server: with those of their own machines the
next one to lead would find that jobs have run for longer, or for less, than they have.

Beside the state stands by how much its times are ahead of the clock that never jumps, and of which
boot that is. A controller that starts in the same boot and finds another difference knows that the
wall clock was set, and by how much: then a tick moves the times of unfinished work by as much.
"""

from __future__ import annotations

import logging
import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.errors import RotaError
from rota.core.words.units import format_duration
from rota.keeper.lease import steady_s
from rota.keeper.processes import boot_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.store.api import Store

log = logging.getLogger("rota.controller")

#: Under this name the store keeps what is known of the clock.
BOOKMARK = "clock"
#: A difference below this is no step: times go on as they were.
STEP_S = 1.0
#: Clocks that are set right all the time are off by less. Looked at so often.
FAR_S, LOOK_S = 60.0, 60.0


class KnownOffset(msgspec.Struct, frozen=True):
    """What the times on record are ahead of: ``offset_s`` from event ``seq`` on, before that
    ``before_s``. Written before the event that moves them, so that it is never moved twice."""

    boot: str
    offset_s: float
    before_s: float
    seq: int


class Clock:
    """Wall time that does not jump: the wall clock at start plus what really elapsed since."""

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = steady_s,
        boot: Callable[[], str] = boot_id,
    ) -> None:
        self._wall, self._steady, self._boot = wall, steady, boot
        #: What people must know; empty: nothing.
        self.warning = ""
        # A process that is held up between the two reads too little: the largest is right.
        self._offset_s = max(wall() - steady() for _ in range(3))
        self._tick_s = 0.0

    def now_s(self) -> float:
        return self._steady() + self._offset_s

    def tick_s(self) -> float:
        """The time of the next tick: later than that of the last one, also where no time passed.

        On record a tick is known by its time, and a replay makes one pass for each.
        """
        self._tick_s = max(self.now_s(), math.nextafter(self._tick_s, math.inf))
        return self._tick_s

    def look(self) -> None:
        """Whether the wall clock was set since: under work that runs no time jumps, it is told.

        For threads: the clock may be that of a database.
        """
        off_s = self._wall() - self.now_s()
        if abs(off_s) < FAR_S:
            self.warning = ""
        elif not self.warning:
            way = "forward" if off_s > 0 else "back"
            self.warning = (
                f"the wall clock was set {way} by {format_duration(int(abs(off_s)))} since the "
                "controller was started: moments that people name are off by as much until it is "
                "started again; running work keeps its time then"
            )
            log.warning("%s", self.warning)

    def moved_s(self, store: Store, next_seq: int) -> float:
        """By how much the wall clock was set since the newest times on record; 0: it was not."""
        known = None
        with suppress(msgspec.MsgspecError):
            known = msgspec.json.decode(store.bookmark(BOOKMARK), type=KnownOffset)
        boot, shift_s, before_s = self._boot(), 0.0, self._offset_s
        if known is not None and known.boot == boot:
            before_s = known.offset_s if next_seq > known.seq else known.before_s
            shift_s = self._offset_s - before_s
            if abs(shift_s) < STEP_S:
                self._offset_s = before_s
                return 0.0
            log.warning("the wall clock was set by %+.0f s: running work keeps its time", shift_s)
        fresh = KnownOffset(boot, self._offset_s, before_s, next_seq)
        with suppress(RotaError):  # A disk that is full: nothing can be moved, either.
            store.set_bookmark(BOOKMARK, msgspec.json.encode(fresh).decode())
        return shift_s
