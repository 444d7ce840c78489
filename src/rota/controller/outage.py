"""While nothing can be written, or the state has to be read back: what waits, and for how long.

Callers are refused in one line. What agents report is held back, in order, and heard when it can be
written: an agent says it once. Beats are no news, so they are answered without a commit, and leases
go on. Nobody is hung up on but an agent that reports far more than a node has to say: it dials
again, and tells all in one report.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from typing import TYPE_CHECKING

from rota.controller.engine import Asked, FromLink
from rota.core.facts.errors import Unavailable
from rota.rpc.messages import Beat
from rota.store.errors import Contradiction, NotLeading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.controller.agents.sessions import Sessions
    from rota.controller.engine import Item

    Reply = Callable[[int, object], None]

log = logging.getLogger("rota.controller")

#: A tick that takes longer than this hangs; a disk that failed is bad news for so long.
STUCK_S, BROKE_S = 10.0, 30.0
#: How long until the next try after a try that failed: at first, and at most.
PAUSE_S, PAUSE_S_MAX = 1.0, 30.0
#: The most reports of one agent that are held back: nothing starts meanwhile, so few are due.
HELD_MAX = 1000


def _now_s() -> float:
    """The clock by which the host's loop sleeps."""
    return asyncio.get_running_loop().time()


def longer(pause_s: float) -> float:
    """The pause after this one."""
    return min(max(PAUSE_S, 2 * pause_s), PAUSE_S_MAX)


def title_of(item: Item, sessions: Sessions) -> str:
    """What it is and of whom; not what it says: environments and tokens may be in it."""
    if isinstance(item, Asked):
        return f"{type(item.command).__name__} of user {item.command.actor.user}"
    if not isinstance(item, FromLink):
        return f"what was found out about job {item.job}"
    session = sessions.by_link.get(item.link)
    node = f"node {session.node}" if session is not None else "an agent that was not let in yet"
    return f"{type(item.message).__name__} of {node}"


def put_aside(
    item: Item,
    error: Exception,
    sessions: Sessions,
    reply: Reply,
    hang_up: Callable[[int], None],
) -> None:
    """A message broke a tick. Its sender hears of it; nobody else does."""
    log.error("a message broke a tick and was put aside: %s", title_of(item, sessions))
    if isinstance(item, Asked):
        reply(item.ticket, Unavailable(f"internal error, nothing was changed: {error!r}"))
    elif isinstance(item, FromLink):
        hang_up(item.link)


class Outage:
    """One of them, from the tick that failed to the next one that can be tried."""

    def __init__(self, error: Exception, pause_s: float = 0.0, *, stale: bool = True) -> None:
        """``stale``: the state in memory is ahead of the disk, and has to be read back."""
        self.error = error
        #: Another controller has led, or may have: nothing that is in memory counts.
        self.deposed = isinstance(error, NotLeading | Contradiction)
        self.stale = stale or self.deposed
        #: What was held back, in order.
        self.held: list[Item] = []
        #: How many of them each agent has said.
        self._said: Counter[int] = Counter()
        #: Set once there is nothing in the way of the next tick.
        self.over = False
        self._next_s = _now_s() + pause_s

    @property
    def wait_s(self) -> float:
        """How long until it is worth a try."""
        return max(0.0, self._next_s - _now_s())

    @property
    def refusal(self) -> Unavailable | None:
        """What callers are told; None: it is a matter of a moment, they can wait."""
        if not isinstance(self.error, Unavailable | Contradiction):
            return None
        if isinstance(self.error, Contradiction):
            return Unavailable(f"nothing can be taken in just now: {self.error}")
        return self.error

    def postpone(self, error: Exception, pause_s: float) -> bool:
        """The try has failed, too. Whether that is news."""
        news = str(error) != str(self.error)
        self.deposed = self.deposed or isinstance(error, NotLeading)
        self.stale = self.stale or self.deposed
        self.error = error if isinstance(error, Unavailable) else Unavailable(str(error))
        self._next_s = _now_s() + pause_s
        return news

    def take(
        self,
        items: Iterable[Item],
        reply: Reply,
        hang_up: Callable[[int], None],
        *,
        may_wait: bool = False,
    ) -> list[FromLink]:
        """Refuse callers (unless they may wait for the next try), hold news. Gives the beats."""
        beats: list[FromLink] = []
        refusal = None if may_wait else self.refusal
        for item in items:
            if isinstance(item, Asked) and refusal is not None:
                reply(item.ticket, refusal)
            elif isinstance(item, FromLink) and isinstance(item.message, Beat):
                beats.append(item)
            elif isinstance(item, FromLink) and item.message is None:
                self._drop(item.link)
                self.held.append(item)
            elif isinstance(item, FromLink) and self._is_too_much(item.link):
                self._drop(item.link)
                hang_up(item.link)
            else:
                self.held.append(item)
        return beats

    @property
    def has_callers(self) -> bool:
        return any(isinstance(item, Asked) for item in self.held)

    def refuse(self, reply: Reply) -> None:
        """Callers that were held have waited long enough."""
        refusal = self.refusal or Unavailable(f"nothing was changed: {self.error}")
        asked = [item for item in self.held if isinstance(item, Asked)]
        self.held = [item for item in self.held if not isinstance(item, Asked)]
        for item in asked:
            reply(item.ticket, refusal)

    def _is_too_much(self, link: int) -> bool:
        self._said[link] += 1
        return self._said[link] > HELD_MAX

    def _drop(self, link: int) -> None:
        """An agent that has gone has nothing to say: what it reported comes in full once more."""
        self.held = [h for h in self.held if not isinstance(h, FromLink) or h.link != link]


class Rest:
    """A pass or a timer breaks, and nobody knows on what: none is tried for a while."""

    def __init__(self) -> None:
        #: Jobs that were held because something broke on them.
        self.blamed: set[int] = set()
        self._pause_s = PAUSE_S
        self._until_s = 0.0

    @property
    def left_s(self) -> float:
        return max(0.0, self._until_s - _now_s())

    @property
    def is_on(self) -> bool:
        return self.left_s > 0.0

    def begin(self) -> float:
        """How long it lasts: longer each time."""
        pause_s, self._pause_s = self._pause_s, longer(self._pause_s)
        self._until_s = _now_s() + pause_s
        return pause_s

    def over(self) -> None:
        """A whole tick went well."""
        self._pause_s = PAUSE_S
        self.blamed.clear()


class Trouble:
    """What people must know about the ticks: one that does not end, and one that was dropped."""

    def __init__(self) -> None:
        #: Since when the tick that is going on goes on, and when the last one was dropped.
        self.since_s: float | None = None
        self.broke_s: float | None = None

    def words(self, outage: Outage | None) -> str:
        """Why nothing can be taken in just now; empty: it can."""
        now_s = time.monotonic()
        if self.since_s is not None and now_s - self.since_s > STUCK_S:
            return f"a tick has not ended for {now_s - self.since_s:.0f}s"
        lasts = outage is not None and outage.refusal is not None
        if lasts or (self.broke_s is not None and now_s - self.broke_s < BROKE_S):
            return "the last change could not be written; controller.log says why"
        return ""
