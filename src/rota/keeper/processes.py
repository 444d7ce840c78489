"""What /proc says about processes: who belongs to which attempt, and how much memory it holds.

The keeper runs this file without the package around it, so it imports next to nothing.
"""

from __future__ import annotations

import os

#: Every process of an attempt starts with this variable; it survives double forks and setsid.
UID_VARIABLE = "ROTA_ATTEMPT_UID"

#: A longer uid is none of ours.
_UID_BYTES_MAX = 512
_MARK = UID_VARIABLE.encode() + b"="
_READ_BYTES = 1 << 20
#: No kernel starts a program with a longer environment unless its stack may be larger than usual.
ENVIRON_BYTES_MAX = 2 << 20
_MOST_BYTES = 1 << 28
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


class Process:
    """One line of /proc/PID/stat, as far as it matters here."""

    __slots__ = (
        *("cpu_ticks", "group", "parent", "pid", "rss_kib", "session", "start", "state"),
        *("stopped", "zombie"),
    )

    def __init__(self, pid: int, stat: bytes) -> None:
        # The name in brackets may hold blanks and brackets: the last bracket ends it.
        fields = stat[stat.rindex(b")") + 2 :].split(None, 22)
        self.pid = pid
        self.state = fields[0].decode()
        #: It has ended; only nobody has asked for its status yet.
        self.zombie = fields[0] in (b"Z", b"X")
        self.stopped = fields[0] in (b"T", b"t")
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        #: Its own time on CPUs, and that of children that it has waited for.
        self.cpu_ticks = sum(map(int, fields[11:15]))
        self.start = int(fields[19])
        self.rss_kib = int(fields[21]) * PAGE_KIB


def read(path: str, most: int = 0) -> bytes:
    """A small /proc file; with ``most`` one of any length, as far as that.

    Empty when it is gone or closed to us. What lies in the memory of a process (``environ``,
    ``cmdline``) and what locks it (``smaps``) may not answer: see ``asides``.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    parts, size = [], 0
    try:
        while part := os.read(fd, min(_READ_BYTES, most - size) if most else _READ_BYTES):
            parts.append(part)
            size += len(part)
            if not most and size % 4096:
                break
    except OSError:
        return b""
    finally:
        os.close(fd)
    return b"".join(parts)


def look(pid: int) -> Process | None:
    """The process, or None when there is none (any more)."""
    stat = read(f"/proc/{pid}/stat")
    return Process(pid, stat) if stat else None


def start_of(pid: int) -> int:
    """When a process that exists began, in ticks since the boot: with the pid, its identity."""
    stat = read(f"/proc/{pid}/stat")
    return int(stat[stat.rindex(b")") + 2 :].split(None, 20)[19]) if stat else 0


def snapshot() -> dict[int, Process]:
    """Every process that /proc shows, by pid."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (process := look(int(name))) is not None:
            table[process.pid] = process
    return table


def children_of_self(pid: int) -> list[int]:
    """The pids of this process's children: one cheap file where the kernel has it."""
    try:
        fd = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return [process.pid for process in snapshot().values() if process.parent == pid]
    try:
        parts = []
        while part := os.read(fd, _READ_BYTES):
            parts.append(part)
    finally:
        os.close(fd)
    return [int(child) for child in b"".join(parts).split()]


def pids_in(group: str) -> list[int]:
    """The processes of a control group; none where there is none."""
    return [int(pid) for pid in read(f"{group}/cgroup.procs", _MOST_BYTES).split()] if group else []


def groups_of(pid: int) -> list[str]:
    """The names of the control groups that a process is in, from the top."""
    for line in read(f"/proc/{pid}/cgroup").splitlines():
        if line.startswith(b"0::/"):
            return line[4:].decode("utf-8", "replace").split("/")
    return []


def environ_of(pid: int) -> list[bytes]:
    """The environment that a process began with, or what it shows instead: not for the loop."""
    return read(f"/proc/{pid}/environ", ENVIRON_BYTES_MAX).split(b"\0")


def attempt_uid(pid: int) -> str:
    """The attempt that a process was started for, as its environment says: not for the loop."""
    for entry in environ_of(pid):
        if entry.startswith(_MARK):
            return entry[len(_MARK) :][:_UID_BYTES_MAX].decode("utf-8", "replace")
    return ""


def real_user(pid: int) -> int:
    """The user id of who started a process; -1 when it is gone."""
    for line in read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"Uid:"):
            return int(line.split()[1])
    return -1


def may_stem(user: int, owner: int) -> bool:
    """Whether a process of a user can stem from an attempt of an owner; -1: nobody knows who.

    What its environment says is the user's word. Root can become anybody, and a program may lend
    the rights of root.
    """
    return owner in (user, 0, -1) or user in (0, -1)


def group_by_owner(
    table: dict[int, Process], mains: dict[int, str], orphans: dict[int, str]
) -> dict[str, list[int]]:
    """The processes of each attempt: its session and group, their descendants, known orphans.

    ``mains`` maps the first process of an attempt to its uid, ``orphans`` further roots.
    """
    owner_of: dict[int, str] = {}
    owned: dict[str, list[int]] = {}
    for pid in table:
        owner = _resolve(pid, table, owner_of, mains, orphans)
        if owner:
            owned.setdefault(owner, []).append(pid)
    return owned


def _resolve(
    pid: int,
    table: dict[int, Process],
    owner_of: dict[int, str],
    mains: dict[int, str],
    orphans: dict[int, str],
) -> str:
    """Walk up to the first ancestor with a known owner, and remember the answer on the way."""
    path = []
    owner = ""
    while not owner:
        if pid in owner_of:
            owner = owner_of[pid]
            break
        process = table.get(pid)
        if process is None:
            break
        path.append(pid)
        # Ends a cycle: pids may be reused while /proc is being read.
        owner_of[pid] = ""
        owner = _direct_owner(process, mains, orphans)
        pid = process.parent
    for step in path:
        owner_of[step] = owner
    return owner


def _direct_owner(process: Process, mains: dict[int, str], orphans: dict[int, str]) -> str:
    return (
        mains.get(process.pid)
        or orphans.get(process.pid)
        or mains.get(process.session)
        or mains.get(process.group)
        or ""
    )


def proportional_kib(pid: int) -> int | None:
    """Memory with shared pages split among their users, or None where the kernel won't say."""
    for line in read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1])
    return None


def boot_id() -> str:
    """Another value means that the machine restarted and every older process is gone."""
    return read("/proc/sys/kernel/random/boot_id").decode().strip()
