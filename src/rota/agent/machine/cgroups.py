"""Control groups (version 2) for attempts, below a root that was delegated to the agent.

The root is an argument: ``/sys/fs/cgroup/…`` in life, a temporary folder in tests. Without one
the agent watches memory by polling and kills by process tree.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.agent.machine.fence import Fence

log = logging.getLogger("rota.agent")

MIB = 1 << 20
#: The length of the kernel's accounting period for CPU time.
PERIOD_US = 100_000
CONTROLLERS = ("cpu", "cpuset", "memory")
#: The part of a unit's group that systemd puts us into, so that the rest of it is for jobs.
SUBGROUP = "rota"


class CgroupsUnusable(Exception):
    """The folder cannot be used; the text says why."""


def open_cgroups(root: str, name: str, machine: Path = Path("/")) -> Cgroups | None:
    """The groups below ``root``; without one a folder of our own, if the kernel lets us.

    A group that holds processes cannot hand out controllers as well. So our own folder is made
    in a unit that systemd delegated to us and that has us in a part of its own, else in the top
    group, which is above that rule. Either takes root. ``off`` turns groups off.
    """
    if root == "off":
        return None
    if root:
        return Cgroups(root)
    above = _delegated(machine) or machine / "sys/fs/cgroup"
    own = above / f"rota-{name}"
    try:
        _hand_down(above, (above / "cgroup.controllers").read_text().split())
        own.mkdir(exist_ok=True)
        groups = Cgroups(own, ours=True)
    except (OSError, CgroupsUnusable):
        return None
    if above.name == "cgroup" and (machine / "run/systemd/system").is_dir():
        log.warning("%s is below the top group, which is systemd's: use a unit with Delegate=", own)
    return groups


def _delegated(machine: Path) -> Path | None:
    """The group of our unit, where the unit says ``DelegateSubgroup=rota``."""
    with suppress(OSError):
        for line in (machine / "proc/self/cgroup").read_text().splitlines():
            path = Path(line.removeprefix("0::/"))
            if line.startswith("0::/") and path.name == SUBGROUP and path.parent.suffix:
                return machine / "sys/fs/cgroup" / path.parent
    return None


def _hand_down(group: Path, available: list[str]) -> None:
    """Let the groups below this one have limits."""
    wanted = [f"+{name}" for name in CONTROLLERS if name in available]
    (group / "cgroup.subtree_control").write_text(" ".join(wanted))


class Cgroups:
    """One group per attempt: limits, the peak of its memory, whether the kernel had to kill."""

    def __init__(self, root: str | Path, *, ours: bool = False) -> None:
        """With ``ours`` the root was made by us, and goes with us."""
        self.root = Path(root)
        self._ours = ours
        #: Attempts whose groups nobody needs any more: they go with ``tidy``.
        self.left: set[str] = set()
        #: What keeps attempts from the devices of others; None: nothing does.
        self.fence: Fence | None = None
        try:
            available = (self.root / "cgroup.controllers").read_text().split()
        except OSError as error:
            raise CgroupsUnusable(f"cgroup root {root}: {error.strerror}") from None
        if "memory" not in available:
            raise CgroupsUnusable(f"cgroup root {root}: no memory controller was delegated")
        try:
            _hand_down(self.root, available)
        except OSError as error:
            raise CgroupsUnusable(f"cgroup root {root}: {error.strerror}") from None

    def make(
        self,
        uid: str,
        *,
        memory_mib: int = 0,
        cpu_milli: int = 0,
        cpus: tuple[int, ...] = (),
        devices: tuple[int, ...] = (),
    ) -> str:
        """A group with these limits (0: none); an existing one is brought up to date.

        Memory is not tied to the domains of the CPUs: the kernel takes the near one first, and
        a job that needs more than there is near must not die of it.
        """
        group = self._group(uid)
        with suppress(FileExistsError):
            os.mkdir(group)
        if memory_mib:
            _write(f"{group}/memory.max", str(memory_mib * MIB))
            # The attempt dies as a whole, not one process of it, and does not hide in swap.
            self._optional(f"{group}/memory.oom.group", "1")
            self._optional(f"{group}/memory.swap.max", "0")
        if cpu_milli:
            self._optional(f"{group}/cpu.max", f"{cpu_milli * PERIOD_US // 1000} {PERIOD_US}")
        if cpus:
            self._optional(f"{group}/cpuset.cpus", ",".join(map(str, cpus)))
        if self.fence is not None:
            self.fence.close(group, devices)
        return group

    def try_out(self, fence: Fence) -> None:
        """Raises OSError where the kernel does not take the fence."""
        group = self._group("trial")
        with suppress(FileExistsError):
            os.mkdir(group)
        try:
            fence.close(group, ())
        finally:
            os.rmdir(group)

    def out_of_memory(self, uid: str) -> str:
        """What happened, when the kernel killed the attempt for its memory; else empty."""
        with suppress(OSError, ValueError):
            lines = _read(f"{self._group(uid)}/memory.events").splitlines()
            events = dict(line.split() for line in lines)
            if int(events.get(b"oom_kill", 0)):
                limit = int(_read(f"{self._group(uid)}/memory.max"))
                return f"used all of {size_text(limit // MIB)}"
        return ""

    def peak_kib(self, uid: str) -> int:
        """The most memory that it held, 0 where the kernel does not say."""
        with suppress(OSError, ValueError):
            return -(-int(_read(f"{self._group(uid)}/memory.peak")) // 1024)
        return 0

    def use_of(self, uid: str) -> tuple[int, float] | None:
        """Memory in MiB and seconds of CPU; None where the group is gone or does not say."""
        with suppress(OSError, ValueError):
            memory = int(_read(f"{self._group(uid)}/memory.current"))
            usage = _read(f"{self._group(uid)}/cpu.stat").split(None, 2)[1]
            return memory // MIB, int(usage) / 1e6
        return None

    def tidy(self) -> None:
        """Empty groups go; one that still has processes goes the next time. In any thread:

        while groups of others come and go, the kernel may let us wait.
        """
        self.left.difference_update([uid for uid in [*self.left] if self._removed(uid)])

    def close(self) -> None:
        """We leave: so do groups that nothing is in. What still runs or was not told yet stays."""
        self.tidy()
        if self._ours:
            with suppress(OSError):
                self.root.rmdir()

    def _removed(self, uid: str) -> bool:
        try:
            os.rmdir(self._group(uid))
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def path(self, uid: str) -> str:
        """Where the group of an attempt is, if it has one."""
        return self._group(uid)

    def _group(self, uid: str) -> str:
        return f"{self.root}/attempt-{uid}"

    @staticmethod
    def _optional(file: str, text: str) -> None:
        with suppress(OSError):
            _write(file, text)


def _write(file: str, text: str) -> None:
    with open(file, "wb", buffering=0) as handle:
        handle.write(text.encode())


def _read(file: str) -> bytes:
    with open(file, "rb", buffering=0) as handle:
        return handle.read()


def size_text(mib: float) -> str:
    """Memory for people: ``512M``, ``5.1G``, ``4G``."""
    if mib < 1024:
        return f"{mib:.0f}M"
    return f"{mib / 1024:.1f}".removesuffix(".0") + "G"
