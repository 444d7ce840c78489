"""Measuring every few seconds, in a thread: a driver that hangs stops the measuring, nothing else.

The loop hands the thread what is alive and hears of the look when it is done. While one look
hangs there is no other, and an old figure is never told as a new one.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rota.agent.machine.figures import FigureLedger, use_of
from rota.agent.machine.foreign import owners_of, strangers
from rota.agent.machine.gpus import BadGpuFile, Tolerance
from rota.agent.machine.readings import open_sources
from rota.rpc.measures import AttemptReading, Measured, OnDevice, Reading
from rota.rpc.messages import DeviceUse

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.agent.machine.cgroups import Cgroups
    from rota.agent.machine.readings import DeviceHolder, Source
    from rota.core.facts.node import Device, ForeignUse
    from rota.rpc.messages import AgentMessage
    from rota.session.agent import Agent
    from rota.session.charge import Alive

log = logging.getLogger("rota.agent")

#: How often, where the controller does not say.
LOOK_S = 5.0
#: A hello waits so long for the first look; a look that takes longer is one that hangs.
HELLO_S, HUNG_S = 2.0, 10.0
#: CPUs and memory of attempts are looked at, and sums saved, once in this number of looks.
DEEP_EVERY, SAVE_EVERY = 3, 12


class Look(NamedTuple):
    """What one look has found."""

    readings: tuple[Reading, ...]
    attempts: tuple[AttemptReading, ...]
    foreign: tuple[ForeignUse, ...]


class Gauges:
    """One node's devices and attempts. ``foreign`` is what the last look found."""

    def __init__(
        self,
        devices: tuple[Device, ...],
        agent: Agent,
        cgroups: Cgroups | None,
        *,
        folder: Path,
        gpus_file: str = "",
        tolerance: Tolerance = Tolerance(),  # noqa: B008 - frozen
    ) -> None:
        self._devices, self._agent, self._cgroups = devices, agent, cgroups
        self._gpus_file, self._tolerance = gpus_file, tolerance
        self.foreign: tuple[ForeignUse, ...] = ()
        #: How often the controller wants to hear of it; 0: it does not.
        self.every_s = 0.0
        self.ledger = FigureLedger(folder / "gpu-sums.json")
        self._errands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._sources: list[Source] | None = None
        self._pending: asyncio.Future[Look | None] | None = None
        self._looks, self._looked_s = 0, time.monotonic()
        #: Failures of devices that the controller has not heard of.
        self._xids: dict[int, tuple[int, ...]] = {}
        self._said = ""
        threading.Thread(target=self._work, daemon=True, name="gauges").start()

    def _work(self) -> None:
        while True:
            self._errands.get()()

    async def before_hello(self) -> None:
        """The devices are looked at first, so that none in use is handed out."""
        if self._devices:
            await self._look(HELLO_S)

    async def run(self, tell: Callable[[AgentMessage], object]) -> None:
        while True:
            await asyncio.sleep(self.every_s or LOOK_S)
            if not self._devices and self._agent.quiet:
                continue
            known = self.foreign
            look = await self._look(HUNG_S)
            session = self._agent.session
            if look is None or not session:
                continue
            if look.foreign != known:
                tell(DeviceUse(session, look.foreign))
            if self.every_s:
                tell(Measured(session, self._with_untold(look.readings), look.attempts))

    def _with_untold(self, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        untold, self._xids = self._xids, {}
        return tuple(
            msgspec.structs.replace(reading, xids=untold.get(reading.index, ()))
            for reading in readings
        )

    async def _look(self, patience_s: float) -> Look | None:
        """None: there is no answer in time. The next call waits for the same look."""
        if self._pending is None:
            self._pending = self._ask()
        done, _ = await asyncio.wait({self._pending}, timeout=patience_s)
        if not done:
            self._say(f"the driver of the devices has not answered for {patience_s:g} s")
            return None
        look, self._pending = self._pending.result(), None
        if look is None:
            return None
        self._say("")
        now_s = time.monotonic()
        # A gap in which nothing was seen is no time that was measured.
        passed_s = min(now_s - self._looked_s, 3 * (self.every_s or LOOK_S))
        self._looked_s, self._looks = now_s, self._looks + 1
        self.foreign = look.foreign
        self.ledger.add(look.readings, look.attempts, passed_s)
        for reading in look.readings:
            if reading.xids:
                told = self._xids.get(reading.index, ())
                self._xids[reading.index] = (*told, *reading.xids)[-100:]
        if self._looks % SAVE_EVERY == 0:
            self.ledger.save()
        return look

    def _say(self, problem: str) -> None:
        """Once, not with each look."""
        if problem and problem != self._said:
            log.warning("%s; jobs go on, and nothing is measured meanwhile", problem)
        self._said = problem

    def _ask(self) -> asyncio.Future[Look | None]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Look | None] = loop.create_future()
        alive, deep = self._agent.alive(), self._looks % DEEP_EVERY == 0

        def work() -> None:
            look = None
            try:
                look = self._take_look(alive, deep)
            except BadGpuFile as error:
                log.error("%s", error)
            except Exception:
                log.exception("a look at the devices broke")
            # Where the loop has ended meanwhile nobody waits for it.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(answer.set_result, look)

        self._errands.put(work)
        return answer

    def _take_look(self, alive: list[Alive], deep: bool) -> Look:
        """In the thread."""
        if self._sources is None:
            self._sources = open_sources(self._devices, self._gpus_file, Path("/"))
        readings: list[Reading] = []
        held: list[DeviceHolder] = []
        for source in self._sources:
            read, found = source.look()
            readings += read
            held += found
        owners = owners_of({one.pid for one in held if one.pid}, alive)
        foreign = strangers(held, owners, self._tolerance)
        on_devices = _by_attempt(alive, held, owners, readings, foreign)
        use = use_of(alive, self._cgroups) if deep else {}
        attempts = tuple(
            _reading(one.uid, use.get(one.uid), on_devices.get(one.uid, ()))
            for one in alive
            if one.uid in use or one.uid in on_devices
        )
        return Look(tuple(readings), attempts, foreign)


def _reading(uid: str, use: tuple[int, float] | None, gpus: tuple[OnDevice, ...]) -> AttemptReading:
    memory_mib, cpu_s = use if use is not None else (None, None)
    return AttemptReading(uid, memory_mib, cpu_s, gpus)


def _by_attempt(
    alive: list[Alive],
    held: list[DeviceHolder],
    owners: dict[int, str],
    readings: list[Reading],
    foreign: tuple[ForeignUse, ...],
) -> dict[str, tuple[OnDevice, ...]]:
    """What each attempt has on each of its devices, and on others that it uses all the same."""
    on: dict[tuple[str, int], list[DeviceHolder]] = {}
    holders: dict[int, list[str]] = {}
    for one in alive:
        for index in one.devices:
            on[one.uid, index] = []
            holders.setdefault(index, []).append(one.uid)
    for process in held:
        oldest = holders.get(process.device, [""])[0] if not process.pid else ""
        if uid := owners.get(process.pid) or oldest:
            on.setdefault((uid, process.device), []).append(process)
    by_index = {reading.index: reading for reading in readings}
    found: dict[str, tuple[OnDevice, ...]] = {}
    for (uid, index), processes in on.items():
        alone = holders.get(index) == [uid] and not any(use.device == index for use in foreign)
        item = _on_device(index, processes, by_index.get(index), alone=alone)
        found[uid] = (*found.get(uid, ()), item)
    return found


def _on_device(
    index: int, processes: list[DeviceHolder], reading: Reading | None, *, alone: bool
) -> OnDevice:
    """An attempt that has a device alone has all that is used of it, processes told or not."""
    memory_mib = sum(one.memory_mib or 0 for one in processes)
    known = [one.use_percent for one in processes if one.use_percent is not None]
    percent = sum(known) if known else None
    if reading is not None and alone:
        percent = reading.use_percent
        if not processes or any(one.memory_mib is None for one in processes):
            memory_mib = reading.memory_used_mib or 0
    elif reading is not None and reading.use_percent == 0:
        percent = 0.0
    return OnDevice(index, memory_mib, percent)
