"""Whether a job may pass another that waits for room."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.core.facts.policy import Policy


class Passing:
    """How many jobs, or which ones, may pass a job that waits for room."""

    def __init__(self, policy: Policy, *, asks_all: bool) -> None:
        """``asks_all``: lanes that are known to find no room may take that of others."""
        self.is_strict = policy.order.strict
        self._look_ahead = policy.backfill.look_ahead
        #: Lanes that are known to wait take their turn, too.
        self.is_bounded = self.is_strict or self._look_ahead > 0
        #: No lane may be left out because its answer is known: it counts, or may take room.
        self.asks_all = self.is_bounded or asks_all
        #: Heads that were looked at behind the first promise.
        self.watched = 0
        #: Nothing may pass the job that was looked at last.
        self.is_closed = False

    @property
    def is_over(self) -> bool:
        return self.is_closed or 0 < self._look_ahead <= self.watched
