"""Signals as they are sent. The keeper runs this file without the package around it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.keeper.journal import Attempt
    from rota.keeper.processes import Process

#: Those that ask a program to end.
REQUESTS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


def deliver(
    attempt: Attempt, group: int, members: list[int], table: dict[int, Process], number: int
) -> None:
    _send(group, members, table, number)
    if number in REQUESTS or (attempt.asked and number != signal.SIGKILL):
        # A stopped process would not hear it.
        _send(group, members, table, signal.SIGCONT)


def _send(group: int, members: list[int], table: dict[int, Process], number: int) -> None:
    """To the group in one call, so that none of it can slip away; to all others one by one."""
    if group:
        kill(-group, number)
    for pid in members:
        if not group or table[pid].group != group:
            kill(pid, number)


def kill(pid: int, number: int) -> None:
    """A process, or with a negative number a group. 0, 1 and -1 would mean far more than that."""
    if abs(pid) <= 1:
        return
    with suppress(OSError):
        os.kill(pid, number)


def switch(cgroup: str, name: str, value: bytes) -> None:
    """``kill`` and ``freeze`` reach all processes of a group at once, where the kernel has them."""
    with suppress(OSError), open(f"{cgroup}/cgroup.{name}", "wb", buffering=0) as switch:
        switch.write(value)
