"""Watching the memory of attempts where no cgroup does it: one look at /proc for all of them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from rota.agent.machine.cgroups import size_text
from rota.agent.machine.looks import looks
from rota.keeper.processes import Process, group_by_owner, look, proportional_kib, snapshot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from rota.session.charge import Alive

POLL_S = 0.5
#: The kernel counts page by page; what is so large that this is not enough is asked again.
COUNT_S = 2.0


class MemoryWatch:
    """Remembers the peaks of attempts with a limit, and finds those above it."""

    def __init__(self) -> None:
        self._peaks_kib: dict[str, int] = {}
        #: Above the limit at the last look.
        self._suspects: set[str] = set()

    async def run(
        self,
        alive: Callable[[], list[Alive]],
        work: Callable[[], Awaitable[None]],
        found: Callable[[str, str], None],
    ) -> None:
        """Twice a second while there is work; until then it sleeps."""
        while True:
            await work()
            await asyncio.sleep(POLL_S)
            for uid, detail in await asyncio.to_thread(self.look, alive()):
                found(uid, detail)

    def look(self, running: Sequence[Alive]) -> list[tuple[str, str]]:
        """The attempts above their limit, as (uid, what to tell the user). Not for the loop.

        Resident memory counts shared pages once per process, so it only raises the suspicion;
        what convicts is the proportional size, which splits them among their users. While
        processes come and go no single look is exact: two in a row must agree.
        """
        limits = {one.uid: one.memory_mib for one in running if one.memory_mib > 0}
        suspects, self._suspects = self._suspects, set()
        if not limits:
            return []
        table = snapshot()
        owned = group_by_owner(table, {one.pid: one.uid for one in running}, {})
        found = []
        for uid, limit_mib in limits.items():
            used_kib = _used_kib(uid, limit_mib, [table[pid] for pid in owned.get(uid, ())])
            if used_kib is None:
                continue
            if used_kib > limit_mib * 1024:
                self._suspects.add(uid)
                if uid not in suspects:
                    continue
                used, limit = size_text(used_kib / 1024), size_text(limit_mib)
                found.append((uid, f"used {used} of {limit}"))
            self._peaks_kib[uid] = max(used_kib, self._peaks_kib.get(uid, 0))
        return found

    def take_peak_kib(self, uid: str) -> int:
        """The most that was seen of an attempt, asked for once, when it has ended."""
        return self._peaks_kib.pop(uid, 0)


def _used_kib(uid: str, limit_mib: int, members: list[Process]) -> int | None:
    """None: it cannot be said in time."""
    resident_kib = sum(member.rss_kib for member in members)
    if resident_kib <= limit_mib * 1024:
        return resident_kib
    return looks.within(("memory", uid), COUNT_S, partial(held_kib, members))


def held_kib(processes: Iterable[Process]) -> int:
    """What these hold together; those that are gone when all have been counted hold nothing."""
    held = {one: proportional_kib(one.pid) for one in processes}
    total_kib = 0
    for one, own_kib in held.items():
        now = look(one.pid)
        if now is not None and now.start == one.start and not now.zombie:
            total_kib += now.rss_kib if own_kib is None else own_kib
    return total_kib
