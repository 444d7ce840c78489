"""Which agents are still there, and when a silent node's work may be started elsewhere.

An agent beats, and holds a lease that counts from the moment at which it sent the last beat that
was answered. When the lease runs out its keeper ends the work of the node. So the controller may
give an attempt up once the lease, the grace that it was launched with and a margin have passed
since the last word that it heard: by then nothing of it is alive, whatever broke in between. Each
attempt has its own time; the node is lost when the last of them is over.

Time is measured on a clock that never jumps, and time alone decides nothing: a node must also
have missed several looks, each a beat after the other. A controller that stood still for a while
finds the beats of the meantime in its inbox before it judges anybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.controller.tick import lifecycle
from rota.core.changes import events as ev
from rota.core.facts.states import Cause
from rota.core.words.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Collection

    from rota.controller.tick.scribe import Scribe
    from rota.core.cluster import Cluster
    from rota.core.facts.job import Attempt
    from rota.core.facts.node import Node
    from rota.rpc.messages import Farewell

#: The beats that fit into a lease; a long lease has more, so that silence is noticed soon.
BEATS_PER_LEASE = 6
BEAT_S_MAX = 10.0
#: Nobody is silent who missed fewer looks than this.
MISSED_MIN = 3
#: Beyond lease and grace: clocks that run at other speeds, a KILL that takes its time.
MARGIN_PART, MARGIN_S_MIN = 0.1, 1.0
#: From this many on, and from more than half of all nodes, silence is a matter of the network.
VANISHED_MIN = 3
#: Of those that vanished together this part is given up per beat, and at least one node.
VANISHED_PART = 20


def beat_s_of(lease_s: float) -> float:
    """How often an agent with this lease beats."""
    return min(BEAT_S_MAX, lease_s / BEATS_PER_LEASE)


def trusted_s(node: Node, grace_s: float) -> float:
    """For how long after its node's last word an attempt with this grace may still be alive."""
    margin_s = max(MARGIN_S_MIN, MARGIN_PART * node.lease_s)
    return node.lease_s + grace_s + margin_s


def longest_s(cluster: Cluster, node: Node) -> float:
    """For how long after its last word anything of ours may be alive on a node."""
    return trusted_s(node, max((_grace_s(cluster, node, uid) for uid in node.live), default=0))


def _grace_s(cluster: Cluster, node: Node, uid: str) -> int:
    """No agent has heard of an attempt that waits for others to leave: it has nothing to end."""
    return 0 if uid in node.withheld else cluster.live.attempt(uid).grace_s


class Liveness:
    """Hears every word of the agents, and looks at the silent ones once per beat."""

    def __init__(self, cluster: Cluster, lease_s: float) -> None:
        """``lease_s`` is for agents that connect from now on; 0: they have none."""
        self.lease_s = lease_s
        self._cluster = cluster
        self._now_s = 0.0
        #: When the next look is due; None while there is nobody to look after.
        self._due_s: float | None = None
        #: When each node was last heard; one that never was counts from the first look.
        self._heard: dict[str, float] = {}
        self._missed: dict[str, int] = {}
        #: Nodes that fell silent together and are not back or given up yet, and out of how many.
        self._vanished: set[str] = set()
        self._of = 0

    def begin(self, now_s: float) -> None:
        """The time of this tick, on a clock that never jumps."""
        self._now_s = now_s

    def hears(self, node: str) -> None:
        self._heard[node] = self._now_s
        self._missed[node] = 0

    def silent_s(self, node: str) -> float:
        """How long ago its last word was."""
        return self._now_s - self._heard.get(node, self._now_s)

    def _watched(self) -> list[Node]:
        return [n for n in self._cluster.nodes.values() if n.lease_s and not n.lost]

    def wait_s(self) -> float | None:
        """How long until the next look is due; None when there is nobody to look after."""
        return None if self._due_s is None else max(0.0, self._due_s - self._now_s)

    def look(self, scribe: Scribe, connected: Collection[str]) -> list[str]:
        """Give up nodes whose time is over. Returns those whose connection is dead."""
        if self._due_s is not None and self._now_s < self._due_s:
            return []
        watched = self._watched()
        if not watched and not self._vanished:
            # Nobody has a lease: most ticks of a single box end here.
            self._due_s = None
            return []
        beats = [beat_s_of(node.lease_s) for node in watched]
        self._due_s = self._now_s + min(beats) if beats else None
        for node in watched:
            self._heard.setdefault(node.name, self._now_s)
            self._missed[node.name] = self._missed.get(node.name, 0) + 1
        silent = [n for n in watched if self._missed[n.name] >= MISSED_MIN]
        dead = [
            node.name
            for node in silent
            if node.name in connected
            and self.silent_s(node.name) >= MISSED_MIN * beat_s_of(node.lease_s)
        ]
        gone = [node for node in silent if node.name not in connected]
        # What an operator removed says nothing about the network.
        self._judge_together(scribe, [node for node in gone if not node.leaving], len(watched))
        for node, uids in self._due(gone):
            self._give_up(scribe, node, uids)
        return dead

    def _judge_together(self, scribe: Scribe, gone: list[Node], total: int) -> None:
        """Whether more than half of the nodes fell silent within one lease of each other."""
        newest_s = max((self._heard[node.name] for node in gone), default=0.0)
        at_once = {n.name for n in gone if self._heard[n.name] >= newest_s - n.lease_s}
        before = len(self._vanished)
        self._vanished &= {node.name for node in gone}
        others = total - (len(gone) - len(at_once))
        if len(at_once) >= VANISHED_MIN and 2 * len(at_once) > others:
            fresh = at_once - self._vanished
            self._vanished |= at_once
            if fresh:
                self._of = others
                names = tuple(sorted(self._vanished))
                scribe.emit(ev.NodesVanished(nodes=names, note=self.warning))
        if before > 1 and len(self._vanished) == 1:
            scribe.emit(ev.NodesVanished(nodes=tuple(self._vanished), note=self.warning))
        if before and not self._vanished:
            scribe.emit(ev.NodesVanished(nodes=(), note="the last of them is back or given up"))

    @property
    def warning(self) -> str:
        """What people must know about nodes that vanished together; empty: nothing."""
        if not self._vanished:
            return ""
        if len(self._vanished) == 1:
            return "the last of several nodes that fell silent together"
        return (
            f"{len(self._vanished)} of {self._of} nodes fell silent together; "
            f"at most {self._rate} at a time are given up"
        )

    @property
    def _rate(self) -> int:
        return max(1, self._of // VANISHED_PART)

    def _due(self, gone: list[Node]) -> list[tuple[Node, list[str]]]:
        """Nodes of which something is given up now, and what: the longest silent come first."""
        over = [(node, uids) for node in gone if (uids := self._over(node)) or self._empty(node)]
        over.sort(key=lambda due: (self._heard[due[0].name], due[0].name))
        alone = [due for due in over if due[0].name not in self._vanished]
        together = [due for due in over if due[0].name in self._vanished]
        return [*alone, *together[: self._rate]]

    def _over(self, node: Node) -> list[str]:
        """The attempts whose own time is over; those that were never launched come first."""
        silent_s = self.silent_s(node.name)
        if silent_s < trusted_s(node, 0):
            return []
        uids = [*node.withheld, *(uid for uid in node.live if uid not in node.withheld)]
        graces = {uid: _grace_s(self._cluster, node, uid) for uid in uids}
        return [uid for uid in uids if silent_s >= trusted_s(node, graces[uid])]

    def _empty(self, node: Node) -> bool:
        return not node.live and self.silent_s(node.name) >= trusted_s(node, 0)

    def _give_up(self, scribe: Scribe, node: Node, uids: list[str]) -> None:
        silent = format_duration(int(self.silent_s(node.name)))
        lease = format_duration(int(node.lease_s))
        note = f"silent for {silent}, longer than its lease of {lease}"
        over = all(uid in uids for uid in node.live)
        if over:
            self._missed.pop(node.name, None)
            scribe.emit(ev.NodeLost(node=node.name, note=f"lost: {note}"))
        end_lost(scribe, uids, f"node {node.name} was {note}")
        if over and node.leaving:
            scribe.emit(ev.NodeRemoved(node=node.name))


def let_go(scribe: Scribe, name: str, farewell: Farewell) -> bool:
    """A node says good-bye: whether it may go. What it was given meanwhile starts elsewhere."""
    node = scribe.cluster.nodes.get(name)
    if node is None:
        return True
    if farewell.soon and not node.drained:
        note = f"it goes: {farewell.note}"
        scribe.emit(ev.NodeDrained(node=name, drained=True, note=note, by="rota"))
    if farewell.soon or (farewell.idle and node.live):
        return False
    end_lost(scribe, [*node.live], f"node {name} has left: {farewell.note}")
    scribe.emit(ev.NodeRemoved(node=name))
    return True


def end_lost(scribe: Scribe, uids: list[str], detail: str) -> None:
    """These attempts on a silent node have ended; each job goes on by its own rule."""
    cluster = scribe.cluster
    ended: dict[int, list[Attempt]] = {}
    for uid in uids:
        if uid not in cluster.live.where:
            continue  # It ended with the rest of its gang.
        job_id, task = cluster.live.where[uid]
        attempt = cluster.live.attempt(uid)
        scribe.emit(
            ev.AttemptEnded(
                job=job_id,
                task=task,
                uid=uid,
                started_s=attempt.started_s,
                ended_s=max(scribe.now_s, attempt.started_s, attempt.placed_s),
                cause=attempt.stop_cause or Cause.NODE_LOST,
                detail=attempt.detail if attempt.stop_cause else detail,
            )
        )
        ended.setdefault(job_id, []).append(attempt)
    for job_id, attempts in ended.items():
        blamed = [a for a in attempts if a.cause is not Cause.SHRUNK] or attempts
        lifecycle.after_attempt_end(scribe, cluster.jobs[job_id], blamed[0])
