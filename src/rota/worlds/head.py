"""A controller of a world: the live host itself, on virtual time, over a virtual database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.controller.clock import Clock
from rota.controller.loop import Host
from rota.controller.names import Names
from rota.core.facts.errors import Unavailable
from rota.rpc.messages import decode_from_agent
from rota.worlds.clock import OwnTime
from rota.worlds.database import SlowWriter, WorldConnection
from rota.worlds.virtual_loop import VirtualLoop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from rota.controller.agents.links import AgentLink
    from rota.controller.commands.commands import Command
    from rota.controller.engine import Item
    from rota.worlds.leases import LeaseWorld

#: The two machines on which there may be a controller.
MACHINES = 2


class StrictHost(Host):
    """A live host puts aside what breaks a tick. In a world that is a fault of ours."""

    failed: Callable[[BaseException], None]

    def _stumble(self, items: list[Item], error: Exception, calm: bool) -> None:
        self.failed(error)
        super()._stumble(items, error, calm)


class CountedNames(Names):
    """Names in the order in which they are asked for."""

    def __init__(self, world: LeaseWorld) -> None:
        self._world = world

    def uid(self) -> str:
        return f"u{self._world.number()}"

    def number(self) -> int:
        return self._world.number()


class VirtualHead:
    """One process that leads, or has led and does not know better."""

    def __init__(self, world: LeaseWorld, lease_s: float) -> None:
        """Raises ``NotLeading`` where another one leads."""
        self._world = world
        timeline, skew_s = world.timeline, world.skew_s
        self.connection = WorldConnection(world.database)
        self.number = world.number()
        #: It may stand still as a whole.
        self.time = OwnTime(timeline)
        machine = f"machine-{0 if self.connection.local else self.number % MACHINES}"
        self.host = StrictHost(
            self.connection,
            SlowWriter(self.connection, world.cuts.chance, lambda death: world.dies(self, death)),
            lease_s=lease_s,
            checked=True,
            clock=Clock(lambda: timeline.now_s + skew_s, lambda: timeline.now_s, lambda: machine),
            names=CountedNames(world),
        )
        self.host.failed = world.failed
        self.loop = VirtualLoop(self.time, world.failed, lambda death: world.dies(self, death))
        #: Open connections, by the world's number.
        self._links: dict[int, AgentLink] = {}
        self._callers: dict[int, Callable[[object], None]] = {}
        self.loop.start(self.host.run()).add_done_callback(self._ran)

    @property
    def leads(self) -> bool:
        return self.connection.leads

    @property
    def busy(self) -> bool:
        """Whether something waits for a tick, or is not on disk yet."""
        return bool(self.host.waiting) or self.host.newest_seq + 1 != self.connection.next_seq

    def _ran(self, task: asyncio.Task[Any]) -> None:
        self._world.failed(task.exception() or RuntimeError("the host has stopped"))

    def end(self) -> None:
        """It dies with every answer that it had not given."""
        self.loop.end()
        self.connection.drop()
        self._links.clear()
        callers, self._callers = self._callers, {}
        for answer in callers.values():
            answer(Unavailable("connection lost"))

    def ask(self, command: Command, answer: Callable[[object], None]) -> None:
        ticket = self._world.number()
        self._callers[ticket] = answer

        async def ask() -> None:
            try:
                result: object = await self.host.ask(command)
            except Exception as error:
                result = error
            self._callers.pop(ticket)(result)

        self.loop.start(ask())

    def open(self, number: int) -> None:
        link = self._links[number] = self.host.links.open("", "a node of the world")
        self.loop.start(self._write(number, link))

    async def _write(self, number: int, link: AgentLink) -> None:
        """What the host says, in order, until it hangs up."""
        while (frame := await link.outbox.get()) is not None:
            self._world.carry(number, frame)
        self.close(number)
        self._world.cut(number)

    def hear(self, number: int, frame: bytes) -> None:
        link = self._links.get(number)
        if link is None:
            return
        message = decode_from_agent(frame)
        if self.host.links.objection(link, message):
            self._world.cut(number)
        else:
            self.host.links.heard(link, message, len(frame))

    def close(self, number: int) -> None:
        """The connection is gone, from whichever end."""
        link = self._links.pop(number, None)
        if link is not None:
            self.host.links.closed(link)
