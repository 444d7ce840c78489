"""Processes outside Rota on the devices of this machine, and whether that is news."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rota.agent.machine.gpus import BadGpuFile, foreign_use
from rota.keeper.processes import group_by_owner, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.agent.machine.gpus import Tolerance
    from rota.core.facts.node import Device, ForeignUse

log = logging.getLogger("rota.agent")


class ForeignWatch:
    """``alive`` lists attempts as (uid, pid, anything): their processes are our own."""

    def __init__(
        self,
        devices: tuple[Device, ...],
        alive: Callable[[], list[tuple[str, int, int]]],
        gpus_file: str,
        tolerance: Tolerance,
    ) -> None:
        self._devices, self._alive = devices, alive
        self._gpus_file, self._tolerance = gpus_file, tolerance
        self.use: tuple[ForeignUse, ...] = ()

    def look(self) -> bool:
        """Whether it has changed."""
        if not self._devices:
            return False
        try:
            use = foreign_use(self._devices, self._own_pids, self._gpus_file, self._tolerance)
        except BadGpuFile as error:
            log.error("%s", error)
            return False
        changed, self.use = use != self.use, use
        return changed

    def _own_pids(self) -> set[int]:
        mains = {pid: uid for uid, pid, _ in self._alive()}
        owned = group_by_owner(snapshot(), mains, {})
        return {pid for members in owned.values() for pid in members}
