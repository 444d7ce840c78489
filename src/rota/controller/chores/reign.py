"""What the head that leads owes the others: a sign of life, and to step down in time.

A leader whose signs do not reach the database is deposed by the heads that stand by. It notices
the same by its own clock, and ends at once: agents and people then find the one that leads.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.errors import Conflict, RotaError
from rota.heads import BEAT_S
from rota.store.errors import Contradiction, NotLeading
from rota.store.heads import LEADER, SILENT_S, Attention

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.controller.loop import Host
    from rota.store.heads import HeadRecord, Lookout

log = logging.getLogger("rota.controller")

#: How this process ends when another one leads: it is started again, and stands by.
DEPOSED = 75
#: The answer to who asked for it has left by then.
ANSWERED_S = 0.1
#: A head that has been silent for so long is forgotten.
FORGOTTEN_S = 60.0


class Reign:
    """Of the head that leads. ``me`` makes what it says of itself, with a number and its reign."""

    def __init__(
        self,
        host: Host,
        lookout: Lookout,
        me: Callable[[int, int], HeadRecord],
        stop: asyncio.Event,
    ) -> None:
        self._host, self._lookout, self._me, self._stop = host, lookout, me, stop
        self._attention = Attention()
        self._beat = 0
        self._own = me(0, 0)
        #: By how much our wall clock is ahead of the database's.
        self.ahead_s = 0.0

    @property
    def standbys(self) -> list[HeadRecord]:
        """The heads that wait to take over."""
        return [head for head in self._attention.present() if head.url != self._own.url]

    @property
    def others(self) -> list[tuple[HeadRecord, float]]:
        """The other heads, and for how long each has said nothing; also those that may be gone."""
        return [one for one in self._attention.known() if one[0].url != self._own.url]

    def hand_over(self) -> HeadRecord:
        """End in order, so that a head that stands by takes over now. Which one, most likely."""
        waiting = self.standbys
        able = [head for head in waiting if not head.doubt(self._own)]
        if not able:
            doubts = "; ".join(f"{head.url} {head.doubt(self._own)}" for head in waiting)
            why = f"no head can take over: {doubts}" if waiting else "no head stands by"
            raise Conflict(f"{why}; start one with 'rota up --standby'")
        successor = next(head for head in able if not head.gives_way(able))
        log.warning("this head hands over to %s", successor.url)
        asyncio.get_running_loop().call_later(ANSWERED_S, self._stop.set)
        return successor

    def barred(self, head: HeadRecord) -> str:
        """Why a head that stands by could not lead next; empty: it could."""
        return head.barred(self._own)

    async def run(self) -> None:
        renewed_s, others = _now_s(), False
        while True:
            try:
                # No longer than others wait for it: callers of a leader that is cut off wait, too.
                async with asyncio.timeout(max(BEAT_S, renewed_s + SILENT_S - _now_s())):
                    await self._renew()
                # As of now: heads cannot be heard, either, while the database is away.
                renewed_s = _now_s()
                others = not all(head.unfit for head in self.standbys)
            except (NotLeading, Contradiction) as error:
                step_down(str(error))
            except (RotaError, TimeoutError) as error:
                if others and _now_s() - renewed_s >= SILENT_S:
                    step_down(f"the database has not been reached for {SILENT_S:g} s: {error}")
            await asyncio.sleep(BEAT_S)

    async def _renew(self) -> None:
        """First its own word: a head that was cut off before it is deposed much later."""
        self._beat += 1
        epoch = await asyncio.to_thread(self._lookout.epoch)
        said = msgspec.json.encode(self._me(self._beat, epoch)).decode()
        await self._host.write(lambda store: store.set_bookmark(LEADER, said))
        await asyncio.to_thread(self._look)

    def _look(self) -> None:
        self._attention.hears({head.url: head for head in self._lookout.heads()})
        self.ahead_s = round(self._lookout.ahead_s(), 1)
        for url in self._attention.gone(FORGOTTEN_S):
            self._lookout.unsay(url)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def step_down(why: str) -> None:
    """At once, without a word to anybody: what this process holds is not the truth any more."""
    log.error("this head does not lead any more, and ends: %s", why)
    for handler in logging.getLogger().handlers:
        handler.flush()
    os._exit(DEPOSED)
