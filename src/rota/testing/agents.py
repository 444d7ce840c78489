"""Pretended agents: they keep to the contract of real ones, without a machine or a process.

What ends while nobody listens is told later, what is no longer wanted is ended, and what should
have been there is reported missing.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from rota.controller.engine import Asked, FromLink, Tick
from rota.rpc.messages import (
    PROTOCOL,
    Beat,
    Desired,
    DeviceUse,
    Hello,
    Launch,
    Observed,
    Resized,
    Seen,
    Sighting,
    Wanted,
    Welcome,
)

if TYPE_CHECKING:
    from rota.core.facts.job import Attempt
    from rota.core.facts.node import ForeignUse, NodeSpec


class PretendedAgents(ABC):
    """The agents of a scene, one per node. The class that inherits runs the ticks."""

    def __init__(self, *, starts: bool = True) -> None:
        self.now_s = 1000.0
        #: Whether agents start what they are told to, or only what ``start`` names.
        self.starts = starts
        #: Nodes whose agents are connected.
        self.online: set[str] = set()
        #: What the agents were told to start, and where what they did start lives.
        self.launches: dict[str, Launch] = {}
        self.alive: dict[str, str] = {}
        self.stopping: set[str] = set()
        #: Attempts whose processes are stopped where they are.
        self.suspended: set[str] = set()
        #: What members of elastic gangs were told of their world; how often jobs were to save.
        self.worlds: dict[str, bytes] = {}
        self.saves: dict[str, int] = {}
        #: The open connection of each node, and what was said on each connection.
        self.link_of: dict[str, int] = {}
        self.session_of: dict[int, int] = {}
        self._sent: dict[int, int] = {}
        self._links = itertools.count(1)
        self._specs: dict[str, NodeSpec] = {}
        self._identity: dict[str, tuple[str, str]] = {}
        self._foreign: dict[str, tuple[ForeignUse, ...]] = {}
        self._untold: dict[str, tuple[str, Seen]] = {}

    @abstractmethod
    def tick(self, *inbox: FromLink | Asked) -> Tick:
        """Hand this to the controller, and obey what it says."""

    def add_node(self, spec: NodeSpec) -> None:
        self._specs[spec.name] = spec
        self.connect(spec.name)

    def connect(
        self, node: str, *, incarnation: str = "", boot_id: str = "", home: str = ""
    ) -> Tick:
        """The node's agent dials in, as the one that it was unless told otherwise."""
        old_incarnation, old_boot = self._identity.get(node, ("i1", "b1"))
        identity = (incarnation or old_incarnation, boot_id or old_boot)
        if identity[1] != old_boot:
            self.alive = {uid: where for uid, where in self.alive.items() if where != node}
        self._identity[node] = identity
        foreign = self._foreign.get(node, ())
        spec = self._specs[node]
        hello = Hello(
            PROTOCOL, spec, *identity, "0", foreign=foreign, home=home, engine=spec.engine
        )
        return self.dial(node, hello)

    def dial(self, node: str, hello: Hello) -> Tick:
        """Open a connection for a node with these first words."""
        link = next(self._links)
        self.link_of[node] = link
        self._sent[link] = 0
        self.online.add(node)
        return self.tick(FromLink(link, hello))

    def disconnect(self, node: str) -> None:
        self.online.discard(node)
        self.tick(FromLink(self.link_of[node], None))

    def start_placed(self, attempts: list[Attempt]) -> None:
        """The agents start these attempts now, unless they did."""
        for attempt in attempts:
            node = attempt.allocation.node
            if attempt.uid not in self.alive and node in self.online:
                self.alive[attempt.uid] = node
                seen = Seen(attempt.uid, Sighting.RUNNING, pid=1, started_s=self.now_s)
                self.report(seen, node=node)

    def end(self, uid: str, code: int | None, signal: int, **more: Any) -> None:
        """The process of an attempt ends; its agent says so now, or when it can."""
        node = self.alive.pop(uid)
        self.stopping.discard(uid)
        self.suspended.discard(uid)
        seen = Seen(
            uid,
            Sighting.ENDED,
            started_s=self.now_s,
            ended_s=self.now_s,
            exit_code=None if signal else code,
            signal=signal,
            **more,
        )
        if node in self.online:
            self.report(seen, node=node)
        else:
            self._untold[uid] = (node, seen)

    def report(self, *seen: Seen, node: str) -> Tick:
        """The next message of the node's agent."""
        link = self.link_of[node]
        self._sent[link] += 1
        return self.say(node, Observed(self.session_of[link], self._sent[link], seen))

    def beat(self, *nodes: str) -> None:
        """The agents of these nodes say that they are there."""
        for node in nodes:
            link = self.link_of[node]
            self.say(node, Beat(self.session_of[link], next(self._links), self._sent[link]))

    def resize(self, spec: NodeSpec) -> None:
        """The engine of a node says something new of it."""
        self._specs[spec.name] = spec
        self.say(spec.name, Resized(self.session_of[self.link_of[spec.name]], spec))

    def say(self, node: str, message: Observed | DeviceUse | Beat | Resized) -> Tick:
        return self.tick(FromLink(self.link_of[node], message))

    def see_strangers(self, node: str, *foreign: ForeignUse) -> None:
        """The agent finds processes outside Rota on the node's devices, and says so when it can."""
        self._foreign[node] = foreign
        if node in self.online:
            self.say(node, DeviceUse(self.session_of[self.link_of[node]], foreign))

    def heed(self, tick: Tick) -> None:
        """What the controller told the agents in a tick."""
        for link, message in tick.to_agents:
            if isinstance(message, Welcome):
                self.session_of[link] = message.session
            elif isinstance(message, Desired):
                self._obey(link, message)
        for node, link in self.link_of.items():
            if link in tick.hang_up:
                self.online.discard(node)

    def _obey(self, link: int, message: Desired) -> None:
        """Bring what lives on the node in step with what should."""
        node = next((name for name, number in self.link_of.items() if number == link), "")
        if node not in self.online:
            return
        wanted = {order.uid for order in message.attempts}
        gone = set(message.gone)
        if message.full:
            gone |= {uid for uid, where in self.alive.items() if where == node} - wanted
            gone |= {uid for uid, (where, _) in self._untold.items() if where == node} - wanted
        for uid in gone:
            self.alive.pop(uid, None)
            self.stopping.discard(uid)
            self._untold.pop(uid, None)
        seen = [self._follow(node, order, message.full) for order in message.attempts]
        told = [sighting for sighting in seen if sighting is not None]
        if told or message.full:
            self.report(*told, node=node)

    def _follow(self, node: str, order: Wanted, full: bool) -> Seen | None:
        """Carry out one order; what there is to say about it."""
        if order.launch is not None:
            self.launches[order.uid] = order.launch
        self.worlds[order.uid] = order.launch.world if order.launch is not None else order.world
        self.saves[order.uid] = order.saves
        (self.suspended.add if order.suspended else self.suspended.discard)(order.uid)
        if order.uid in self._untold:
            return self._untold.pop(order.uid)[1]
        running = Seen(order.uid, Sighting.RUNNING, pid=1, started_s=self.now_s)
        if order.uid in self.alive:
            if order.stop is not None:
                self.stopping.add(order.uid)
            return running if full else None
        if order.stop is not None:
            return Seen(order.uid, Sighting.ENDED, ended_s=self.now_s)
        if order.started:
            return Seen(order.uid, Sighting.MISSING)
        if not self.starts:
            return None
        self.alive[order.uid] = node
        return running
