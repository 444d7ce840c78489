"""What breaks in a world of leases: networks, disks, machines, and the controller that leads.

A node cannot reach the controller for a while, or only one way. A cut loses what is sent, or holds
it back until it heals, as the buffers of a network do. Cuts are shorter or longer than the lease. A
machine that sleeps is cut off, too. With cuts comes what tries leases hard: processes that hear no
TERM, another grace for jobs that run, another lease after a restart, disks that are full. A
controller may stand still, and one that lost its database may live on beside the next. All of it
has a dice of its own.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from rota.controller.commands import commands as cmd
from rota.worlds.site import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.worlds.head import VirtualHead
    from rota.worlds.leases import LeaseWorld
    from rota.worlds.virtual_node import VirtualNode

LEASES_S = (3.0, 3.0, 12.0)
#: How often one begins, per node and look.
CHANCE = 0.03
LONG_S = (25.0, 60.0)
LENGTHS_S = (0.5, 3.0, 7.0, 14.0, 14.0, 30.0)
#: For how long a machine sleeps.
SLEEPS_S = (*LENGTHS_S, 150.0)
#: How often a job that runs gets another grace, and a disk is full, per look.
UPDATE, FULL = 0.2, 0.005
#: How often an agent is cut off just when it is told its lease.
UNWELCOME = 0.25
#: How often the controller starts anew, with another lease.
RESTART = 0.01
#: How often the disk of the state is full for a while: no commit succeeds. The same for a
#: controller that stands still, one that loses its connection to the database, and an answer of
#: the database that is lost.
DISK_FULL, STALL, DEPOSE, LOSE = 0.003, 0.004, 0.03, 0.005
#: How long the database holds a dead connection for a living one, and how long until the next
#: controller is started.
NOTICES_S, STARTS_S = (0.0, 0.5, 3.0), (0.0, 0.1, 2.0, 6.0)
#: How many dial the newest controller where there are two.
NEWEST = 0.7
#: For so long after the last request things go on breaking.
AFTER_S = (0.0, 30.0, 90.0)
GRACES_S = (0, 1, 5, 12)
#: What a job may ask for at most, and how often the site changes its mind.
GRACES_MAX_S, BOUND = (0, 2, 12, 3600), 0.02
#: Within this time after it woke up a keeper has ended what was over: it looks once a second.
AWAKE_S = 1.5


class NetworkCut:
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

    def __init__(self, world: LeaseWorld) -> None:
        self._world = world
        self.chance = Random(f"{world.seed} cuts")
        self._now: dict[str, NetworkCut] = {}
        self._ends_s = 0.0
        self.disk_full = False
        #: How often each thing happened.
        self.counts: Counter[str] = Counter()
        #: The state is on a disk of the controller's own.
        self.local = world.seed % 2 == 0

    def happens(self, whom: str, what: str) -> None:
        """It is told, and counted."""
        self.counts[what] += 1
        self._world.tell(f"{self._world.timeline.now_s:.3f} {whom} {what}")

    def equip(self, node: VirtualNode) -> None:
        """Some of its work takes longer than any lease: it is there when that runs out."""
        node.lengths_s = (*node.lengths_s, *LONG_S * (len(node.lengths_s) // 2))
        node.deaf, node.forgets = 0.6, 0.02

    def lease_s(self) -> float:
        """What agents are told by a controller that starts now."""
        return self.chance.choice(LEASES_S)

    def choose(self, heads: list[VirtualHead]) -> VirtualHead | None:
        """The controller at which an agent arrives; None: there is none."""
        if not heads:
            return None
        return heads[-1] if self.chance.random() < NEWEST else self.chance.choice(heads)

    def is_cut(self, node: VirtualNode) -> bool:
        return node.spec.name in self._now

    def hold_back(self, node: VirtualNode, link: int, frame: bytes, to_agent: bool) -> bool:
        """Whether a frame does not arrive now."""
        if not self.is_cut(node) and b"welcome" in frame and self.chance.random() < UNWELCOME:
            self._begin(node)
        cut = self._now.get(node.spec.name)
        if cut is None or not cut.stops(to_agent):
            return False
        if cut.late:
            cut.held.append((link, frame, to_agent))
        return True

    def begin_some(self) -> None:
        for node in self._world.nodes:
            if not self.is_cut(node) and self._rolls(CHANCE):
                self._begin(node)
            if not node.full and self._rolls(FULL):
                node.full = True
                self._after(LENGTHS_S, partial(setattr, node, "full", False))
        if not self.disk_full and self._rolls(DISK_FULL):
            self.disk_full = True
            self.happens("the disk of the state", "is full")
            self._after(LENGTHS_S, self._make_room)
        leader = self._world.leader
        if leader is not None:
            self._hurt(leader)
            self._change_rules(leader)

    def _rolls(self, part: float) -> bool:
        return self.chance.random() < part

    def _after(self, waits_s: tuple[float, ...], action: Callable[[], None]) -> None:
        self._world.timeline.after(self.chance.choice(waits_s), action)

    def _hurt(self, leader: VirtualHead) -> None:
        """The controller that leads starts anew, stands still, or does not lead any longer."""
        world = self._world
        if self._rolls(RESTART):
            world.dies(leader, "it gets other settings")
            return
        if self._rolls(STALL):
            self._stall(leader)
        if self.local:
            return
        leader.connection.loses_answer = leader.connection.loses_answer or self._rolls(LOSE)
        if len(world.heads) == 1 and self._rolls(DEPOSE):
            self._depose(leader)

    def _stall(self, head: VirtualHead) -> None:
        self.happens(f"controller {head.number}", "stands still")
        head.time.asleep = True
        self._after(LENGTHS_S, head.time.wake)

    def _depose(self, head: VirtualHead) -> None:
        """Its database is out of reach, or has just ended the connection: another one may lead."""
        self.happens(f"controller {head.number}", "loses its database")
        if self._rolls(0.5):
            head.connection.cut = True
            self._after(LENGTHS_S, partial(setattr, head.connection, "cut", False))
        if self._rolls(0.3):
            self._stall(head)

        def drop() -> None:
            head.connection.drop()
            self._after(STARTS_S, self._world.boot)

        self._after(NOTICES_S, drop)

    def _change_rules(self, leader: VirtualHead) -> None:
        world = self._world
        if self._rolls(BOUND):
            self.happens("the site", "sets another bound for graces")
            rules = {"grace_max_s": self.chance.choice(GRACES_MAX_S)}
            world.ask(cmd.SetPolicy(actor=ROOT, rules=rules), lambda _: None)
        if self._rolls(UPDATE):
            jobs = [job.id for job in leader.host.cluster.jobs.values() if job.live_attempts]
            for job in jobs:
                changes = {"grace_s": self.chance.choice(GRACES_S)}
                world.ask(cmd.Update(actor=ROOT, job=job, changes=changes), lambda _: None)

    def are_over(self) -> bool:
        """Whether nothing breaks any more, some time after the last request."""
        if not self._world.script.done:
            return False
        now_s = self._world.timeline.now_s
        self._ends_s = self._ends_s or now_s + self.chance.choice(AFTER_S)
        return now_s >= self._ends_s or self._world.quiet()

    def _begin(self, node: VirtualNode) -> None:
        world, name = self._world, node.spec.name
        cut = self._now[name] = NetworkCut(self.chance)
        length_s = self.chance.choice(SLEEPS_S if cut.sleeps else LENGTHS_S)
        what = "sleeps" if cut.sleeps else "is cut off"
        self.happens(name, what)
        if cut.sleeps:
            node.timeline.asleep = True
            world.judge.asleep.add(name)
        world.timeline.after(length_s, lambda: self.heal(node))

    def _make_room(self) -> None:
        self.disk_full = False

    def _awake(self, node: VirtualNode, wakes: int) -> None:
        """It has been up since it woke up for that time."""
        if not node.timeline.asleep and node.timeline.wakes == wakes:
            self._world.judge.woke(node.spec.name)

    def heal_all(self) -> None:
        self.disk_full = False
        for head in self._world.heads:
            head.connection.cut = head.connection.loses_answer = False
            head.time.wake()
        for node in self._world.nodes:
            node.full = False
            self.heal(node)

    def heal(self, node: VirtualNode) -> None:
        """What was held back arrives; a connection that one side has given up is gone."""
        cut = self._now.pop(node.spec.name, None)
        if cut is None:
            return
        world = self._world
        self.happens(node.spec.name, "is no longer cut off")
        if cut.sleeps:
            node.timeline.wake()
            world.timeline.after(AWAKE_S, partial(self._awake, node, node.timeline.wakes))
        for link, frame, to_agent in cut.held:
            world.arrives(link, frame, to_agent)
        if cut.late and node.link in world.links:
            return
        if node.link in world.links:
            world.cut(node.link)
        else:
            node.disconnected()
            if node.agent is not None:
                world.dial(node)
