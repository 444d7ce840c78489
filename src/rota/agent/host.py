"""The live agent: carries the state machine's instructions out, on an asyncio loop.

Loops run side by side: one holds the connection to the keeper (and starts it), one dials the
controller, others watch memory, devices and logs. A message takes a single callback between them.
A SIGTERM ends the agent; the keeper and all jobs live on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, TypeVar

import msgspec

from rota import __version__
from rota.agent import keeper_link
from rota.agent.agent_config import AgentConfig as AgentConfig  # noqa: TC001 - for others, too
from rota.agent.attempts.address import addressed
from rota.agent.attempts.errands import Errands
from rota.agent.attempts.launch import Launcher
from rota.agent.attempts.node_variables import NodeVariables
from rota.agent.chores import keep_up
from rota.agent.leaving import VISIBLE, NodeLeaving, as_guest
from rota.agent.machine.cgroups import Cgroups, CgroupsUnusable, open_cgroups
from rota.agent.machine.discover import discover
from rota.agent.machine.fence import put_up
from rota.agent.machine.gauges import Gauges
from rota.agent.machine.gpus import BadGpuFile
from rota.agent.machine.memory import MemoryWatch
from rota.agent.record import ClusterRecord
from rota.agent.visits.visits import Visits
from rota.keeper.processes import boot_id
from rota.rpc.messages import (
    PROTOCOL,
    AgentMessage,
    BundlePart,
    CheckpointOrder,
    ControllerMessage,
    Desired,
    Hello,
    NewKey,
    Observed,
    RenewKey,
    SessionRefused,
    Welcome,
)
from rota.rpc.visits import Visit
from rota.session import folder, wire
from rota.session.agent import Agent
from rota.session.alarm import Alarm
from rota.session.charge import LEFT
from rota.session.instructions import Began, Gone, KeeperAll, KnownAttempt, Redial, Spawn
from rota.session.keyring import BadKeyFile, Keyring
from rota.session.line import Connection, Line, loop_factory
from rota.session.redial import Pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from rota.session.instructions import Instruction

REDIAL_S_MIN, REDIAL_S_MAX = 0.05, 2.0
#: Nothing is said about a controller that does not answer so soon after the start.
QUIET_S = 2.0
#: A controller on this machine is started again at once, and asking after it costs next to nothing.
REDIAL_S_MAX_LOCAL = 0.2
#: After a refusal: somebody has to do something first.
REFUSED_S = 10.0

log = logging.getLogger("rota.agent")
EndT = TypeVar("EndT", Gone, KnownAttempt)


class NodeHost:
    """One running agent."""

    def __init__(self, config: AgentConfig, cgroups: Cgroups | None) -> None:
        self._config = config
        self._cgroups = cgroups
        self._agent = Agent()
        found, gpus = discover(config.state_dir, config.overrides), config.overrides.gpus_file
        found = as_guest(found, config, os.environ.get(VISIBLE, ""))
        self._spec = put_up(found, cgroups, config.enforce_devices, gpus)
        self._incarnation = folder.incarnation_of(config.folder)
        self._keyring = Keyring(config.folder, config.token)
        variables = NodeVariables(config.url, self._keyring.fingerprint)
        self._launcher = Launcher(config.folder, cgroups, variables)
        self._record = ClusterRecord(config.folder)
        self._memory = MemoryWatch()
        self._visits = Visits(config, self.tell, self._agent.alive, self._tell_keeper)
        self._errands = Errands(
            self._launcher, lambda one: self.carry_out([one]), self._on_keeper_events, self.tell
        )
        hear, hold = self._on_message, self._hold_lease
        self._line = Line(config.url, self._keyring, hear, hold, self._record.objection)
        self._keeper: keeper_link.KeeperLink | None = None
        self._controller: Connection | None = None
        self._refused = ""
        self._lease_s = -1.0
        self._alarm = Alarm(self._now_s, self._on_timer)
        self._gauges = Gauges(
            self._spec.devices,
            self._agent,
            cgroups,
            folder=config.folder,
            gpus_file=gpus,
            tolerance=config.tolerance,
        )
        # Wall time that never jumps: a grace period must not end because the clock was set.
        self._clock_offset_s = time.time() - time.monotonic()
        self._leaving = NodeLeaving(self._agent, config.ends_s, config.idle_s, self._now_s)
        self._stop = asyncio.Event()
        self._busy = asyncio.Event()

    def _now_s(self) -> float:
        return self._clock_offset_s + time.monotonic()

    async def run(self) -> None:
        loop, leaves = asyncio.get_running_loop(), self._leaving.by_itself
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._leaving.told if leaves else self._stop.set)
        self._line.start()
        folder.introduce(self._config.folder, self._spec.name)
        chores = self._visits.chores() | {"gauges": partial(self._gauges.run, self.tell)}
        look, alive, health = self._memory.run, self._agent.alive, self._launcher.variables.health
        if self._cgroups is None:
            chores["memory of attempts"] = partial(look, alive, self._some_work, self._on_oom)
        chores["health of attempts"] = partial(health.run, self._agent.awake, self._on_unhealthy)
        duties = [self._hold_keeper(), self._hold_controller()]
        duties += [keep_up(what, chore) for what, chore in chores.items()]
        duties += [self._leave()] if leaves else []
        tasks = [asyncio.create_task(self._guard(work)) for work in duties]
        await self._stop.wait()
        broken = any(task.done() and task.exception() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tell_keeper(*self._launcher.farewell())
        self._visits.stop()
        self._errands.close()
        if self._controller is not None:
            self._controller.close("the agent was stopped")
        self._line.stop()
        self._record.save()
        self._gauges.ledger.save()
        with suppress(OSError):
            (self._config.folder / "agent.json").unlink()
        if broken:
            raise folder.CannotRun("it broke down; its log says why")

    async def _guard(self, work: Coroutine[None, None, None]) -> None:
        """A loop that ends by an error of ours must end the agent, not leave it half alive."""
        try:
            await work
        except Exception:
            log.exception("the agent broke down")
            self._stop.set()
            raise

    async def _leave(self) -> None:
        """The node goes for good, its keeper with it."""
        await self._leaving.run(self)
        self._tell_keeper(keeper_link.EXIT)
        self._stop.set()

    async def hung_up(self) -> None:
        if self._controller is not None:
            await asyncio.wait([self._controller.closed])

    def carry_out(self, instructions: list[Instruction]) -> None:
        """Do what the state machine says: the keeper first, then the controller."""
        if not self._agent.idle:
            self._busy.set()
        due = [
            order
            for order in instructions
            if not isinstance(order, Spawn) or not self._errands.delays(order)
        ]
        lines, failed = self._launcher.lines(due, self._now_s())
        self._tell_keeper(*lines)
        for instruction in instructions:
            if self._controller is not None and isinstance(instruction, Observed):
                self._controller.send(self._launcher.variables.told(instruction))
            elif self._controller is not None and isinstance(instruction, Redial):
                log.warning("dialling again: %s", instruction.reason)
                self._controller.close(instruction.reason)
        if failed:
            self.carry_out(self._agent.on_keeper_events(failed, self._now_s()))
        self._alarm.set(self._agent.next_timer_s(), self._launcher.due_s)

    def _on_timer(self) -> None:
        self.carry_out(self._agent.on_timer(self._now_s()))

    async def _hold_keeper(self) -> None:
        """Connected to the keeper, always; a new one is started when it was killed."""
        pause_s = REDIAL_S_MIN
        while True:
            try:
                link = await keeper_link.connect(
                    self._config.folder, self._on_keeper_all, self._on_keeper_events
                )
            except (OSError, keeper_link.KeeperFailed) as error:
                log.error("no keeper: %s", error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, REDIAL_S_MAX)
                continue
            pause_s = REDIAL_S_MIN
            try:
                await link.closed
            finally:
                link.close()
                self._keeper = None
            log.warning("the keeper is gone; starting another")
            self._agent.on_keeper_lost()
            await asyncio.sleep(pause_s)

    def _on_keeper_all(self, link: keeper_link.KeeperLink, listing: KeeperAll) -> None:
        # Here, not when the connection was made: this may well be the earlier of the two.
        self._keeper, self._launcher.held = link, link.objection
        self._line.tell_keeper()
        attempts = tuple(
            self._complete(known) if known.phase == "ended" else known for known in listing.attempts
        )
        attempts = self._errands.adopt(attempts)
        self._launcher.variables.adopt(attempts)
        listing = msgspec.structs.replace(listing, attempts=attempts)
        self.carry_out(self._agent.on_keeper_all(listing, self._now_s()))

    def _tell_keeper(self, *lines: bytes) -> None:
        if lines and self._keeper is not None:
            self._keeper.send([*lines])

    def _hold_lease(self, line: bytes) -> None:
        """In the thread of the line, if that has one: our own loop may stand still."""
        keeper = self._keeper
        if keeper is not None:
            keeper.send_now(line)

    def _on_keeper_events(self, events: list[Began | Gone]) -> None:
        complete = [
            event if isinstance(event, Began) else self._complete(event) for event in events
        ]
        self.carry_out(
            self._agent.on_keeper_events(self._errands.passed_on(complete), self._now_s())
        )

    def _complete(self, end: EndT) -> EndT:
        """Add to an end what only we know: the peak that we saw, a kill by the kernel.

        What ends by a signal while the node goes has heard it with us.
        """
        if self._leaving.note and end.signal in (signal.SIGTERM, signal.SIGKILL) and not end.note:
            end = msgspec.structs.replace(end, note=LEFT + self._leaving.note)
        if self._cgroups is not None:
            # What ended well was not killed.
            note = end.note or (end.code != 0 and self._cgroups.out_of_memory(end.uid)) or ""
            peak_kib = self._cgroups.peak_kib(end.uid)
        else:
            note, peak_kib = end.note, self._memory.take_peak_kib(end.uid)
        gpu = self._gauges.ledger.figures(end.uid)
        if note == end.note and peak_kib <= end.maxrss_kb and gpu is None:
            return end
        peak_kib = max(peak_kib, end.maxrss_kb)
        return msgspec.structs.replace(end, note=note, maxrss_kb=peak_kib, gpu=gpu)

    async def _hold_controller(self) -> None:
        """Dial, say hello, listen; again after a growing pause when that ends."""
        local = self._config.url.startswith("unix:")
        pauses = Pauses(REDIAL_S_MAX_LOCAL) if local else Pauses()
        said, began_s = "", time.monotonic()
        while not self._leaving.note:
            self._refused, self._lease_s, busy_s = "", -1.0, 0.0
            dialled_s = time.monotonic()
            await self._gauges.before_hello()
            try:
                self._controller = link = await self._line.dial()
                self._agent.on_connected()
                link.send(self._hello())
                reason = await link.closed
            except wire.ControllerAway as error:
                reason, busy_s = str(error), error.busy_s
            finally:
                if self._controller is not None:
                    self._controller.close()
                    self._controller = None
                self._visits.close()
                self._errands.on_disconnected()
                self._agent.on_disconnected()
            # A controller that takes us in and drops us at once must not be dialled in a spin.
            if self._lease_s >= 0 and time.monotonic() - dialled_s > REDIAL_S_MAX:
                pauses.reset(self._lease_s)
                said = ""
            reason = self._refused or reason
            # A controller that was started together with us needs a moment.
            early = not self._refused and time.monotonic() - began_s < QUIET_S
            if reason != said and not early:
                log.warning("not connected to the controller: %s", reason)
                folder.introduce(self._config.folder, self._spec.name, self._refused)
                said = reason
            await asyncio.sleep(REFUSED_S if self._refused else pauses.take_s(busy_s))

    def _hello(self) -> Hello:
        return Hello(
            PROTOCOL,
            addressed(self._spec, self._config),
            self._incarnation,
            boot_id(),
            __version__,
            os.getpid(),
            self._gauges.foreign,
            home=f"{platform.node()}:{self._config.folder.absolute()}",
            local=self._config.url.startswith("unix:"),
            key=self._keyring.digest,
        )

    def _on_message(self, message: ControllerMessage) -> None:
        if why := self._record.hears(message):
            self._refuse(why)
            return
        if isinstance(message, Desired) and self._leaving.note:
            return  # What is new begins elsewhere, and what is gone is told with our farewell.
        if isinstance(message, Desired):
            self.carry_out(self._agent.on_desired(message, self._now_s()))
            self._errands.give_up(self._agent.unstarted())
        elif isinstance(message, Visit):
            self._visits.take(message)
        elif isinstance(message, CheckpointOrder | BundlePart):
            self._errands.take(message)
        elif isinstance(message, Welcome):
            log.info("connected, session %d of cluster %s", message.session, message.cluster)
            self._lease_s, self._gauges.every_s = message.lease_s, message.measure_s
            folder.introduce(self._config.folder, self._spec.name, at_work=True)
            self._keyring.welcomed()
            self.carry_out(self._agent.on_welcome(message))
        elif isinstance(message, RenewKey):
            self.tell(NewKey(message.request, self._keyring.renew()))
        elif isinstance(message, SessionRefused):
            self._refuse(message.reason)

    def _refuse(self, reason: str) -> None:
        """The session cannot be; somebody has to do something first."""
        self._refused = reason
        if self._controller is not None:
            self._controller.close("refused")

    def tell(self, message: AgentMessage) -> bool:
        """Whether there is a controller to tell."""
        if self._controller is not None:
            self._controller.send(message)
        return self._controller is not None

    async def _some_work(self) -> None:
        if self._agent.idle:
            self._busy.clear()
            await self._busy.wait()

    def _on_oom(self, uid: str, detail: str) -> None:
        log.warning("attempt %s is out of memory: %s", uid, detail)
        self.carry_out(self._agent.on_oom(uid, detail, self._now_s()))

    def _on_unhealthy(self, uid: str, detail: str) -> None:
        self.carry_out(self._agent.on_must_end(uid, detail, inf, self._now_s()))


def run_agent(config: AgentConfig, say: Callable[[str], object] | None = None) -> int:
    """Run until told to stop; gives the exit status. ``say`` hears why it cannot (else stderr)."""
    try:
        config.folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        with suppress(PermissionError):
            config.folder.chmod(0o711)
        lock = folder.lock(config.folder)
        cgroups = open_cgroups(config.cgroup_root, folder.incarnation_of(config.folder))
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_run(config, cgroups))
    except (folder.CannotRun, CgroupsUnusable, BadGpuFile, BadKeyFile) as error:
        say = say or (lambda why: sys.stderr.write(f"rota agent: {why}\n"))
        say(str(error))
        return 1
    if cgroups is not None:
        cgroups.close()
    os.close(lock)
    return 0


async def _run(config: AgentConfig, cgroups: Cgroups | None) -> None:
    await NodeHost(config, cgroups).run()
