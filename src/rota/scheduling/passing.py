"""Whether a job may pass another that waits for room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.policy import HIGH_MIN

if TYPE_CHECKING:
    from rota.core.facts.policy import Policy


class Passing:
    """How many jobs, or which ones, may pass a job that waits for room."""

    def __init__(self, policy: Policy, *, asks_all: bool) -> None:
        """``asks_all``: lanes that are known to find no room may take that of others."""
        self.is_strict = policy.order.strict
        self._look_ahead = policy.backfill.look_ahead
        self._is_high_kept = not policy.backfill.high
        #: Lanes that are known to wait take their turn, too.
        self.is_bounded = self.is_strict or self._look_ahead > 0
        #: No lane may be left out because its answer is known: it counts, or may take room.
        self.asks_all = self.is_bounded or asks_all
        #: Heads that were looked at behind the first promise.
        self.watched = 0
        #: Nothing may pass the job that was looked at last.
        self.is_over = False
        #: Jobs were kept behind another that some may pass.
        self.has_kept = False

    def keeps(self, priority: int) -> bool:
        """Whether a job with this priority passes no other; looked at behind the first promise."""
        self.watched += 1
        self.is_over |= 0 < self._look_ahead <= self.watched
        kept = self._is_high_kept and priority >= HIGH_MIN
        self.has_kept |= kept
        return kept
