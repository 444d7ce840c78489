"""What the agent does beside its duties: where a chore breaks, the agent goes on without it.

Without a keeper or a controller an agent is none, and ends. Logs that cannot be put away, or a
measure that cannot be taken, are no reason for that: the chore says why, and is begun again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Chore = Callable[[], Coroutine[object, object, None]]

log = logging.getLogger("rota.agent")

#: How soon a chore that broke is begun again.
AGAIN_S = 60.0


async def keep_up(what: str, chore: Chore, again_s: float = AGAIN_S) -> None:
    """Until it ends by itself. The same trouble is said once."""
    said = ""
    while True:
        try:
            await chore()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            if problem != said:
                bug = None if isinstance(error, OSError) else error
                log.error("%s: goes on later: %s", what, problem, exc_info=bug)
            said = problem
            await asyncio.sleep(again_s)
        else:
            return


class Complaints:
    """Of what one round of a chore could not do the first is said, once."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._first = self._said = ""
        self._count = 0

    def add(self, name: str, error: OSError) -> None:
        self._first = self._first or f"{name}: {error.strerror}"
        self._count += 1

    def tell(self) -> None:
        """After a round."""
        if self._first and self._first != self._said:
            log.warning("%s, %d in all, first %s", self._what, self._count, self._first)
        self._said, self._first, self._count = self._first, "", 0
