"""Questions that are answered by trying: why a job waits, what would become of one.

Each of them takes passes over all that waits. On a small site that is done at once; on a large one
aside, so that no other caller waits for it. A user's questions are answered one after the other,
and the users take turns: nobody waits for the many questions of another.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from rota.api.leaving import refuse_gone, while_heard
from rota.controller.aside import Unanswered, aside
from rota.core.facts.errors import Busy
from rota.core.facts.tenant import Access
from rota.scheduling.answers.advice import size_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from rota.controller.loop import Host
    from rota.core.facts.tenant import Actor

Found = TypeVar("Found")

#: Up to this many nodes, lanes and waiting jobs a question takes a few milliseconds.
SMALL, SHORT = 100, 1000
#: Answers that are worked out aside at the same time, and how long one may take, from the question
#: on: clients wait a minute.
AT_ONCE, WITHIN_S = 2, 50.0
#: Questions of one user that may wait for their turn.
WAITING_MAX = 100


class Questions:
    """Who asks, and whose turn it is."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._aside = asyncio.Semaphore(AT_ONCE)
        self._turns = WeakValueDictionary[str, asyncio.Lock]()
        self._waiting = Counter[str]()

    @property
    def waiting(self) -> int:
        """Questions that are not answered yet."""
        return self._waiting.total()

    @asynccontextmanager
    async def turn(self, actor: Actor) -> AsyncIterator[None]:
        """One's turn at what takes as long in some other way."""
        with self._counted(actor):
            async with self._turns.setdefault(actor.user, asyncio.Lock()), self._aside:
                refuse_gone()
                yield

    async def ask(self, actor: Actor, work: Callable[[], Found]) -> Found:
        """What ``work`` finds when its turn comes. It may try changes, and must take them back.

        What it returns may come from another process: it must be plain. It is dropped when its
        caller hangs up.
        """
        with self._counted(actor):
            try:
                async with while_heard(), asyncio.timeout(WITHIN_S):
                    return await self._in_turn(actor, work)
            except TimeoutError:
                raise _put_off(f"it takes longer than {WITHIN_S:g} s") from None
            except Unanswered as error:
                raise _put_off(str(error)) from None

    async def _in_turn(self, actor: Actor, work: Callable[[], Found]) -> Found:
        async with self._turns.setdefault(actor.user, asyncio.Lock()):
            if not self._is_small:
                async with self._aside:
                    return await aside(work, WITHIN_S)
            found = work()
            # Before the next question of this user, the others.
            await asyncio.sleep(0)
            return found

    @property
    def _is_small(self) -> bool:
        cluster = self._host.cluster
        return size_of(cluster) <= SMALL and len(cluster.lanes.where) <= SHORT

    @contextmanager
    def _counted(self, actor: Actor) -> Iterator[None]:
        user = actor.user
        if self._waiting[user] >= WAITING_MAX and actor.access is not Access.ADMIN:
            raise Busy(
                f"questions: {WAITING_MAX} of {user} wait for an answer already, as many as may; "
                "ask again when some of them are answered",
                1.0,
            )
        self._waiting[user] += 1
        try:
            yield
        finally:
            self._waiting[user] -= 1
            if not self._waiting[user]:
                del self._waiting[user]


def _put_off(why: str) -> Busy:
    return Busy(f"this question is not answered just now: {why}", WITHIN_S)
