"""Watching the memory of attempts where no cgroup does it: one look at /proc for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.agent.machine.cgroups import size_text
from rota.keeper.processes import Process, group_by_owner, look, proportional_kib, snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.session.charge import Alive


class MemoryWatch:
    """Remembers the peaks of attempts with a limit, and finds those above it."""

    def __init__(self) -> None:
        self._peaks_kib: dict[str, int] = {}

    def look(self, running: Sequence[Alive]) -> list[tuple[str, str]]:
        """The attempts above their limit, as (uid, what to tell the user).

        Resident memory counts shared pages once
        per process, so it only raises the suspicion; what convicts is the proportional size,
        which splits them among their users.
        """
        limits = {one.uid: one.memory_mib for one in running if one.memory_mib > 0}
        if not limits:
            return []
        table = snapshot()
        owned = group_by_owner(table, {one.pid: one.uid for one in running}, {})
        found = []
        for uid, limit_mib in limits.items():
            members = [table[pid] for pid in owned.get(uid, ())]
            used_kib = sum(member.rss_kib for member in members)
            if used_kib > limit_mib * 1024:
                used_kib = sum(map(_held_kib, members))
            self._peaks_kib[uid] = max(used_kib, self._peaks_kib.get(uid, 0))
            if used_kib > limit_mib * 1024:
                used, limit = size_text(used_kib / 1024), size_text(limit_mib)
                found.append((uid, f"used {used} of {limit}"))
        return found

    def take_peak_kib(self, uid: str) -> int:
        """The most that was seen of an attempt, asked for once, when it has ended."""
        return self._peaks_kib.pop(uid, 0)


def _held_kib(process: Process) -> int:
    held = proportional_kib(process.pid)
    if held is not None:
        return held
    return process.rss_kib if look(process.pid) else 0
