"""Users take turns at the loop: who has worked it long steps back until the others had theirs.

The work of a request goes from pause to pause (for a body, a commit, a thread); such a step is done
at one go, and nobody else is served meanwhile. Each time that a user has taken a little time, a
round of the loop is sat out; where nobody else has anything to do it is over at once. After a long
step its user rests for as long as it took.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

T = TypeVar("T")

#: What a user may take for each round.
TURN_S = 0.01
#: A step that takes longer is followed by a rest.
LONG_S = 0.02


class Rounds:
    """Who has taken how much that is not sat out yet, and who rests until when."""

    def __init__(self) -> None:
        self._taken_s: dict[str, float] = {}
        self._rests_s: dict[str, float] = {}
        #: Rounds are counted while somebody sits them out.
        self._is_counting = False

    def take(self, user: str, work_s: float) -> None:
        """A step of this user, in the processor's time."""
        taken_s = self._taken_s[user] = self._taken_s.get(user, 0.0) + work_s
        if taken_s < TURN_S:
            return
        loop = asyncio.get_running_loop()
        if not self._is_counting:
            self._is_counting = True
            loop.call_soon(self._next)
        if work_s > LONG_S:
            self._rests_s[user] = loop.time() + work_s

    def turn(self, user: str) -> Generator[Any, Any, None]:
        """Wait until it is this user's turn."""
        while True:
            if rest_s := self._rest_s(user):
                yield from asyncio.sleep(rest_s).__await__()
            elif self._taken_s.get(user, 0.0) >= TURN_S:
                yield
            else:
                return

    def _rest_s(self, user: str) -> float:
        until_s = self._rests_s.get(user)
        if until_s is None:
            return 0.0
        rest_s = until_s - asyncio.get_running_loop().time()
        if rest_s > 0:
            return rest_s
        del self._rests_s[user]
        return 0.0

    def _next(self) -> None:
        rest = {user: taken_s - TURN_S for user, taken_s in self._taken_s.items()}
        self._taken_s = {user: taken_s for user, taken_s in rest.items() if taken_s > 0}
        self._is_counting = any(taken_s >= TURN_S for taken_s in self._taken_s.values())
        if self._is_counting:
            asyncio.get_running_loop().call_soon(self._next)


class InRounds(Generic[T]):
    """Awaited in the place of the work. For whom it is done is said as soon as that is known."""

    def __init__(self, rounds: Rounds, work: Coroutine[Any, Any, T], user: str = "") -> None:
        self._rounds, self._work, self.user = rounds, work, user

    def __await__(self) -> Generator[Any, Any, T]:
        work, answer = self._work, None
        error: BaseException | None = None
        while True:
            try:
                # What ends the work does not wait for anybody, and there may be no loop any more.
                if self.user and error is None:
                    yield from self._rounds.turn(self.user)
            except BaseException as caught:
                error = caught
            began_s = time.thread_time()
            try:
                pause = work.send(answer) if error is None else work.throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                if self.user and error is None:
                    self._rounds.take(self.user, time.thread_time() - began_s)
            answer = error = None
            try:
                answer = yield pause
            except BaseException as caught:
                error = caught
