"""How long to wait before an engine is asked again that did not answer."""

from __future__ import annotations

import logging

FIRST_S, MOST_S = 1.0, 30.0

log = logging.getLogger("rota.engine")


class Breaker:
    """Opens when the engine is silent: each try that fails makes the next pause longer.

    Said once when it goes and once when it is back, not at every try.
    """

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._pause_s = 0.0
        self.why = ""

    def failed(self, why: str) -> float:
        """How long to wait now."""
        if not self.why:
            log.warning("engine %s does not answer: %s", self._engine, why)
        self.why = why
        self._pause_s = min(max(FIRST_S, 2 * self._pause_s), MOST_S)
        return self._pause_s

    def answered(self) -> None:
        if self.why:
            log.info("engine %s answers again", self._engine)
        self.why, self._pause_s = "", 0.0
