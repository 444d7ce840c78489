"""[agent]: what a machine offers, and how its agent treats what runs there."""

from __future__ import annotations

import msgspec

from rota.core.facts.placing import CLUSTER
from rota.core.words.units import parse_cpu_milli, parse_memory_mib

#: What ``enforce_devices`` may say.
POLICIES = ("auto", "required", "off")


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[agent]: what this machine offers."""

    #: Empty: the host name.
    name: str = ""
    #: Where other nodes reach it, for gangs to meet; empty: from where it reaches the controller.
    address: str = ""
    #: CPUs to hand out (``4``, ``1.5``); empty: all of them.
    cpus: str = ""
    #: Memory to hand out (``64g``); empty: all but ``reserve_memory``.
    memory: str = ""
    #: Memory that stays with the system; empty: a twentieth, from 512 MiB to 4 GiB.
    reserve_memory: str = ""
    labels: dict[str, str] = {}
    #: The cluster that it belongs to, as its label ``cluster``; empty: ``local``.
    cluster: str = ""
    #: Marks that keep jobs away unless they tolerate them: ``["gpu-only", "team=vision:avoid"]``.
    taints: tuple[str, ...] = ()
    #: A cgroup v2 folder for the jobs; empty: one of our own where we may, ``off``: none.
    cgroup_root: str = ""
    #: Jobs can open only the GPUs that they were given: ``auto`` (where the kernel does that for
    #: us), ``required`` (elsewhere the node takes no GPU jobs), ``off``.
    enforce_devices: str = "auto"
    #: Devices that exist only in a demo or test: a number, or a file that describes them.
    fake_gpus: str = ""
    #: Processes outside Rota on GPUs that do not count: ``Xorg,gnome-shell,4242``.
    foreign_ignore: str = ""
    #: Those that hold less memory than this on a GPU do not count; empty: all do.
    foreign_threshold: str = ""

    #: About how much of what a running job prints is kept per stream, the newest; empty: all.
    log_max: str = "10g"

    @property
    def log_max_bytes(self) -> int:
        return parse_memory_mib(self.log_max) << 20

    @property
    def all_labels(self) -> dict[str, str]:
        return {**self.labels, CLUSTER: self.cluster} if self.cluster else self.labels

    @property
    def foreign_threshold_mib(self) -> int:
        return parse_memory_mib(self.foreign_threshold)

    @property
    def cpu_milli(self) -> int:
        return parse_cpu_milli(self.cpus) if self.cpus else 0

    @property
    def memory_mib(self) -> int:
        return parse_memory_mib(self.memory)

    @property
    def reserve_memory_mib(self) -> int:
        return parse_memory_mib(self.reserve_memory)
