"""What /proc says about processes: who belongs to which attempt, and how much memory it holds.

The keeper runs this file without the package around it, so it imports next to nothing.
"""

from __future__ import annotations

import os

#: Every process of an attempt starts with this variable; it survives double forks and setsid.
UID_VARIABLE = "ROTA_ATTEMPT_UID"

_MARK = UID_VARIABLE.encode() + b"="
_READ_BYTES = 1 << 20
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


def read(path: str) -> bytes:
    """The whole of a small /proc file; empty when it is gone or closed to us."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        body = os.read(fd, _READ_BYTES)
        while len(body) % 4096 == 0 and (more := os.read(fd, _READ_BYTES)):
            body += more
    except OSError:
        return b""
    finally:
        os.close(fd)
    return body


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


def first_of(attempts: dict[str, str]) -> dict[str, Process]:
    """The oldest process of each of these attempts, whose groups (or none) are given, if any."""
    found: dict[str, Process] = {}
    groups = {uid: read(f"{group}/cgroup.procs") for uid, group in attempts.items() if group}
    grouped = {int(pid): uid for uid, pids in groups.items() for pid in pids.split()}
    for process in snapshot().values() if attempts else ():
        uid = grouped.get(process.pid) or attempt_uid(process.pid)
        if uid in attempts and not process.zombie:
            found[uid] = min(found.get(uid, process), process, key=lambda one: one.start)
    return found


def attempt_uid(pid: int) -> str:
    """The attempt that a process was started for, as its first environment says; else empty."""
    environ = read(f"/proc/{pid}/environ")
    if environ.startswith(_MARK):
        begin = len(_MARK)
    else:
        at = environ.find(b"\0" + _MARK)
        if at < 0:
            return ""
        begin = at + 1 + len(_MARK)
    end = environ.find(b"\0", begin)
    return environ[begin : end if end >= 0 else None].decode("utf-8", "replace")


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
