"""What changed, in order, for readers that follow a Cluster.

Each reader keeps its own place in the log and changes nothing by reading, so any number of
schedulers can follow one Cluster. Only the latest entries are kept: a reader that fell behind is
told so, and looks at everything.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

#: The log is cut to half of this when it has grown so long.
ENTRIES_MAX = 2000


class Log(Generic[T]):
    """The latest changes of one kind."""

    __slots__ = ("_entries", "_first", "end")

    def __init__(self) -> None:
        self._entries: list[T] = []
        #: The places of the oldest entry that is kept, and of the next one.
        self._first = self.end = 0

    def add(self, entry: T) -> None:
        entries = self._entries
        entries.append(entry)
        self.end += 1
        if len(entries) > ENTRIES_MAX:
            self._first += ENTRIES_MAX // 2
            del entries[: ENTRIES_MAX // 2]

    def since(self, place: int) -> list[T] | None:
        """The entries from a place on; None: some of them are gone."""
        if place < self._first:
            return None
        return self._entries[place - self._first :]
