"""A circuit breaker: who fails again and again is left alone for a while, then tried once."""

from __future__ import annotations

FAILURES, PAUSE_S = 5, 60.0


class Breaker:
    """Pure: time comes in. Closed while all is well; after ``failures`` in a row it is open."""

    def __init__(self, failures: int = FAILURES, pause_s: float = PAUSE_S) -> None:
        self._most = failures
        self._pause_s = pause_s
        self._failures = 0
        self._opened_s: float | None = None
        self._trying = False

    @property
    def is_open(self) -> bool:
        return self._opened_s is not None

    def wait_s(self, now_s: float) -> float:
        """How long nobody should ask; 0: now. After a pause exactly one may, to see how it is."""
        if self._opened_s is None:
            return 0.0
        left_s = self._opened_s + self._pause_s - now_s
        if left_s > 0 or self._trying:
            return max(left_s, 0.0) or self._pause_s
        self._trying = True
        return 0.0

    def succeeded(self) -> None:
        self._failures, self._opened_s, self._trying = 0, None, False

    def failed(self, now_s: float) -> None:
        self._failures += 1
        self._trying = False
        if self._failures >= self._most:
            self._opened_s = now_s
