"""One node of an engine in the controller's eyes: a session like an agent's, without processes.

All nodes of an engine live in one host process. Each has its own key and its own state machine;
what that decides goes to the host, which asks the engine.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import time
from typing import TYPE_CHECKING

from rota import __version__
from rota.rpc.messages import (
    PROTOCOL,
    Desired,
    Hello,
    NewKey,
    Observed,
    RenewKey,
    Resized,
    SessionRefused,
    Welcome,
)
from rota.rpc.visits import Visit
from rota.session import folder, wire
from rota.session.agent import Agent
from rota.session.alarm import Alarm
from rota.session.heartbeat import Heartbeat
from rota.session.instructions import Redial
from rota.session.keyring import Keyring
from rota.session.redial import Pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from rota.backends.visits import EngineVisits
    from rota.core.facts.node import NodeSpec
    from rota.rpc.messages import AgentMessage, ControllerMessage
    from rota.session.instructions import (
        Began,
        Gone,
        Instruction,
        KeeperAll,
        Queued,
    )

#: What an engine's work is part of outlives any reboot of its machines.
BOOT = "engine"
REFUSED_S = 10.0
#: A session that lasted so long was a good one: the next dial comes at once.
GOOD_S = 2.0

log = logging.getLogger("rota.engine")


class NodeSession:
    """``obey`` takes what the state machine decides; ``visits`` what people want of an attempt."""

    def __init__(
        self,
        spec: NodeSpec,
        url: str,
        home: Path,
        token: str,
        obey: Callable[[NodeSession, Sequence[Instruction]], None],
        visits: Callable[[Callable[[AgentMessage], None]], EngineVisits],
    ) -> None:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.spec = spec
        self.agent = Agent()
        self._url, self._home = url, home
        self._keyring = Keyring(home, token)
        self._incarnation = folder.incarnation_of(home)
        self._obey, self._visits = obey, visits(self.send)
        self._heartbeat = Heartbeat(self.send, lambda _: None)
        self._link: wire.ControllerLink | None = None
        self._alarm = Alarm(time.time, self._on_timer)
        self._refused = ""
        #: The id of the controller's cluster, once it has been heard.
        self.cluster = ""

    @property
    def name(self) -> str:
        return self.spec.name

    async def hold(self) -> None:
        """Connected, always."""
        pauses, said = Pauses(), ""
        while True:
            self._refused, dialled_s, busy_s = "", time.monotonic(), 0.0
            try:
                self._link = await self._keyring.dial(self._url, self._on_message)
                self.agent.on_connected()
                self._heartbeat.dialled()
                self.send(self._hello())
                reason = await self._link.closed
            except wire.ControllerAway as error:
                reason, busy_s = str(error), error.busy_s
            finally:
                self._link = None
                self._heartbeat.hung_up()
                self._visits.hung_up()
                self.agent.on_disconnected()
            if time.monotonic() - dialled_s > GOOD_S:
                pauses.reset()
                said = ""
            reason = self._refused or reason
            if reason != said:
                log.warning("node %s is not connected to the controller: %s", self.name, reason)
                said = reason
            await asyncio.sleep(REFUSED_S if self._refused else pauses.take_s(busy_s))

    def _hello(self) -> Hello:
        return Hello(
            PROTOCOL,
            self.spec,
            self._incarnation,
            BOOT,
            __version__,
            os.getpid(),
            home=f"{platform.node()}:{self._home.absolute()}",
            local=self._url.startswith("unix:"),
            engine=self.spec.engine,
            key=self._keyring.digest,
        )

    def become(self, spec: NodeSpec) -> None:
        """The engine says something new of its machine; a new session would tell it by itself."""
        if spec != self.spec:
            self.spec = spec
            if self.agent.session:
                self.send(Resized(self.agent.session, spec))

    def redial(self, reason: str) -> None:
        if self._link is not None:
            self._link.close(reason)

    def send(self, message: AgentMessage) -> None:
        if self._link is not None:
            self._link.send(message)

    def _on_message(self, message: ControllerMessage) -> None:
        self._heartbeat.hears(message)
        if isinstance(message, Desired):
            self.act(self.agent.on_desired(message, time.time()))
        elif isinstance(message, Welcome):
            self.cluster = message.cluster
            self._keyring.welcomed()
            self.act(self.agent.on_welcome(message))
        elif isinstance(message, RenewKey):
            self.send(NewKey(message.request, self._keyring.renew()))
        elif isinstance(message, SessionRefused):
            self._refuse(message.reason)
        elif isinstance(message, Visit):
            self._visits.take(message)

    def _refuse(self, reason: str) -> None:
        self._refused = reason
        self.redial("refused")

    def _on_timer(self) -> None:
        self.act(self.agent.on_timer(time.time()))

    def hears_all(self, listing: KeeperAll) -> None:
        self.act(self.agent.on_keeper_all(listing, time.time()))

    def hears(self, events: Iterable[Began | Gone]) -> None:
        self.act(self.agent.on_keeper_events(events, time.time()))

    def hears_waits(self, event: Queued) -> None:
        self.act(self.agent.on_waits(event))

    def act(self, instructions: Sequence[Instruction]) -> None:
        """The engine first, then the controller."""
        self._obey(self, instructions)
        for instruction in instructions:
            if isinstance(instruction, Observed):
                self.send(instruction)
            elif isinstance(instruction, Redial):
                self.redial(instruction.reason)
        self._alarm.set(self.agent.next_timer_s())
