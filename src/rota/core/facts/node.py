"""Machines: what a node has, what an attempt holds on it."""

from __future__ import annotations

from collections import Counter
from itertools import count, islice
from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.gpu_use import DeviceFault, Overuse
from rota.core.facts.placing import CLUSTER, LOCAL, Taint
from rota.core.facts.resources import Amount, Request, part_of
from rota.core.facts.states import NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable


class Device(msgspec.Struct, frozen=True, omit_defaults=True):
    """A GPU, TPU or other unit that is handed out whole or, when shared, by its memory.

    A device of unknown memory (0) is handed out whole only. ``fake`` marks one that exists
    only in a test or demo file.
    """

    index: int
    uuid: str
    kind: str = "gpu"
    model: str = ""
    memory_mib: int = 0
    numa: int = -1
    links: tuple[int, ...] = ()
    fake: bool = False
    #: A part of a larger device (MIG): the index of the whole one; -1: it is whole itself.
    parent: int = -1
    ecc_errors: int = 0
    #: Broken devices stay on record and are not handed out.
    healthy: bool = True
    #: It is kept from jobs: by an operator, or because others have it.
    closed: bool = False
    #: Of the closed ones: others have it, by what an inventory outside of Rota says.
    elsewhere: bool = False

    @property
    def make(self) -> tuple[str, str, int]:
        """What tells it from other sorts of devices."""
        return self.kind, self.model, self.memory_mib

    @property
    def usable(self) -> bool:
        """Whether it may be handed out at all."""
        return self.healthy and not self.closed


class Machine(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one task may have at the most: a machine of an engine when nothing runs on it."""

    cpu_milli: int
    memory_mib: int
    disk_mib: int = 0
    devices: tuple[Device, ...] = ()
    #: How many there are of it.
    count: int = 1


class NodeSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an agent says about its machine."""

    name: str
    cpu_milli: int
    memory_mib: int
    disk_mib: int = 0
    #: The CPU numbers to pin to; empty when the count was overridden and pinning is off.
    cpus: tuple[int, ...] = ()
    devices: tuple[Device, ...] = ()
    numa_cpus: tuple[tuple[int, ...], ...] = ()
    labels: dict[str, str] = {}
    address: str = ""
    system: str = ""
    taints: tuple[Taint, ...] = ()
    #: Its agent is not root: it starts the jobs of this user and of nobody else; empty: of all.
    user: str = ""
    #: A job there can open no device but its own, so that its programs count these from 0.
    fenced: bool = False
    #: What its agent found that people should know.
    remarks: tuple[str, ...] = ()
    #: The engine that it belongs to, by the name that the site gave it; empty: it has an agent.
    engine: str = ""
    #: It is there until then and no longer, so that no job begins whose limit goes past it; 0: it
    #: stays. With ``unlimited`` jobs without a limit may begin all the same.
    ends_s: float = 0.0
    unlimited: bool = False
    #: What that engine can do (``Feature``).
    features: tuple[str, ...] = ()
    #: It stands for equal machines among which the engine chooses. Its devices are counted: their
    #: numbers mean nothing, and what others use is not among them.
    pool: bool = False
    #: The most attempts that wait inside a pool; 0: what does not start at once comes back.
    inside_max: int = 0
    #: The most attempts that are handed to its engine before there is room for them.
    early: int = 0
    #: One of its machines, where that is not the same as what there is for jobs now.
    largest: Machine | None = None

    @property
    def machine(self) -> Machine | NodeSpec:
        """What one task may have at the most, when nothing else runs."""
        return self.largest or self

    @property
    def side(self) -> str:
        """Members of a gang are all on one: in one pool, in one engine, or on machines of ours."""
        return f"{self.engine} {self.name}" if self.pool else self.engine

    def seen_by_holder(self, held: tuple[int, ...]) -> tuple[str, ...]:
        """What the programs of a job call the devices that it holds here, in the same order.

        An instance of a card (MIG) has no number that they understand.
        """
        uuids = {device.index: device.uuid for device in self.devices}
        numbers = {index: at for at, index in enumerate(sorted(held))} if self.fenced else {}
        return tuple(
            uuid
            if (uuid := uuids.get(index, "")).startswith("MIG-")
            else str(numbers.get(index, index))
            for index in held
        )

    def with_closed(self, closed: tuple[str, ...], elsewhere: tuple[str, ...] = ()) -> NodeSpec:
        """The same machine with just these devices (by uuid) kept from jobs."""
        if not closed and not elsewhere and not any(device.closed for device in self.devices):
            return self
        devices = []
        for device in self.devices:
            own, theirs = device.uuid in closed, device.uuid in elsewhere
            devices.append(
                msgspec.structs.replace(device, closed=own or theirs, elsewhere=theirs and not own)
            )
        return msgspec.structs.replace(self, devices=tuple(devices))

    def with_tokens(self, held: Iterable[Device]) -> NodeSpec:
        """The same; devices of an engine are counted, and those in use keep their numbers.

        Where there are fewer than are in use, the rest counts as broken: nobody gets it afterwards.
        """
        left = Counter(device.make for device in self.devices if device.healthy)
        tokens = []
        for device in held:
            gone = not left[device.make]
            left[device.make] -= not gone
            tokens.append(msgspec.structs.replace(device, healthy=not gone))
        taken = {token.index for token in tokens}
        free = (number for number in count() if number not in taken)
        for (kind, model, memory_mib), more in left.items():
            for number in islice(free, more):
                uuid = f"{self.name}/{number}"
                tokens.append(Device(number, uuid, kind, model, memory_mib))
        tokens.sort(key=lambda token: token.index)
        return msgspec.structs.replace(self, devices=tuple(tokens))

    @property
    def total(self) -> Amount:
        return Amount(self.cpu_milli, self.memory_mib, self.disk_mib)

    def kept_by(self, given: Amount) -> Amount:
        """What a job that has the machine to itself keeps from others: all that they could use.

        Where amounts are overcommitted, it may be given more than there is.
        """
        devices = 1000 * sum(device.usable for device in self.devices)
        return Amount(
            max(self.cpu_milli, given.cpu_milli),
            max(self.memory_mib, given.memory_mib),
            max(self.disk_mib, given.disk_mib),
            max(devices, given.device_milli),
        )


class ForeignUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process outside Rota that holds memory on a device."""

    device: int
    pid: int
    user: str
    memory_mib: int
    #: The agent was told not to mind it: by its name or pid, or because it is small.
    ignored: bool = False


class Allocation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an attempt holds: fixed when it is placed, given back when it ends."""

    node: str
    cpu_milli: int
    memory_mib: int
    disk_mib: int = 0
    cpus: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()
    device_memory_mib: int = 0
    shared: bool = False
    #: Thousandths of each device, for a share that was named so.
    device_milli: int = 0
    #: Whether it counts against what the node really has, beside any overcommitment.
    firm: bool = False
    #: The whole node is its own.
    exclusive: bool = False
    #: What it keeps from others, where that is more than what it may use: all of such a node.
    keeps: Amount | None = None
    #: It was handed to its engine before there was room, and has not begun: it holds nothing yet.
    early: bool = False

    def share_of(self, device: Device) -> int:
        """The memory that a shared allocation takes on one of its devices."""
        return max(self.device_memory_mib, part_of(device.memory_mib, self.device_milli))


class Closure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pool is closed to tasks that ask for this: the engine let one wait for too long."""

    request: Request
    until_s: float
    note: str = ""


class EarlyEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job that failed within seconds of its start, and the devices that it had."""

    user: str
    job: int
    devices: tuple[int, ...] = ()


class Node(msgspec.Struct):
    """A machine as the controller knows it. ``live`` are the uids that hold room on it.

    ``spec`` is what the agent says, with the devices marked that an operator closed.
    """

    spec: NodeSpec
    incarnation: str
    boot_id: str
    state: NodeState = NodeState.DOWN
    #: Why it is not up, for people.
    note: str = ""
    drained: bool = False
    #: Being drained, its jobs go on elsewhere if they can; and all are gone by then (0: no hurry).
    migrates: bool = False
    deadline_s: float = 0.0
    seen_s: float = 0.0
    foreign: tuple[ForeignUse, ...] = ()
    live: dict[str, Allocation] = {}
    #: Of ``live``: attempts that wait for others to leave this node, and hold nothing yet.
    withheld: dict[str, tuple[str, ...]] = {}
    #: Of ``live``: attempts that the engine of a pool has taken and lets wait.
    inside: dict[str, None] = {}
    #: What a pool is closed to for a while.
    closures: tuple[Closure, ...] = ()
    #: Labels and taints that an operator added to what the agent says.
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    #: The users whose starts failed here for its own sake, since the last start that worked.
    failed_starts: tuple[str, ...] = ()
    #: Taken out of service for such starts until then (0: it is not), and how often in a row.
    cools_s: float = 0.0
    coolings: int = 0
    #: The uuids of devices that an operator keeps from jobs.
    closed: tuple[str, ...] = ()
    #: Processes outside Rota that an operator does not mind, for as long as they are there.
    ignored_pids: tuple[int, ...] = ()
    #: The lease that its agent was told (0: none), and the machine and folder that it runs in.
    lease_s: float = 0.0
    home: str = ""
    #: Its lease ran out, what ran there was given up, and its agent has not been back since.
    lost: bool = False
    #: An operator removed it: it goes once nothing that ran there can be alive.
    leaving: bool = False
    #: Jobs that died here within seconds, since the last one that ran well.
    early_ends: tuple[EarlyEnd, ...] = ()
    #: The uuids of devices that are closed because jobs kept dying on them.
    quarantined: tuple[str, ...] = ()
    #: Who drained it: a user, or ``rota`` where it was quarantined or went by itself.
    drained_by: str = ""
    #: The uuids of devices that others have, by what an inventory outside of Rota says.
    elsewhere: tuple[str, ...] = ()
    #: Attempts that hold more memory on shared devices than they asked for.
    overuse: tuple[Overuse, ...] = ()
    #: Failures that its devices reported of themselves, the newest last.
    faults: tuple[DeviceFault, ...] = ()
    #: The uids that held room when there was last less to hold: they stay, whatever that makes.
    outgrown: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.spec.name

    def marked(self, spec: NodeSpec) -> NodeSpec:
        """What the agent says of its machine, with the devices marked that jobs do not get."""
        if spec.engine:
            held = {index for given in self.live.values() for index in given.devices}
            spec = spec.with_tokens([d for d in self.spec.devices if d.index in held])
        return spec.with_closed(self.closed, self.elsewhere)

    @property
    def shut(self) -> tuple[str, ...]:
        """The uuids of all devices that jobs do not get, for whatever reason."""
        return tuple(dict.fromkeys([*self.closed, *self.elsewhere]))

    @property
    def all_labels(self) -> dict[str, str]:
        return {**self.spec.labels, **self.labels}

    @property
    def cluster(self) -> str:
        return self.labels.get(CLUSTER) or self.spec.labels.get(CLUSTER) or LOCAL

    @property
    def all_taints(self) -> tuple[Taint, ...]:
        return (*self.spec.taints, *self.taints)

    @property
    def strangers(self) -> list[ForeignUse]:
        """The processes outside Rota that count."""
        return [use for use in self.foreign if not self.minds_not(use)]

    def excess_mib(self, use: Overuse) -> int:
        """What an attempt holds on a device beyond what is counted for it."""
        device = next((one for one in self.spec.devices if one.index == use.device), None)
        held = self.live.get(use.uid)
        if device is None or held is None:
            return 0
        if use.device not in held.devices:
            return use.memory_mib
        return max(0, use.memory_mib - held.share_of(device)) if held.shared else 0

    def minds_not(self, use: ForeignUse) -> bool:
        """Whether a process outside Rota is to be treated as if it were not there."""
        return use.ignored or use.pid in self.ignored_pids

    @property
    def takes_work(self) -> bool:
        return self.state is NodeState.UP and not self.drained

    @property
    def early(self) -> list[str]:
        """Attempts that wait inside its engine before there is room, in the order of coming."""
        return [uid for uid, held in self.live.items() if held.early] if self.spec.engine else []

    def headroom(self) -> Amount:
        """Totals minus what live attempts hold: derived each time, so that it cannot drift."""
        cpu = memory = disk = 0
        for uid, held in self.live.items():
            if uid in self.withheld or held.early:
                continue
            cpu += held.cpu_milli
            memory += held.memory_mib
            disk += held.disk_mib
        spec = self.spec
        return Amount(spec.cpu_milli - cpu, spec.memory_mib - memory, spec.disk_mib - disk)
