"""The alarm that wakes the loop when a timer is due.

The loop sleeps on a clock that stands still with the machine, so the alarm looks up now and then.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.controller.clock import Clock


#: It looks up this often: the machine may have slept meanwhile.
LOOK_S = 30.0


class LoopAlarm:
    """Rings once, at the moment that was set last."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._handle: asyncio.TimerHandle | None = None
        #: For which moment it is set, where a timer wants it.
        self._at_s: float | None = None

    def at(self, due_s: float | None) -> None:
        """Ring when a timer is due; None: there is none."""
        if self._handle is not None and due_s is not None and due_s == self._at_s:
            return  # It will ring just then: most ticks change nothing there.
        self.cancel()
        if due_s is not None:
            self.after(min(LOOK_S, max(0.0, due_s - self._clock.now_s())))
            self._at_s = due_s

    def after(self, wait_s: float) -> None:
        self.cancel()
        self._handle = asyncio.get_running_loop().call_later(wait_s, self._rings)

    def cancel(self) -> None:
        self._at_s = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _rings(self) -> None:
        due_s, self._handle, self._at_s = self._at_s, None, None
        if due_s is not None and self._clock.now_s() < due_s:
            self.at(due_s)
        else:
            self._ring()
