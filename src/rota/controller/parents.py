"""Arrays that new jobs wait for, at hand: those that ended long ago are in the store alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rota.controller.commands.commands import Submit, Update

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from rota.controller.commands.commands import Command
    from rota.core.facts.array import Array
    from rota.core.facts.parents import Dependency
    from rota.store.api import Store

    Read = Callable[[Callable[[Store], Array | None]], Awaitable[Array | None]]

T = TypeVar("T")
#: More are forgotten, the oldest first.
KEPT = 256


class NotAtHand(Exception):
    """An array that has to be read first, outside of the loop."""

    def __init__(self, array: int) -> None:
        super().__init__(f"array {array} is not at hand")
        self.array = array


class Parents:
    """Arrays by id, for those that cannot wait for the store."""

    def __init__(self, live: Callable[[], dict[int, Array]], read: Read) -> None:
        self._live = live
        self._read = read
        self._kept: dict[int, Array | None] = {}

    def get(self, array_id: int) -> Array | None:
        """None: there is none on record. Raises ``NotAtHand``."""
        found = self._live().get(array_id)
        if found is None and array_id not in self._kept:
            raise NotAtHand(array_id)
        return found or self._kept[array_id]

    async def bring(self, array_id: int) -> None:
        live = self._live().get(array_id)
        self._kept[array_id] = live or await self._read(lambda store: store.array(array_id))
        while len(self._kept) > KEPT:
            self._kept.pop(next(iter(self._kept)))

    async def at_hand(self, work: Callable[[], T]) -> T:
        """Do something, and once more when it has turned out what it needs."""
        while True:
            try:
                return work()
            except NotAtHand as absent:
                await self.bring(absent.array)

    async def prepare(self, command: Command) -> None:
        """Before a command is handed in: the tick will ask for these."""
        for dependency in _dependencies(command):
            if dependency.element:
                await self.bring(dependency.parent)


def _dependencies(command: Command) -> Iterable[Dependency]:
    if isinstance(command, Submit):
        return [tie for one in command.submissions for tie in one.spec.dependencies]
    if isinstance(command, Update):
        return command.dependencies or ()
    return ()
