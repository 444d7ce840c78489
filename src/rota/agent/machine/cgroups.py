"""Control groups (version 2) for attempts, below a root that was delegated to the agent.

The root is an argument: ``/sys/fs/cgroup/…`` in life, a temporary folder in tests. Without one
the agent watches memory by polling and kills by process tree.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

MIB = 1 << 20
#: The length of the kernel's accounting period for CPU time.
PERIOD_US = 100_000
CONTROLLERS = ("cpu", "memory")
TOP = Path("/sys/fs/cgroup")


class CgroupsUnusable(Exception):
    """The folder cannot be used; the text says why."""


def open_cgroups(root: str, name: str, top: Path = TOP) -> Cgroups | None:
    """The groups below ``root``; without one a folder of our own, if the kernel lets us.

    Only the top group may hold processes and hand out controllers as well, so our own folder
    is made there, which takes root. ``off`` turns groups off.
    """
    if root == "off":
        return None
    if root:
        return Cgroups(root)
    own = top / f"rota-{name}"
    try:
        available = (top / "cgroup.controllers").read_text().split()
        wanted = [f"+{controller}" for controller in CONTROLLERS if controller in available]
        (top / "cgroup.subtree_control").write_text(" ".join(wanted))
        own.mkdir(exist_ok=True)
        return Cgroups(own, ours=True)
    except (OSError, CgroupsUnusable):
        return None


class Cgroups:
    """One group per attempt: limits, the peak of its memory, whether the kernel had to kill."""

    def __init__(self, root: str | Path, *, ours: bool = False) -> None:
        """With ``ours`` the root was made by us, and goes with us."""
        self.root = Path(root)
        self._ours = ours
        #: Groups that were to go while processes in them were still dying.
        self._late: set[str] = set()
        try:
            available = (self.root / "cgroup.controllers").read_text().split()
        except OSError as error:
            raise CgroupsUnusable(f"cgroup root {root}: {error.strerror}") from None
        if "memory" not in available:
            raise CgroupsUnusable(f"cgroup root {root}: no memory controller was delegated")
        wanted = [f"+{name}" for name in CONTROLLERS if name in available]
        try:
            (self.root / "cgroup.subtree_control").write_text(" ".join(wanted))
        except OSError as error:
            raise CgroupsUnusable(f"cgroup root {root}: {error.strerror}") from None

    def make(self, uid: str, *, memory_mib: int = 0, cpu_milli: int = 0) -> str:
        """A group with these limits (0: none); an existing one is brought up to date."""
        group = self._group(uid)
        group.mkdir(exist_ok=True)
        if memory_mib:
            (group / "memory.max").write_text(str(memory_mib * MIB))
            # The attempt dies as a whole, not one process of it, and does not hide in swap.
            self._optional(group / "memory.oom.group", "1")
            self._optional(group / "memory.swap.max", "0")
        if cpu_milli:
            self._optional(group / "cpu.max", f"{cpu_milli * PERIOD_US // 1000} {PERIOD_US}")
        return str(group)

    def out_of_memory(self, uid: str) -> str:
        """What happened, when the kernel killed the attempt for its memory; else empty."""
        with suppress(OSError, ValueError):
            lines = (self._group(uid) / "memory.events").read_text().splitlines()
            events = dict(line.split() for line in lines)
            if int(events.get("oom_kill", 0)):
                limit = int((self._group(uid) / "memory.max").read_text())
                return f"used all of {size_text(limit // MIB)}"
        return ""

    def peak_kib(self, uid: str) -> int:
        """The most memory that it held, 0 where the kernel does not say."""
        with suppress(OSError, ValueError):
            return -(-int((self._group(uid) / "memory.peak").read_text()) // 1024)
        return 0

    def remove(self, uid: str) -> None:
        """An empty group goes; one that still has processes goes with a later one."""
        self._late = {each for each in (*self._late, uid) if not self._removed(each)}

    def close(self) -> None:
        """We leave: so do groups that nothing is in. What still runs or was not told yet stays."""
        self._late = {uid for uid in self._late if not self._removed(uid)}
        if self._ours:
            with suppress(OSError):
                self.root.rmdir()

    def _removed(self, uid: str) -> bool:
        try:
            self._group(uid).rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def _group(self, uid: str) -> Path:
        return self.root / f"attempt-{uid}"

    @staticmethod
    def _optional(file: Path, text: str) -> None:
        with suppress(OSError):
            file.write_text(text)


def size_text(mib: float) -> str:
    """Memory for people: ``512M``, ``5.1G``, ``4G``."""
    if mib < 1024:
        return f"{mib:.0f}M"
    return f"{mib / 1024:.1f}".removesuffix(".0") + "G"
