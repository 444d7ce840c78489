"""Whose the processes on the devices are: an attempt's, or of a user outside Rota."""

from __future__ import annotations

import os
import pwd
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rota.agent.machine.gpus import read_text
from rota.agent.machine.looks import looks
from rota.core.facts.node import ForeignUse
from rota.keeper.processes import (
    Process,
    attempt_uid,
    group_by_owner,
    look,
    may_stem,
    real_user,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rota.agent.machine.gpus import Tolerance
    from rota.agent.machine.readings import DeviceHolder
    from rota.session.charge import Alive

#: The memory of a user's processes has so long to say whose they are.
ENVIRON_S = 1.0


def owners_of(pids: Collection[int], alive: Collection[Alive]) -> dict[int, str]:
    """The attempt of each of these processes that belongs to one: only their parents are read."""
    if not pids or not alive:
        return {}
    table: dict[int, Process] = {}
    for pid in pids:
        while pid not in table and (process := look(pid)) is not None:
            table[pid] = process
            pid = process.parent
    owned = group_by_owner(table, {one.pid: one.uid for one in alive}, {})
    found = {pid: uid for uid, members in owned.items() for pid in members if pid in pids}
    mains = {one.uid: one.pid for one in alive}
    strays: dict[int, list[int]] = {}
    for pid in pids:
        if pid not in found:
            strays.setdefault(real_user(pid), []).append(pid)
    for user, theirs in strays.items():
        # One that left the tree of its attempt still has the environment that it began with.
        said = looks.within(("environ", user), ENVIRON_S, partial(_said, theirs)) or {}
        found |= {
            pid: uid
            for pid, uid in said.items()
            if uid in mains and may_stem(user, real_user(mains[uid]))
        }
    return found


def _said(pids: list[int]) -> dict[int, str]:
    """In a thread of its own."""
    return {pid: attempt_uid(pid) for pid in pids}


def strangers(
    held: Iterable[DeviceHolder], ours: Collection[int], tolerance: Tolerance
) -> tuple[ForeignUse, ...]:
    """Processes on the devices that are not ours.

    Those that do not count are told as well, and marked, so that people can see them.
    """
    found: dict[tuple[int, int], ForeignUse] = {}
    for one in held:
        if not one.pid or one.pid in ours:
            continue
        user = one.user or owner_of(one.pid)
        use = ForeignUse(one.device, one.pid, user, one.memory_mib or 0)
        name = one.name

        def name_of(pid: int, name: str = name) -> str:
            return name or read_text(Path(f"/proc/{pid}/comm"))

        if tolerance.covers(use, name_of):
            use = msgspec.structs.replace(use, ignored=True)
        found[one.device, one.pid] = use
    return tuple(found.values())


def owner_of(pid: int) -> str:
    """The name of a process's user, or its number, or empty when it is gone."""
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
