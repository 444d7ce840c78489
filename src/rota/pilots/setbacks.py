"""How long to wait before more are asked for when allocations die at once."""

from __future__ import annotations

FIRST_S, MOST_S = 5.0, 600.0


class Setbacks:
    """Each one that fails makes the next pause longer; one that joins ends all of that."""

    def __init__(self) -> None:
        self._count = 0
        self._until_s = 0.0
        self._why = ""

    def failed(self, why: str, now_s: float) -> None:
        if now_s < self._until_s:
            return  # Those that were asked for together die together.
        self._count += 1
        self._why = why
        self._until_s = now_s + min(FIRST_S * 2 ** (self._count - 1), MOST_S)

    def worked(self) -> None:
        self._count, self._until_s, self._why = 0, 0.0, ""

    def pause_s(self, now_s: float) -> float:
        return max(0.0, self._until_s - now_s)

    def is_over(self, now_s: float) -> bool:
        return now_s >= self._until_s

    def line(self, now_s: float) -> str:
        """For people; empty: all is well."""
        if not self._why:
            return ""
        left_s = max(0.0, self._until_s - now_s)
        again = f"; the next one is asked for in {left_s:.0f} s" if left_s else ""
        return f"{self._why}{again}"
