"""Answers that were given and not read yet: each lies in memory until its caller takes it.

Who asks for much on many connections and reads none of it gets no further large answers.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.core.facts.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableMapping
    from typing import Any

    from rota.api.asgi import Scope, Send

    Unsent = Callable[[], int]

#: Where a request carries what tells how much of its connection's answers was not read.
UNSENT = "rota.unsent"
#: Where it carries whose it is: nobody's as long as nobody is known, None where there is no bound.
WHOSE = "rota.whose"
STRANGER = ""
#: The most that may wait to be read, of one user and of all strangers; less is given always.
UNREAD_MAX, SMALL = 64 * 1024 * 1024, 64 * 1024


class Unread:
    """By user: the connections on which something large was sent."""

    def __init__(self) -> None:
        self._lines: dict[str, set[Unsent]] = {}

    def note(self, user: str, unsent: Unsent) -> None:
        self._lines.setdefault(user, set()).add(unsent)

    def bytes_of(self, user: str) -> int:
        """How much waits. Connections on which nothing does are forgotten."""
        waiting = {unsent: size for unsent in self._lines.pop(user, ()) if (size := unsent())}
        if waiting:
            self._lines[user] = set(waiting)
        return sum(waiting.values())

    def refuse_more(self, user: str) -> None:
        """Raises ``Busy`` while too much waits."""
        if (waiting := self.bytes_of(user)) > UNREAD_MAX:
            raise Busy(f"answers: {waiting} bytes were not read yet; read them first", 1.0)

    @contextmanager
    def holding(self, user: str, size: int) -> Iterator[list[int]]:
        """While a text is sent in pieces: what is yielded says how much of it is left."""
        left = [size]
        self.note(user, lambda: left[0])
        try:
            yield left
        finally:
            left[0] = 0

    def bounded(self, scope: Scope, send: Send, refuse: Callable[[Busy], Any]) -> Send:
        """The same; a caller that reads no answers gets what ``refuse`` gives for a large one."""
        unsent: Unsent | None = scope.get(UNSENT)
        large = dropped = False

        async def sent(message: MutableMapping[str, Any]) -> None:
            nonlocal large, dropped
            user = scope.get(WHOSE, STRANGER)
            if not large and unsent is not None and user is not None and _is_large(message):
                large = True
                try:
                    self.refuse_more(user)
                except Busy as busy:
                    dropped = True
                    await refuse(busy)
            if dropped:
                return
            await send(message)
            if large and unsent is not None and user is not None:
                self.note(user, unsent)

        return sent


def _is_large(message: MutableMapping[str, Any]) -> bool:
    """Whether it begins an answer that is sent as a whole and is not small."""
    if message["type"] != "http.response.start":
        return False
    sizes = [value for name, value in message.get("headers", ()) if name == b"content-length"]
    return bool(sizes) and int(sizes[0]) > SMALL
