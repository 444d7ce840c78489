"""What this machine has: CPUs, memory, disk, NUMA domains and devices, as a ``NodeSpec``.

Only what the agent itself may use counts: its CPU affinity and the limits of its cgroup (version
1 or 2) are respected. A part of the memory is left to the system, see ``reserve_mib``.
"""

from __future__ import annotations

import os
import platform
import pwd
import socket
from pathlib import Path

import msgspec

from rota.agent.machine import containers
from rota.agent.machine.gpus import discover_devices
from rota.core.facts.node import NodeSpec
from rota.core.facts.placing import Taint

MIB = 1 << 20
RESERVE_MIB_MIN, RESERVE_MIB_MAX = 512, 4096


class Overrides(msgspec.Struct, frozen=True):
    """What the person who set up the node knows better; None and empty: ask the machine."""

    name: str = ""
    address: str = ""
    cpus: float | None = None
    memory_mib: int | None = None
    disk_mib: int | None = None
    gpus_file: str = ""
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()


def discover(state_dir: Path, overrides: Overrides, root: Path = Path("/")) -> NodeSpec:
    """Look at the machine. ``root`` stands in for ``/`` in tests of /proc and /sys."""
    usable = sorted(os.sched_getaffinity(0))
    cpu_milli, cpus = _cpus(usable, overrides.cpus, cpu_quota_milli(root))
    memory_mib = overrides.memory_mib
    if memory_mib is None:
        total_mib = memory_total_mib(root)
        memory_mib = total_mib - reserve_mib(total_mib)
    numa = numa_cpus(root, set(usable))
    disk = overrides.disk_mib
    return NodeSpec(
        name=overrides.name or socket.gethostname(),
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        disk_mib=disk_free_mib(state_dir) if disk is None else disk,
        cpus=cpus,
        devices=discover_devices(overrides.gpus_file, numa, root),
        numa_cpus=numa if cpus else (),
        labels={**_engines(), **overrides.labels},
        taints=overrides.taints,
        user=_owner(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
    )


def _owner() -> str:
    """The only user whose jobs can be started here; empty: root starts those of everybody."""
    uid = os.geteuid()
    if not uid:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _engines() -> dict[str, str]:
    """What can run container images here; jobs with an image go where there is something."""
    found = containers.engines()
    return {containers.LABEL: ",".join(found)} if found else {}


def _cpus(
    usable: list[int], asked: float | None, quota_milli: int | None
) -> tuple[int, tuple[int, ...]]:
    """Thousandths of CPUs, and the numbers to pin to (none when there are fewer than asked)."""
    milli = 1000 * len(usable)
    if asked is not None:
        wanted = round(asked * 1000)
        if wanted > milli:
            return wanted, ()
        return wanted, tuple(usable[: -(-wanted // 1000)])
    return min(milli, quota_milli or milli), tuple(usable)


def cpu_quota_milli(root: Path = Path("/")) -> int | None:
    """The CPU time that cgroups grant, in thousandths of a CPU; None without a limit."""
    found = []
    for folder in _cgroup_folders(root, ""):
        words = _text(folder / "cpu.max").split()
        if len(words) == 2 and words[0].isdecimal():
            found.append(int(words[0]) * 1000 // int(words[1]))
    for folder in _cgroup_folders(root, "cpu"):
        quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
        if quota is not None and quota > 0 and period:
            found.append(quota * 1000 // period)
    return min(found, default=None)


def memory_total_mib(root: Path = Path("/")) -> int:
    """The machine's memory, or the tightest limit of the cgroups that we are in."""
    machine = [
        int(line.split()[1]) * 1024
        for line in _text(root / "proc/meminfo").splitlines()
        if line.startswith("MemTotal:")
    ]
    files = [folder / "memory.max" for folder in _cgroup_folders(root, "")]
    files += [folder / "memory.limit_in_bytes" for folder in _cgroup_folders(root, "memory")]
    limits = [limit for file in files if (limit := _number(file))]
    return min(machine + limits, default=0) // MIB


def reserve_mib(total_mib: int) -> int:
    """Memory that is left to the system and to Rota: 5 %, at least 512 MiB, at most 4 GiB.

    Never more than a quarter, so that small machines stay usable.
    """
    wanted = min(max(total_mib // 20, RESERVE_MIB_MIN), RESERVE_MIB_MAX)
    return min(wanted, total_mib // 4)


def disk_free_mib(folder: Path) -> int:
    """What can still be written to the file system of the state folder."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    stat = os.statvfs(folder)
    return stat.f_bavail * stat.f_frsize // MIB


def numa_cpus(root: Path, usable: set[int]) -> tuple[tuple[int, ...], ...]:
    """The usable CPUs of each NUMA domain, by its number; empty where the kernel has none."""
    folders = (root / "sys/devices/system/node").glob("node[0-9]*")
    domains = {int(folder.name.removeprefix("node")): folder for folder in folders}
    return tuple(
        tuple(cpu for cpu in parse_cpu_list(_text(domains[number] / "cpulist")) if cpu in usable)
        if number in domains
        else ()
        for number in range(max(domains, default=-1) + 1)
    )


def parse_cpu_list(text: str) -> list[int]:
    """Read the kernel's ``0-3,8,10-11``."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if first.strip().isdecimal():
            cpus.extend(range(int(first), int(last if dash else first) + 1))
    return cpus


def _cgroup_folders(root: Path, controller: str) -> list[Path]:
    """The folders of our cgroup and of all above it; ``controller`` is empty for version 2."""
    folders = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if controller not in names.split(","):
            continue
        base = root / "sys/fs/cgroup" / controller
        at = base / path.lstrip("/")
        # In a container the path may be that of the machine outside, which is not there.
        folders.append(base)
        while at != base and base in at.parents:
            folders.append(at)
            at = at.parent
    return folders


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _number(file: Path) -> int | None:
    text = _text(file).strip()
    return int(text) if text.lstrip("-").isdecimal() else None
