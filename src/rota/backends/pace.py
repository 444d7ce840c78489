"""How long to wait before an engine is asked again: one that answers, and one that does not."""

from __future__ import annotations

import logging
from collections import deque

FIRST_S, MOST_S = 1.0, 30.0
#: However long an engine asks us to wait.
ASKED_MOST_S = 120.0
#: While things happen an engine is asked this often at the most, and spends no more than this part
#: of the time on our question.
SOONEST_S, PART_MAX = 0.1, 0.2
#: What a question costs the engine is said by the fastest of its last answers: one that comes late
#: may have waited for this machine, which has other things to do.
ANSWERS = 4
#: After a pause of so long that helped nothing the engine is away, for people and jobs as well.
AWAY_S = 2.0

log = logging.getLogger("rota.engine")


class EngineBreaker:
    """Opens when the engine is silent: each try that fails makes the next pause longer.

    Said once when it goes and once when it is back, not at every try.
    """

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._pause_s = 0.0
        self.why = ""
        #: It has not answered for a while, not just once.
        self.is_away = False

    def failed(self, why: str, after_s: float = 0.0) -> float:
        """How long to wait now, and as long as the engine itself has asked for."""
        if not self.why:
            log.warning("engine %s does not answer: %s", self._engine, why)
        self.why = why
        self.is_away = self._pause_s >= AWAY_S
        self._pause_s = min(max(FIRST_S, 2 * self._pause_s), MOST_S)
        return max(self._pause_s, min(after_s, ASKED_MOST_S))

    def answered(self) -> None:
        if self.why:
            log.info("engine %s answers again", self._engine)
        self.why, self._pause_s, self.is_away = "", 0.0, False


class Pace:
    """How often an engine is polled: soon again after a change, and less and less without one."""

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._seen: object = None
        self._took_s: deque[float] = deque(maxlen=ANSWERS)
        self.pause_s = most_s

    def saw(self, listing: object, took_s: float) -> None:
        """What the engine shows, and how long it took to say so."""
        self._took_s.append(took_s)
        costs_s = min(self._took_s)
        soonest_s = max(SOONEST_S, costs_s / PART_MAX)
        self.pause_s = soonest_s if listing != self._seen else 2 * self.pause_s
        self.pause_s = min(max(self.pause_s, soonest_s), max(self._most_s, costs_s))
        self._seen = listing
