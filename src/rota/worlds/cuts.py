"""Broken networks of a world: a node cannot reach the controller for a while, or only one way.

A cut loses what is sent, or holds it back until it heals, as the buffers of a network do. Cuts
are shorter or longer than the lease. A machine that sleeps is cut off, too. With cuts comes what
tries leases hard: processes that hear no TERM, another grace for jobs that run, another lease after
a restart, disks that are full. All of it has a dice of its own, so that a world without cuts plays
as it always did.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from rota.controller.commands import commands as cmd
from rota.controller.engine import FromLink
from rota.rpc.messages import decode_from_agent
from rota.worlds.site import ROOT

if TYPE_CHECKING:
    from rota.worlds.virtual_node import VirtualNode
    from rota.worlds.world import World

LEASES_S = (3.0, 3.0, 12.0)
#: How often one begins, per node and look.
CHANCE = 0.03
LONG_S = 25.0
LENGTHS_S = (0.5, 3.0, 7.0, 14.0, 14.0, 30.0)
#: How often a job that runs gets another grace, and a disk is full, per look.
UPDATE, FULL = 0.2, 0.005
#: How often an agent is cut off just when it is told its lease.
UNWELCOME = 0.25
#: How often the controller starts anew, with another lease.
RESTART = 0.01
#: How often the controller's own disk is full for a while: no commit succeeds.
DISK_FULL = 0.003
#: For so long after the last request things go on breaking.
AFTER_S = (0.0, 20.0, 60.0)
GRACES_S = (0, 1, 5, 12)
#: Within this time after it woke up a keeper has ended what was over: it looks once a second.
AWAKE_S = 1.5


class Cut:
    """One interruption between a node and the controller."""

    def __init__(self, chance: Random) -> None:
        self.stops_to_agent, self.stops_from_agent = chance.choice(
            ((True, True), (True, True), (True, False), (False, True))
        )
        #: It is the machine itself that sleeps, and all on it.
        self.sleeps = chance.random() < 0.2
        if self.sleeps:
            self.stops_to_agent = self.stops_from_agent = True
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
        self._ends_s = 0.0
        self.disk_full = False

    def equip(self, node: VirtualNode) -> None:
        """Some of its work takes longer than any lease: it is there when that runs out."""
        node.lengths_s = (*node.lengths_s, *(LONG_S,) * len(node.lengths_s))
        node.deaf, node.forgets = 0.6, 0.02

    def lease_s(self) -> float:
        """What agents are told by a controller that starts now."""
        return self._chance.choice(LEASES_S)

    def is_cut(self, node: VirtualNode) -> bool:
        return node.spec.name in self._now

    def hold_back(self, node: VirtualNode, link: int, frame: bytes, to_agent: bool) -> bool:
        """Whether a frame does not arrive now."""
        if not self.is_cut(node) and b"welcome" in frame and self._chance.random() < UNWELCOME:
            self._begin(node)
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
                self._begin(node)
            if not node.full and self._chance.random() < FULL:
                node.full = True
                wait_s = self._chance.choice(LENGTHS_S)
                world.timeline.after(wait_s, lambda node=node: self._empty(node))  # type: ignore[misc]
        if not self.disk_full and self._chance.random() < DISK_FULL:
            self.disk_full = True
            world.timeline.after(self._chance.choice(LENGTHS_S), self._make_room)
        if world.controller is not None and self._chance.random() < RESTART:
            world.die("it gets other settings")
        if world.controller is not None and self._chance.random() < UPDATE:
            jobs = [job.id for job in world.controller.cluster.jobs.values() if job.live_attempts]
            for job in jobs:
                changes = {"grace_s": self._chance.choice(GRACES_S)}
                world.ask(cmd.Update(actor=ROOT, job=job, changes=changes), lambda _: None)

    def are_over(self) -> bool:
        """Whether nothing breaks any more, some time after the last request."""
        if not self._world.script.done:
            return False
        now_s = self._world.timeline.now_s
        self._ends_s = self._ends_s or now_s + self._chance.choice(AFTER_S)
        return now_s >= self._ends_s or self._world.quiet()

    def _begin(self, node: VirtualNode) -> None:
        world, name = self._world, node.spec.name
        cut = self._now[name] = Cut(self._chance)
        length_s = self._chance.choice(LENGTHS_S)
        what = "sleeps" if cut.sleeps else "is cut off"
        world.tell(f"{world.timeline.now_s:.3f} {name} {what}, {length_s} s")
        if cut.sleeps:
            node.timeline.asleep = True
            world.judge.asleep.add(name)
        world.timeline.after(length_s, lambda: self.heal(node))

    def _make_room(self) -> None:
        self.disk_full = False

    @staticmethod
    def _empty(node: VirtualNode) -> None:
        node.full = False

    def heal_all(self) -> None:
        self.disk_full = False
        for node in self._world.nodes:
            node.full = False
            self.heal(node)

    def heal(self, node: VirtualNode) -> None:
        """What was held back arrives; a connection that one side has given up is gone."""
        cut = self._now.pop(node.spec.name, None)
        if cut is None:
            return
        world = self._world
        world.tell(f"{world.timeline.now_s:.3f} {node.spec.name} is no longer cut off")
        if cut.sleeps:
            world.judge.asleep.discard(node.spec.name)
            node.timeline.wake()
            world.timeline.after(AWAKE_S, lambda: world.judge.woke(node.spec.name))
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
