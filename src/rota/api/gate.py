"""How much one user may ask in a time: a bucket per user that fills again by itself."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.core.facts.errors import Busy
from rota.core.facts.tenant import Access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rota.core.facts.tenant import Actor
    from rota.settings.limits import UserLimits

#: Nodes may bring and be told whatever their jobs need; admins set the limits.
FREE = frozenset({Access.ADMIN, Access.AGENT})
#: Buckets are forgotten when they are full again; looked for when there are this many.
_MANY = 10_000
DAY_S = 86_400.0
#: Bodies of one user that are in memory at one time: two of the largest.
HELD_BYTES_MAX = 256 * 1024 * 1024


def counted_as(actor: Actor) -> str:
    """Whom requests and connections count for; empty: nobody, of an admin."""
    if actor.access is Access.ADMIN:
        return ""
    # Agents share the user that made their tokens.
    return f"token {actor.token}" if actor.access is Access.AGENT else actor.user


class UserBuckets:
    """One bucket per user: ``rate`` flows in each second, ``burst`` is the most that it holds."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        #: What was left, and when.
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, user: str, amount: float) -> float:
        """Take it, and 0; or take nothing, and in how many seconds it would be there."""
        now_s = self._clock()
        left, then_s = self._left.get(user, (self._burst, now_s))
        left = min(self._burst, left + (now_s - then_s) * self._rate)
        # More than a full bucket is let through once it is full: it could never come otherwise.
        missing = min(amount, self._burst) - left
        if missing > 0:
            return missing / self._rate
        if len(self._left) >= _MANY:
            self._forget_full(now_s)
        self._left[user] = (left - amount, now_s)
        return 0.0

    def _forget_full(self, now_s: float) -> None:
        kept = self._left.items()
        rate, burst = self._rate, self._burst
        self._left = {u: (n, at) for u, (n, at) in kept if n + (now_s - at) * rate < burst}


class Gate:
    """Stands at the door: raises ``Busy`` (429 with Retry-After) for what comes too fast."""

    def __init__(self, limits: UserLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        rate, day = limits.requests_per_s, limits.blob_bytes_per_day
        self._requests = UserBuckets(rate, limits.requests_burst, clock) if rate else None
        self._blobs = UserBuckets(day / DAY_S, day, clock) if day else None
        folders = limits.bundle_bytes_per_day
        self._bundles = UserBuckets(folders / DAY_S, folders, clock) if folders else None
        #: Bytes of bodies that came and are not answered yet.
        self._held: Counter[str] = Counter()

    def request(self, whose: str) -> None:
        """One request more of somebody, as ``counted_as`` says it."""
        if self._requests is None or not whose:
            return
        if wait_s := self._requests.take(whose, 1):
            raise Busy(
                f"requests: too many of {whose}; allowed are {self._limits.requests_per_s} "
                "a second (limits.requests_per_s)",
                wait_s,
            )

    def blobs(self, actor: Actor, size: int) -> None:
        """Bytes of environments, scripts and inputs that the site does not have yet."""
        if not size or self._blobs is None or actor.access in FREE:
            return
        if wait_s := self._blobs.take(actor.user, size):
            raise Busy(
                f"blobs: {size} bytes of new environments, scripts and inputs are too many of "
                f"{actor.user} today; allowed are {self._limits.blobs_per_day} a day "
                "(limits.blobs_per_day)",
                wait_s,
            )

    def bundles(self, actor: Actor, size: int) -> None:
        """More bytes of a working folder."""
        if self._bundles is None or actor.access in FREE:
            return
        if wait_s := self._bundles.take(actor.user, size):
            raise Busy(
                f"bundles: too many bytes of {actor.user} today; allowed are "
                f"{self._limits.bundles_per_day} a day (limits.bundles_per_day)",
                wait_s,
            )

    @contextmanager
    def holding(self, actor: Actor) -> Iterator[Callable[[int], None]]:
        """While a body is read and answered: what is called takes the bytes that came."""
        user, held = actor.user, 0

        def more(size: int) -> None:
            nonlocal held
            held += size
            self._held[user] += size
            if self._held[user] > HELD_BYTES_MAX and actor.access not in FREE:
                raise Busy(
                    f"body: {user} sends more than {HELD_BYTES_MAX} bytes at once; "
                    "send one after the other",
                    1.0,
                )

        try:
            yield more
        finally:
            self._held[user] -= held
            if not self._held[user]:
                del self._held[user]
