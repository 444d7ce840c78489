"""Worlds that try leases hard: live hosts on virtual time, broken networks, disks and machines.

``python -m rota.worlds leases 0-1000`` plays them. In half of them the state is on the
controller's own disk, in the others on a server, where a controller that was cut off from it may
live on beside the one that leads. What breaks when is in ``cuts.py``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rota.core.facts.errors import Unavailable
from rota.store.errors import NotLeading
from rota.store.memory import DiskFault, ProcessDied
from rota.worlds.cuts import Cuts
from rota.worlds.database import Database
from rota.worlds.head import VirtualHead
from rota.worlds.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.controller.commands.commands import Command
    from rota.core.changes.events import Recorded
    from rota.core.cluster import Cluster
    from rota.worlds.virtual_node import VirtualNode


class LeaseWorld(World):
    """Agents have leases, and everything that these depend on breaks."""

    def __init__(self, seed: int, tell: Callable[[str], None] | None = None) -> None:
        super().__init__(seed, tell)
        self.cuts = Cuts(self)
        self.database = Database(self.disk, self._plan_fault, self._written, local=self.cuts.local)
        #: Controllers that live, the newest last.
        self.heads: list[VirtualHead] = []
        self._lines: dict[int, VirtualHead] = {}
        self._failure: BaseException | None = None
        for node in self.nodes:
            self.cuts.equip(node)
            node.hang_up = partial(self._hang_up, node)

    def play(self) -> str:
        try:
            return super().play()
        finally:
            for head in self.heads:
                head.end()

    def _written(self, records: Iterable[Recorded]) -> None:
        for record in records:
            if record.seq > self.judge.books.seq:
                self.tell(f"{self.timeline.now_s:.3f} {record.actor}: {record.event}")
            self.judge.read([record])

    def failed(self, error: BaseException) -> None:
        """Something broke where nobody could hear of it."""
        self._failure = self._failure or error
        self.timeline.after(0.0, self._stop)

    def _stop(self) -> None:
        assert self._failure is not None
        raise self._failure

    @property
    def leader(self) -> VirtualHead | None:
        return next((head for head in self.heads if head.leads), None)

    @property
    def cluster(self) -> Cluster | None:
        return None if (leader := self.leader) is None else leader.host.cluster

    def quiet(self) -> bool:
        leader = self.leader
        return leader is not None and not leader.busy and super().quiet()

    def boot(self) -> None:
        """A controller starts. It ends at once where another one leads."""
        if self.leader is not None:
            return
        try:
            head = VirtualHead(self, self.cuts.lease_s())
        except NotLeading:
            self.timeline.after(1.0, self.boot)
            return
        except ProcessDied:
            self.database.holder = None
            self.timeline.after(1.0, self.boot)
            return
        self.heads.append(head)
        # An end that is told late, by a clock that was set in between, is charged as it is told.
        self.judge.jumps += self.skew_s != 0.0
        self._compare_rows_and_log()
        self.cuts.happens(f"controller {head.number}", "starts")
        if len(self.heads) > 1:
            self.cuts.happens(f"controller {head.number}", "leads beside an old one")

    def dies(self, head: VirtualHead, why: object) -> None:
        """It is gone; another one starts soon if it led."""
        self.tell(f"{self.timeline.now_s:.3f} controller {head.number} dies: {why}")
        self.heads.remove(head)
        head.end()
        for link in [link for link, at in self._lines.items() if at is head]:
            self.cut(link)
        self.timeline.after(self.chance.uniform(0.01, 3.0), self.boot)

    def ask(self, command: Command, answer: Callable[[object], None]) -> None:
        if self.heads:
            self.heads[-1].ask(command, answer)
        else:
            self.timeline.after(0.05, lambda: answer(Unavailable("connection refused")))

    def _plan_fault(self) -> None:
        if self.cuts.disk_full:
            self.disk.fault = DiskFault.FULL
        elif self.disk.fault is DiskFault.FULL:
            self.disk.fault = None
        else:
            super()._plan_fault()

    def _connect(self, node: VirtualNode) -> bool:
        head = self.cuts.choose(self.heads)
        if head is None or self.cuts.is_cut(node):
            return False
        link = self.number()
        self.links[link], self._lines[link] = node, head
        head.open(link)
        node.connected(link)
        return True

    def carry(self, link: int, frame: bytes) -> None:
        """What a controller says to a node."""
        if link in self.links:
            self._carry(link, frame, to_agent=True)

    def _deliver(self, link: int, frame: bytes, to_agent: bool) -> None:
        node = self.links.get(link)
        if node is not None and not self.cuts.hold_back(node, link, frame, to_agent):
            self.arrives(link, frame, to_agent)

    def arrives(self, link: int, frame: bytes, to_agent: bool) -> None:
        node = self.links.get(link)
        if node is None:
            return
        if not to_agent:
            self._lines[link].hear(link, frame)
        elif node.link == link:
            node.hears(frame)
            if not node.link:
                self.cut(link)

    def cut(self, link: int) -> None:
        node, head = self.links.pop(link, None), self._lines.pop(link, None)
        if node is None or head is None:
            return
        if self.cuts.is_cut(node):
            return  # The other end hears nothing of it before the network is whole again.
        head.close(link)
        if node.link in (link, 0):
            self._disconnected(node)

    def _hang_up(self, node: VirtualNode) -> None:
        """Its agent gives a connection up."""
        self.cuts.happens(node.spec.name, "hangs up: nobody answers")
        link = node.link
        self.cut(link)
        if node.link == link:
            self._disconnected(node)

    def _disconnected(self, node: VirtualNode) -> None:
        node.disconnected()
        if node.agent is not None:
            self.dial(node)

    def _is_over(self) -> bool:
        if not self.cuts.are_over():
            self.cuts.begin_some()
            return False
        self.cuts.heal_all()
        for head in [head for head in self.heads if not head.leads]:
            self.dies(head, "there is another one")
        return True
