"""One world: the real controller, the real agents, and everything around them pretended.

Clock, disk, network and processes are virtual and driven by one seed, so a failing world is a
number: ``python -m rota.worlds 1234`` plays it again, step by step.
"""

from __future__ import annotations

import hashlib
from random import Random
from typing import TYPE_CHECKING

from rota.controller.engine import Asked, Controller, FromLink
from rota.controller.recover import recover
from rota.core.changes.compare import differences, fold
from rota.core.changes.invariants import check
from rota.core.facts.errors import RotaError, Unavailable
from rota.rpc.messages import AgentMessage, decode_from_agent, encode
from rota.store.memory import DiskFault, MemoryDisk, MemoryStore, ProcessDied
from rota.worlds.clock import WorldTimeline
from rota.worlds.judge import BrokenPromise, Judge
from rota.worlds.script import Script
from rota.worlds.site import Site
from rota.worlds.virtual_node import VirtualNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.controller.commands.commands import Command
    from rota.controller.engine import Tick
    from rota.core.cluster import Cluster

#: A world that is not quiet by then has lost something.
LIMIT_S = 4000.0
STEPS_MAX = 200_000


class Faults:
    """How rough the world is. Each is a chance per commit, message or look."""

    def __init__(self, chance: Random) -> None:
        rough = chance.choice((0.0, 0.3, 1.0))
        self.crash = 0.02 * rough
        self.full_disk = 0.01 * rough
        self.drop_link = 0.01 * rough
        self.repeat = 0.02 * rough
        self.late = 0.02 * rough
        self.agent_dies = 0.02 * rough
        self.reboot = 0.004 * rough
        self.clock_jump = 0.01 * rough

    def cease(self) -> None:
        self.__dict__.update(dict.fromkeys(self.__dict__, 0.0))


class World:
    """Plays a seed to its end; ``play`` returns the hash of all that was recorded."""

    def __init__(
        self,
        seed: int,
        tell: Callable[[str], None] | None = None,
        *,
        plain: bool = False,
        script: Callable[[World], Script] = Script,
        crash: tuple[int, DiskFault] | None = None,
        site: Callable[[World, bool], Site] = Site,
    ) -> None:
        """``plain``: nobody changes the rules. ``crash``: this commit, and only it, fails so.

        ``script`` and ``site`` are what people do and what those do who run the place.
        """
        self.seed = seed
        self.chance = Random(seed)
        self.timeline = WorldTimeline()
        self.faults = Faults(self.chance)
        self.disk = MemoryDisk(f"world-{seed}", faulty=True)
        self.store = MemoryStore(self.disk)
        self.judge = Judge(self.store)
        self.tell = tell or (lambda _: None)
        self.controller: Controller | None = None
        self.inbox: list[FromLink | Asked] = []
        self.links: dict[int, VirtualNode] = {}
        self.old_frames: list[bytes] = []
        self.skew_s = 0.0
        self.tickets: dict[int, Callable[[object], None]] = {}
        self._ticking = False
        self._numbers = 0
        self._digest = hashlib.sha256()
        #: The hash of the log, once it was played.
        self.digest = ""
        self.crash = crash
        self.commits = 0
        self.site = site(self, plain)
        self.script = script(self)
        self.nodes = [
            VirtualNode(spec, seed, self.timeline, self.judge, self._from_node)
            for spec in self.script.node_specs()
        ]

    def play(self) -> str:
        self.boot()
        for node in self.nodes:
            self._agent_up(node)
        self.script.begin()
        self._fault_watch()
        start_s = self.timeline.now_s
        for _ in range(STEPS_MAX):
            if not self.timeline.step():
                break
            if self.script.done and self.quiet():
                break
            if self.timeline.now_s - start_s > LIMIT_S:
                break
        self._end()
        self.digest = self._digest.hexdigest()
        return self.digest

    def _end(self) -> None:
        if not self.quiet():
            raise BrokenPromise(f"A: not quiet after {self.timeline.now_s:.0f} s of virtual time")
        self.judge.store = self.store
        self.judge.final()
        self._compare_rows_and_log()
        for record in self.store.all_events():
            self._digest.update(encode(record))

    @property
    def cluster(self) -> Cluster | None:
        """What the controller that leads believes; None: nobody leads."""
        return None if self.controller is None else self.controller.cluster

    def quiet(self) -> bool:
        cluster = self.cluster
        return (
            cluster is not None
            and not self.inbox
            and not cluster.jobs
            and not any(array.waiting for array in cluster.arrays.values())
            and not (self.judge.alive or self.judge.overdue)
        )

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def boot(self) -> None:
        """The controller starts, for the first time or again, from what is on disk."""
        self.store = MemoryStore(self.disk)
        self.judge.store = self.store
        snapshot = self.store.load()
        self.controller = Controller(
            recover(snapshot),
            snapshot.next_seq,
            new_uid=lambda: f"u{self.number()}",
            new_session=self.number,
            read_blob=self.store.blob,
            read_array=self.store.array,
            steady=lambda: self.timeline.now_s,
        )
        check(self.controller.cluster)
        self._compare_rows_and_log()
        self.judge.read(self.store.all_events())
        self.tell(f"{self.timeline.now_s:.3f} controller starts")
        self.wake()

    def _compare_rows_and_log(self) -> None:
        """The rows and the log are two records of one truth."""
        loaded, folded = recover(self.store.load()), fold(self.store.all_events())
        folded.ids.cluster_id = loaded.ids.cluster_id
        wrong = differences(loaded, folded)
        if wrong:
            raise BrokenPromise(f"A: the rows and the log differ: {wrong[0]}")

    def die(self, why: str) -> None:
        """The controller is gone, with every answer that it had not given."""
        self.tell(f"{self.timeline.now_s:.3f} controller dies: {why}")
        self.controller = None
        self.judge.store = MemoryStore(self.disk)
        self.inbox.clear()
        tickets, self.tickets = self.tickets, {}
        for answer in tickets.values():
            answer(Unavailable("connection lost"))
        for link in list(self.links):
            self.cut(link)
        self.timeline.after(self.chance.uniform(0.01, 3.0), self.boot)

    def ask(self, command: Command, answer: Callable[[object], None]) -> None:
        """A caller's request; the answer may be that the connection was lost."""
        if self.controller is None:
            self.timeline.after(0.05, lambda: answer(Unavailable("connection refused")))
            return
        ticket = self.number()
        self.tickets[ticket] = answer
        self.inbox.append(Asked(ticket, command))
        self.wake()

    def wake(self) -> None:
        if not self._ticking:
            self._ticking = True
            self.timeline.after(0.001, self._tick)

    def now_s(self) -> float:
        """The controller's clock: virtual time plus the jumps of its wall clock."""
        return self.timeline.now_s + self.skew_s

    def _tick(self) -> None:
        self._ticking = False
        if self.controller is None:
            return
        items, self.inbox = self.inbox, []
        tick = self.controller.tick(self.now_s(), items)
        check(self.controller.cluster)
        self._plan_fault()
        try:
            if tick.batch.events:
                self.commits += 1
                self.store.commit(tick.batch)
        except ProcessDied as death:
            self.die(str(death))
            return
        except RotaError as error:
            self._start_over(tick, error)
            return
        self._act(tick)

    def _plan_fault(self) -> None:
        if self.crash is not None:
            if self.crash[0] == self.commits + 1:
                self.disk.fault = self.crash[1]
            return
        roll = self.chance.random()
        if roll < self.faults.crash:
            self.disk.fault = self.chance.choice(
                (DiskFault.CRASH_BEFORE, DiskFault.CRASH_TORN, DiskFault.CRASH_AFTER)
            )
            self.disk.torn_share = self.chance.random()
        elif roll < self.faults.crash + self.faults.full_disk:
            self.disk.fault = DiskFault.FULL

    def _start_over(self, tick: Tick, error: RotaError) -> None:
        """Refuse everybody, rebuild, let agents dial again, as a host does that starts anew."""
        self.tell(f"{self.timeline.now_s:.3f} commit refused: {error}")
        self.disk.fault = None
        for ticket, _ in tick.answers:
            self.tickets.pop(ticket)(error)
        self.inbox.clear()
        for waiting in list(self.tickets):
            self.tickets.pop(waiting)(error)
        for link in list(self.links):
            self.cut(link)
        self.boot()

    def _act(self, tick: Tick) -> None:
        self.judge.read(tick.batch.events)
        for record in tick.batch.events:
            self.tell(f"{self.timeline.now_s:.3f} {record.actor}: {record.event}")
        for ticket, answer in tick.answers:
            self.tickets.pop(ticket)(answer)
        for link, message in tick.to_agents:
            self._carry(link, encode(message), to_agent=True)
        for link in tick.hang_up:
            self.cut(link)
        assert self.controller is not None
        due_s = self.controller.next_due_s()
        if tick.again:
            self.wake()
        elif due_s is not None:
            self.timeline.after(max(0.001, due_s - self.now_s()), self.wake)

    def _agent_up(self, node: VirtualNode) -> None:
        if node.agent is None:
            self.tell(f"{self.timeline.now_s:.3f} agent of {node.spec.name} starts")
            node.start_agent()
            self.dial(node)

    def dial(self, node: VirtualNode) -> None:
        life = node.life

        def try_it() -> None:
            if node.agent is None or node.life != life or node.link:
                return
            if not self._connect(node):
                self.dial(node)

        self.timeline.after(self.chance.uniform(0.01, 0.5), try_it)

    def _connect(self, node: VirtualNode) -> bool:
        """Whether there was anybody to connect to."""
        if self.controller is None:
            return False
        link = self.number()
        self.links[link] = node
        node.connected(link)
        return True

    def _from_node(self, node: VirtualNode, message: AgentMessage) -> None:
        if node.link:
            self._carry(node.link, encode(message), to_agent=False)

    def _carry(self, link: int, frame: bytes, *, to_agent: bool) -> None:
        """A frame over a link: in order, or not at all. Repeats and stragglers are extra.

        A straggler may come on the connection of another node: no TCP does so, but something that
        stands in between and mixes connections up does, and nothing may start twice by it.
        """
        chance, faults = self.chance, self.faults
        if chance.random() < faults.drop_link:
            self.cut(link)
            return
        self.timeline.after(0.002, lambda: self._deliver(link, frame, to_agent))
        if chance.random() < faults.repeat:
            self.timeline.after(0.002, lambda: self._deliver(link, frame, to_agent))
        if to_agent and chance.random() < faults.late:
            self.old_frames.append(frame)

    def _deliver(self, link: int, frame: bytes, to_agent: bool) -> None:
        node = self.links.get(link)
        if node is None:
            return
        if to_agent:
            node.hears(frame)
            if not node.link:
                self.cut(link)
        elif self.controller is not None:
            self.inbox.append(FromLink(link, decode_from_agent(frame)))
            self.wake()

    def cut(self, link: int) -> None:
        node = self.links.pop(link, None)
        if node is None:
            return
        if node.link in (link, 0):
            node.disconnected()
            if node.agent is not None:
                self.dial(node)
        if self.controller is not None:
            self.inbox.append(FromLink(link, None))
            self.wake()

    def _fault_watch(self) -> None:
        """Every so often something breaks, until the story is told."""
        if self._is_over():
            self.faults.cease()
            for node in self.nodes:
                self._agent_up(node)
            return
        for node in self.nodes:
            self._hurt(node)
        if self.chance.random() < self.faults.clock_jump:
            self.skew_s += self.chance.choice((-30.0, 45.0))
        if self.old_frames and self.links and self.chance.random() < 0.5:
            link = self.chance.choice(sorted(self.links))
            self._deliver(link, self.old_frames.pop(0), to_agent=True)
        self.timeline.after(0.25, self._fault_watch)

    def _is_over(self) -> bool:
        """Whether nothing breaks any more."""
        return self.script.done

    def _hurt(self, node: VirtualNode) -> None:
        roll = self.chance.random()
        if node.agent is None or roll >= self.faults.agent_dies + self.faults.reboot:
            return
        if node.timeline.asleep:
            return
        link = node.link
        if roll < self.faults.reboot:
            self.tell(f"{self.timeline.now_s:.3f} node {node.spec.name} reboots")
            node.reboot()
        else:
            self.tell(f"{self.timeline.now_s:.3f} agent of {node.spec.name} dies")
            node.kill_agent()
        self.cut(link)
        self.timeline.after(self.chance.uniform(0.05, 4.0), lambda: self._agent_up(node))
