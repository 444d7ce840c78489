"""What waits inside an engine: what is told of it, and what comes back to Rota's own queue.

In a pool few may wait at once, because inside the engine Rota's order, shares and preemption do not
count. Without I/O and without a clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.backends.api import EnginePhase

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from rota.backends.api import EngineJob
    from rota.backends.journal import EngineEntry

#: An engine needs a moment to start what it has room for: so long nothing counts as waiting. Slurm
#: puts off its look at new jobs by up to three seconds (``batch_sched_delay``).
MOMENT_S = 5.0


class PoolMeter:
    """``inside_max`` of a pool may wait, and none for longer than ``give_back_s`` (0: for ever).

    What has its machine already does not wait for room: the machine boots, or fetches an image. It
    has ``begin_s`` for that (0: for ever). What waits without a reason is not too much of a pool:
    the engine has not looked at it yet.
    """

    def __init__(self, inside_max: int, give_back_s: float, begin_s: float = 0.0) -> None:
        self._inside_max, self._give_back_s, self._begin_s = inside_max, give_back_s, begin_s
        #: Since when each has been seen to wait, and to wait on its machine.
        self._since_s: dict[str, float] = {}
        self._placed_s: dict[str, float] = {}
        self._now_s = 0.0

    def note(self, jobs: Iterable[EngineJob], now_s: float) -> None:
        """What a look at the engine shows, at this time of a clock that never jumps."""
        waiting = [job for job in jobs if job.phase is EnginePhase.WAITING]
        self._since_s = {job.uid: self._since_s.get(job.uid, now_s) for job in waiting}
        placed = [job.uid for job in waiting if job.node]
        self._placed_s = {uid: self._placed_s.get(uid, now_s) for uid in placed}
        self._now_s = now_s

    def is_news(self, uid: str) -> bool:
        """Whether it has waited for longer than a start takes."""
        return self._now_s - self._since_s.get(uid, self._now_s) >= MOMENT_S

    def given_back(
        self,
        seen: Mapping[str, EngineJob],
        entries: Mapping[str, EngineEntry],
        pools: Collection[str],
        now_s: float,
    ) -> Iterator[tuple[str, str]]:
        """Who comes back, and why. In a pool the first to come may stay; a gang counts once."""
        inside: dict[str, dict[str, None]] = {}
        waiting = [entries[uid] for uid, job in seen.items() if job.phase is EnginePhase.WAITING]
        for entry in sorted(waiting, key=lambda entry: (entry.at_s, entry.uid)):
            if entry.given_back or seen[entry.uid].held:
                continue
            if seen[entry.uid].node:
                since_s = self._placed_s.get(entry.uid, self._now_s)
                if self._begin_s and self._now_s - since_s > self._begin_s:
                    yield entry.uid, "it did not begin"
            elif self._give_back_s and now_s - entry.at_s > self._give_back_s:
                yield entry.uid, "it waited"
            elif entry.node in pools and self.is_news(entry.uid) and seen[entry.uid].reason:
                before = inside.setdefault(entry.node, {})
                before[entry.gang.leader if entry.gang is not None else entry.uid] = None
                if len(before) > self._inside_max:
                    yield entry.uid, "too many wait"
