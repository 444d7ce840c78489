"""The lease of a node: when nobody renews it, the keeper ends all work and starts no more.

It is the keeper's, because the agent may be dead just when the lease runs out. It is written down
beside the journal: the keeper, too, may be killed while the node is cut off, and the next one has
to end the work in time although nobody can tell it when. The keeper runs this file without the
package around it.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.keeper.journal import Attempt, Journal
    from rota.keeper.reap import Reaper

#: What stands in the note of an attempt that ended for this reason.
CUT_OFF = "cut off from the controller for longer than its lease"
KILL_AGAIN_S = 10.0
#: The poll sleeps on a clock that stands still with the machine: it looks up this often.
LOOK_S = 1.0


def steady_s() -> float:
    """Time that never jumps, goes on while the machine sleeps, and is one for all its processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """When the work of this node has to end, by ``steady_s``."""

    def __init__(
        self,
        journal: Journal,
        note: Callable[[Attempt, str], None],
        reaper: Reaper,
        boot: str,
    ) -> None:
        """``note`` puts into the journal why an attempt ends; ``boot`` names this boot."""
        self._journal = journal
        self._note = note
        self._reaper = reaper
        self._path = os.path.join(os.path.dirname(journal.path), "lease")
        self._boot = boot
        self._until_s = self._written()
        #: When each attempt that was asked to end is killed.
        self._kill_at: dict[str, float] = {}

    def hold(self, until_s: float | None) -> None:
        """Renewed, or (None) not needed. What had to end before this word came ends all the same.

        A machine that slept may hear of a new lease before it sees that the old one was over.
        """
        self.enforce()
        self._until_s = until_s
        # A disk that is full keeps an older one, which ends earlier: that is the safe side.
        with suppress(OSError):
            if until_s is None:
                os.unlink(self._path)
            else:
                fresh = self._path + ".new"
                fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
                with open(fd, "w", encoding="ascii") as file:
                    file.write(f"{self._boot} {until_s!r}")
                os.rename(fresh, self._path)

    def _written(self) -> float | None:
        """What the keeper before us held; the clock begins anew with every boot."""
        try:
            with open(self._path, encoding="ascii") as file:
                boot, until_s = file.read().split()
            return float(until_s) if boot == self._boot else None
        except (OSError, ValueError):
            return None

    @property
    def is_over(self) -> bool:
        return self._until_s is not None and steady_s() >= self._until_s

    def shorten(self, wait_s: float | None) -> float | None:
        """How long the loop may sleep, if it would sleep so long without a lease."""
        alive = self._reaper.alive
        if not alive or (self._until_s is None and not self._kill_at):
            return wait_s
        moments = [self._until_s]
        if self._kill_at:
            moments = [self._kill_at.get(uid, self._until_s) for uid in alive]
        for at_s in moments:
            if at_s is not None:
                left_s = min(LOOK_S, max(0.0, at_s - steady_s()))
                wait_s = left_s if wait_s is None else min(wait_s, left_s)
        return wait_s

    def enforce(self) -> None:
        """TERM when the lease is over, KILL after the grace. Why is on disk before that."""
        if not self._reaper.alive or not (self.is_over or self._kill_at):
            self._kill_at.clear()
            return
        now_s = steady_s()
        before, self._kill_at = self._kill_at, {}
        orders: list[tuple[Attempt, int]] = []
        for attempt in self._reaper.alive.values():
            at_s = before.get(attempt.uid)
            if at_s is None:
                if not self.is_over or self._until_s is None:
                    continue
                at_s = self._until_s + attempt.grace_s
                orders.append((attempt, signal.SIGTERM))
            if now_s >= at_s:
                orders.append((attempt, signal.SIGKILL))
                at_s = now_s + KILL_AGAIN_S
            self._kill_at[attempt.uid] = at_s
        for attempt, _ in orders:
            self._note(attempt, CUT_OFF)
        self._journal.flush()
        self._reaper.signal_trees(orders)
