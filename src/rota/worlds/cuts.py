"""Broken networks of a world: a node cannot reach the controller for a while, or only one way.

A cut loses what is sent, or holds it back until it heals, as the buffers of a network do. Cuts
are shorter or longer than the lease. They have a dice of their own, so that a world without cuts
plays as it always did.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from rota.controller.engine import FromLink
from rota.rpc.messages import decode_from_agent

if TYPE_CHECKING:
    from rota.worlds.virtual_node import VirtualNode
    from rota.worlds.world import World

LEASE_S = 6.0
#: How often one begins, per node and look.
CHANCE = 0.015
LONG_S = 25.0
LENGTHS_S = (0.5, 3.0, 7.0, 14.0, 30.0)


class Cut:
    """One interruption between a node and the controller."""

    def __init__(self, chance: Random) -> None:
        self.stops_to_agent, self.stops_from_agent = chance.choice(
            ((True, True), (True, True), (True, False), (False, True))
        )
        #: What is sent arrives when it is over, instead of never.
        self.late = chance.random() < 0.5
        self.held: list[tuple[int, bytes, bool]] = []

    def stops(self, to_agent: bool) -> bool:
        return self.stops_to_agent if to_agent else self.stops_from_agent


class Cuts:
    """All interruptions of a world, begun and healed by chance."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = Random(f"{world.seed} cuts")
        self._now: dict[str, Cut] = {}

    def equip(self, node: VirtualNode) -> None:
        """Some of its work takes longer than any lease: it is there when that runs out."""
        node.lengths_s = (*node.lengths_s, LONG_S)

    def is_cut(self, node: VirtualNode) -> bool:
        return node.spec.name in self._now

    def hold_back(self, node: VirtualNode, link: int, frame: bytes, to_agent: bool) -> bool:
        """Whether a frame does not arrive now."""
        cut = self._now.get(node.spec.name)
        if cut is None or not cut.stops(to_agent):
            return False
        if cut.late:
            cut.held.append((link, frame, to_agent))
        return True

    def begin_some(self) -> None:
        world = self._world
        for node in world.nodes:
            if not self.is_cut(node) and self._chance.random() < CHANCE:
                self._now[node.spec.name] = Cut(self._chance)
                length_s = self._chance.choice(LENGTHS_S)
                world.tell(f"{world.timeline.now_s:.3f} {node.spec.name} is cut off, {length_s} s")
                world.timeline.after(length_s, lambda node=node: self.heal(node))  # type: ignore[misc]

    def heal_all(self) -> None:
        for node in self._world.nodes:
            self.heal(node)

    def heal(self, node: VirtualNode) -> None:
        """What was held back arrives; a connection that one side has given up is gone."""
        cut = self._now.pop(node.spec.name, None)
        if cut is None:
            return
        world = self._world
        world.tell(f"{world.timeline.now_s:.3f} {node.spec.name} is no longer cut off")
        for link, frame, to_agent in cut.held:
            if to_agent and node.link == link:
                node.hears(frame)
            elif not to_agent and link in world.links and world.controller is not None:
                world.inbox.append(FromLink(link, decode_from_agent(frame)))
                world.wake()
        if cut.late and node.link in world.links:
            return
        if node.link in world.links:
            world.cut(node.link)
        else:
            node.disconnected()
            if node.agent is not None:
                world.dial(node)
