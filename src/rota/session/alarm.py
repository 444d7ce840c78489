"""The one timer of an agent on an asyncio loop: set again whenever something else is due first."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Alarm:
    """Rings once for the last setting; a host has one for its state machine."""

    def __init__(self, now_s: Callable[[], float], ring: Callable[[], None]) -> None:
        self._now_s = now_s
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None

    def set(self, *moments_s: float | None) -> None:
        """At the first of these moments, at once if it is past, or not at all."""
        due_s = min((at_s for at_s in moments_s if at_s is not None), default=None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_s is not None:
            delay_s = max(0.0, due_s - self._now_s())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._ring)
