"""Looks into the memory of users' processes, each in a thread of its own: one may hang for ever.

A process whose memory is locked or very large answers when its user wants it to. Such a look costs
one thread, which nobody waits for any longer; until it comes back there is no other with its name.
"""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")


class Looks:
    """Those that are under way, by name."""

    def __init__(self) -> None:
        self._busy: set[Hashable] = set()

    def within(self, name: Hashable, patience_s: float, work: Callable[[], T]) -> T | None:
        """What came of it in time, else None."""
        if name in self._busy:
            return None
        answer: SimpleQueue[T] = SimpleQueue()

        def look() -> None:
            try:
                found = work()
            finally:
                self._busy.discard(name)
            answer.put(found)

        self._busy.add(name)
        threading.Thread(target=look, daemon=True, name="look").start()
        try:
            return answer.get(timeout=patience_s)
        except Empty:
            return None


looks = Looks()
