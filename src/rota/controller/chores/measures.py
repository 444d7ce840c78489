"""What agents measure: the last half hour of it, in memory, and what follows from it.

A look changes no state and waits for no tick. Only what it means does: a job that holds more GPU
memory than it asked for, a GPU that does nothing, a device that fails. That becomes a command, and
only when it is news. After a restart the history begins anew; what was told is on record.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections import OrderedDict
from math import isnan, nan
from typing import TYPE_CHECKING

from rota.controller.commands.commands import Idle, NoteGpus
from rota.core.facts.errors import RotaError
from rota.core.facts.gpu_use import IDLE, Overuse
from rota.core.facts.states import Phase
from rota.core.facts.tenant import Access, Actor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.controller.loop import Host
    from rota.core.facts.job import Attempt, Job
    from rota.core.facts.node import Node
    from rota.rpc.measures import AttemptReading, Measured, OnDevice, Reading
    from rota.settings.gpus import GpuSettings

log = logging.getLogger("rota.controller")

ROTA = Actor("rota", Access.ADMIN, "measuring")
#: The points of a curve, and the looks that make one: half an hour with a look in five seconds.
POINTS, LOOKS_A_POINT = 120, 3
#: The most attempts whose curves are kept: all that live, and those that ended last.
ATTEMPTS_KEPT = 10_000
#: A device that does less than this, in per cent, does nothing.
BUSY_PERCENT = 1.0
#: A share may be exceeded by the larger of these: what a driver itself needs for a process.
SLACK_MIB, SLACK_PART = 512, 0.05
#: Less than this is no news; and less memory than before is news once in so long.
NEWS_MIB, NEWS_PART, LESS_S = 512, 0.1, 60.0
#: A figure that is older than this many looks is none any more.
STALE_LOOKS = 6


class Curve:
    """Points in time, a column for each figure; one that is not known is not a number."""

    __slots__ = ("at", "columns")

    def __init__(self, width: int) -> None:
        self.at = array("d")
        self.columns = [array("f") for _ in range(width)]

    def add(self, at_s: float, apart_s: float, *figures: float | None) -> None:
        if self.at and at_s - self.at[-1] < apart_s:
            return
        for values, figure in zip((self.at, *self.columns), (at_s, *figures), strict=True):
            values.append(nan if figure is None else figure)
            if len(values) > POINTS:
                del values[0]

    def points(self) -> Iterator[tuple[float, tuple[float | None, ...]]]:
        for at_s, *figures in zip(self.at, *self.columns, strict=True):
            yield at_s, tuple(None if isnan(one) else round(one, 2) for one in figures)


class DeviceTrack:
    """One device: its last reading, when it last did something, and its curve."""

    __slots__ = ("at_s", "busy_s", "curve", "reading")

    def __init__(self, at_s: float) -> None:
        self.at_s = at_s
        #: Since when nothing is known to have been done.
        self.busy_s = at_s
        self.reading: Reading | None = None
        #: Use, memory, power, temperature.
        self.curve = Curve(4)


class AttemptTrack:
    """One attempt: what it last had, how often in a row it held too much, and its curve."""

    __slots__ = ("at_s", "cpu_s", "cpus", "curve", "gpus", "memory_mib", "over")

    def __init__(self) -> None:
        self.at_s = 0.0
        self.cpu_s: float | None = None
        #: CPUs that it uses, memory, and what it has on which device.
        self.cpus: float | None = None
        self.memory_mib: int | None = None
        self.gpus: tuple[OnDevice, ...] = ()
        self.over: dict[int, int] = {}
        #: CPUs, memory, use of GPUs (the mean), memory on GPUs (all of it).
        self.curve = Curve(4)


class Measures:
    """All nodes. The routes read it; agents' messages come in by ``hear``."""

    def __init__(self, host: Host, settings: GpuSettings) -> None:
        self._host, self.settings = host, settings
        self._devices: dict[str, dict[int, DeviceTrack]] = {}
        self._attempts: OrderedDict[str, AttemptTrack] = OrderedDict()
        #: When less memory was last news, by node.
        self._less_s: dict[str, float] = {}
        #: Nodes of which something is being put on record.
        self._asking: dict[asyncio.Task[None], str] = {}
        host.links.measured = self.hear

    def device(self, node: str, index: int) -> DeviceTrack | None:
        """None: nothing was measured, or not lately."""
        track = self._devices.get(node, {}).get(index)
        return track if track is not None and self._is_fresh(track.at_s) else None

    def device_curves(self, node: str) -> dict[int, Curve]:
        return {index: track.curve for index, track in self._devices.get(node, {}).items()}

    def attempt(self, uid: str) -> AttemptTrack | None:
        """What it last had, with a curve that outlives it for a while; None: never looked at."""
        return self._attempts.get(uid)

    def idle_s(self, node: Node, index: int) -> float | None:
        """Since when a device does nothing that a job has to itself; None: it is not so."""
        track = self.device(node.name, index)
        if track is None or track.reading is None or track.reading.use_percent is None:
            return None
        if track.reading.use_percent >= BUSY_PERCENT:
            return None
        held = [uid for uid, given in node.live.items() if index in given.devices]
        if len(held) != 1 or node.live[held[0]].shared:
            return None
        attempt = self._host.cluster.live.attempt(held[0])
        return max(track.busy_s, attempt.started_s) if attempt.started_s else None

    def is_idle(self, node: Node, index: int) -> bool:
        """For longer than the site lets it be without a word; with no such time, at all."""
        since_s = self.idle_s(node, index)
        if since_s is None:
            return False
        return self._host.clock.now_s() - since_s >= self.settings.idle_after_s

    def _is_fresh(self, at_s: float) -> bool:
        return self._host.clock.now_s() - at_s <= self.stale_s

    @property
    def stale_s(self) -> float:
        """A figure that is older is none any more."""
        return STALE_LOOKS * max(1.0, self.settings.measure_s)

    def hear(self, link: int, message: Measured) -> None:
        """One look of one agent."""
        session = self._host.sessions.by_link.get(link)
        if session is None or session.id != message.session:
            return
        node = self._host.cluster.nodes.get(session.node)
        if node is None:
            return
        now_s = self._host.clock.now_s()
        faults = tuple(self._take_devices(node, message, now_s))
        for reading in message.attempts:
            if reading.uid in node.live:
                self._take_attempt(reading, now_s)
        self._follow(node, message, faults, now_s)

    def _take_devices(
        self, node: Node, message: Measured, now_s: float
    ) -> Iterator[tuple[str, str]]:
        """Keeps the figures; gives the failures of devices, by their uuids."""
        there = {device.index: device.uuid for device in node.spec.devices}
        tracks = self._devices.get(node.name)
        if tracks is None:
            self._forget_removed()
            tracks = self._devices[node.name] = {}
        for index in [index for index in tracks if index not in there]:
            del tracks[index]
        for reading in message.devices:
            if reading.index not in there:
                continue
            track = tracks.get(reading.index)
            if track is None:
                track = tracks[reading.index] = DeviceTrack(now_s)
            before, track.reading, track.at_s = track.reading, reading, now_s
            if reading.use_percent is None or reading.use_percent >= BUSY_PERCENT:
                track.busy_s = now_s
            track.curve.add(
                now_s,
                self._apart_s,
                reading.use_percent,
                reading.memory_used_mib,
                reading.power_w,
                reading.temperature_c,
            )
            uuid = there[reading.index]
            yield from ((uuid, f"Xid {number}") for number in reading.xids)
            if before is not None and reading.ecc_errors > before.ecc_errors:
                more = reading.ecc_errors - before.ecc_errors
                many = "1 error" if more == 1 else f"{more} errors"
                yield uuid, f"{many} in its memory that could not be corrected"

    def _forget_removed(self) -> None:
        """A node that comes new is the moment to drop those that are gone."""
        nodes = self._host.cluster.nodes
        for name in [name for name in self._devices if name not in nodes]:
            del self._devices[name]
            self._less_s.pop(name, None)

    @property
    def _apart_s(self) -> float:
        return (LOOKS_A_POINT - 0.5) * self.settings.measure_s

    def _take_attempt(self, reading: AttemptReading, now_s: float) -> None:
        track = self._attempts.get(reading.uid)
        if track is None:
            track = self._attempts[reading.uid] = AttemptTrack()
        self._attempts.move_to_end(reading.uid)
        if len(self._attempts) > ATTEMPTS_KEPT:
            self._attempts.popitem(last=False)
        track.gpus = reading.gpus
        if reading.cpu_s is not None:
            passed_s = now_s - track.at_s
            if track.cpu_s is not None and passed_s > 0:
                # Children that ended without being waited for take their time with them.
                track.cpus = max(0.0, reading.cpu_s - track.cpu_s) / passed_s
            track.cpu_s, track.memory_mib, track.at_s = reading.cpu_s, reading.memory_mib, now_s
        used = [gpu.use_percent for gpu in reading.gpus if gpu.use_percent is not None]
        track.curve.add(
            now_s,
            self._apart_s,
            track.cpus,
            track.memory_mib,
            sum(used) / len(used) if used else None,
            sum(gpu.memory_mib for gpu in reading.gpus) if reading.gpus else None,
        )

    def _follow(
        self, node: Node, message: Measured, faults: tuple[tuple[str, str], ...], now_s: float
    ) -> None:
        """A command, if there is news. While one is on its way the next look finds it again."""
        if node.name in self._asking.values() and not faults:
            return
        overuse = self._overuse(node, message, now_s)
        idle = tuple(self._idle(node, now_s))
        if overuse is None and not idle and not faults:
            return
        command = NoteGpus(
            actor=ROTA,
            node=node.name,
            overuse=overuse,
            ends=self.settings.overuse == "end",
            idle=idle,
            faults=faults,
            failures=self.settings.failures,
        )
        task = asyncio.get_running_loop().create_task(self._ask(command))
        self._asking[task] = node.name
        task.add_done_callback(self._asking.pop)

    async def _ask(self, command: NoteGpus) -> None:
        try:
            await self._host.ask(command)
        except RotaError as error:
            log.warning("what was measured on node %s was not noted: %s", command.node, error)

    def _overuse(self, node: Node, message: Measured, now_s: float) -> tuple[Overuse, ...] | None:
        """What is held beyond what was asked for, where that is news; None: it is not."""
        known = {(use.uid, use.device): use.memory_mib for use in node.overuse}
        found: dict[tuple[str, int], int] = {}
        for reading in message.attempts:
            for gpu in reading.gpus:
                key = (reading.uid, gpu.index)
                looks = self._looks_over(node, reading.uid, gpu)
                # Once is nothing to act on, unless it is on record: after a restart, say.
                if looks >= 2 or (looks and key in known):
                    found[key] = gpu.memory_mib
        if not found and not known:
            return None
        more = any(
            key not in known or mib - known[key] > _news_mib(known[key])
            for key, mib in found.items()
        )
        less = any(
            key not in found or mib - found[key] > _news_mib(mib) for key, mib in known.items()
        )
        if not more and (not less or now_s - self._less_s.get(node.name, 0.0) < LESS_S):
            return None
        self._less_s[node.name] = now_s
        return tuple(Overuse(uid, index, mib) for (uid, index), mib in sorted(found.items()))

    def _looks_over(self, node: Node, uid: str, gpu: OnDevice) -> int:
        """In how many looks in a row an attempt has held more of a device than it asked for."""
        held, track = node.live.get(uid), self._attempts.get(uid)
        device = next((one for one in node.spec.devices if one.index == gpu.index), None)
        if held is None or track is None or device is None:
            return 0
        given = gpu.index in held.devices
        if given and not held.shared:
            return 0
        declared = held.share_of(device) if given else 0
        if gpu.memory_mib <= declared + max(SLACK_MIB, SLACK_PART * declared):
            track.over.pop(gpu.index, None)
            return 0
        track.over[gpu.index] = track.over.get(gpu.index, 0) + 1
        return track.over[gpu.index]

    def _idle(self, node: Node, now_s: float) -> Iterator[Idle]:
        """Attempts with devices to themselves that did nothing for too long, not told yet."""
        after_s = self.settings.idle_after_s
        if not after_s:
            return
        for uid, held in node.live.items():
            if not held.devices or held.shared:
                continue
            job_id = self._host.cluster.live.where[uid][0]
            if not _may_be_told(self._host.cluster.jobs[job_id], uid):
                continue
            since = {index: self.idle_s(node, index) for index in held.devices}
            idle = {i: at_s for i, at_s in since.items() if at_s and now_s - at_s >= after_s}
            if idle:
                yield Idle(uid, tuple(sorted(idle)), max(idle.values()))


def _may_be_told(job: Job, uid: str) -> bool:
    attempt: Attempt | None = next((one for one in job.live_attempts if one.uid == uid), None)
    return (
        attempt is not None
        and attempt.phase is Phase.RUNNING
        and IDLE not in attempt.warned
        and not job.suspended_s
    )


def _news_mib(known_mib: int) -> float:
    return max(NEWS_MIB, NEWS_PART * known_mib)
