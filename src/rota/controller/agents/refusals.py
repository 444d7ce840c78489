"""What the log says of agents that are turned away: who, from where, and why.

An agent that is refused dials again for as long as it lives, and a rogue one as often as it can:
the same case is told once a minute, and of many cases only the first ones.
"""

from __future__ import annotations

import logging
import time

log = logging.getLogger("rota.controller")

WINDOW_S = 60.0
CASES_MAX = 20


class Refusals:
    """Writes the log."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()
        self._untold = 0
        self._since_s = time.monotonic()

    def note(self, place: str, node: str, token: str, reason: str) -> None:
        """``token`` is the id of what it showed, never its secret."""
        self._turn_page()
        case = (place.rpartition(":")[0], reason)
        if case in self._told or len(self._told) >= CASES_MAX:
            self._untold += 1
            return
        self._told.add(case)
        known = [f"node {node}"] if node else []
        known += [f"token {token}"] if token else []
        who = f" ({', '.join(known)})" if known else ""
        log.warning("refused the agent at %s%s: %s", place, who, reason)

    def _turn_page(self) -> None:
        now_s = time.monotonic()
        if now_s - self._since_s < WINDOW_S:
            return
        if self._untold:
            log.warning("refused agents %d more times, as told before", self._untold)
        self._told.clear()
        self._untold, self._since_s = 0, now_s
