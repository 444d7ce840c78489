"""The controller without its I/O: messages in, one tick, a batch to commit and orders out.

The live host (``loop.py``) and the worlds of the tests drive this same class. A tick changes the
state in memory and returns what must be committed; nothing of it may be seen outside before the
commit has succeeded. When a commit fails the state is rebuilt from the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rota.controller.agents.admission import admit
from rota.controller.agents.liveness import Liveness, beat_s_of
from rota.controller.agents.observe import observe
from rota.controller.agents.registering import confirm_lease, register
from rota.controller.agents.sessions import Session, Sessions
from rota.controller.commands import commands as cmd
from rota.controller.commands import site
from rota.controller.commands.change import change_selected, update
from rota.controller.commands.submit import submit
from rota.controller.launches.launch import is_withheld, wanted
from rota.controller.launches.world import World, world_of
from rota.controller.tick.batches import batch_of
from rota.controller.tick.forecast import Forecast
from rota.controller.tick.plan_events import Passes
from rota.controller.tick.scribe import Scribe
from rota.controller.tick.timers import fire_due
from rota.core.changes import events as ev
from rota.core.facts.errors import Rejected, Unavailable
from rota.core.facts.states import NodeState
from rota.rpc.messages import (
    PROTOCOL,
    AgentMessage,
    Beat,
    BeatSeen,
    ControllerMessage,
    Desired,
    DeviceUse,
    Hello,
    Observed,
    Refused,
    Wanted,
    Welcome,
)
from rota.scheduling.guarded import Guard, no_guard
from rota.store.api import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rota.core.cluster import Cluster
    from rota.core.facts.job import Array, Attempt
    from rota.core.facts.policy import Policy
    from rota.scheduling.registry import Catalog
    from rota.scheduling.scheduler import Scheduler


class FromLink(msgspec.Struct, frozen=True):
    """A message of an agent, or (None) the end of its connection."""

    link: int
    message: AgentMessage | None
    #: The id of the token that the connection showed; empty: it came by the local socket.
    shown: str = ""


class Asked(msgspec.Struct, frozen=True):
    """A command of a caller; ``ticket`` finds the way back."""

    ticket: int
    command: cmd.Command


class Tick(msgspec.Struct):
    """The result of a tick: what to commit first, and what to do after that."""

    batch: Batch
    answers: list[tuple[int, Any]]
    to_agents: list[tuple[int, ControllerMessage]]
    #: Links to close once their messages are sent.
    hang_up: list[int]
    #: There is more to do right away.
    again: bool = False


class Controller:
    """Owns a Cluster and the sessions of its agents."""

    def __init__(
        self,
        cluster: Cluster,
        next_seq: int,
        *,
        new_uid: Callable[[], str],
        new_session: Callable[[], int],
        read_blob: Callable[[str], bytes | None],
        read_array: Callable[[int], Array | None],
        variables: Mapping[str, str] | None = None,
        load: Callable[[Policy], Catalog] | None = None,
        clock: Callable[[], float] | None = None,
        guard: Guard = no_guard,
        lease_s: float = 0.0,
        steady: Callable[[], float] | None = None,
        moved_s: float = 0.0,
    ) -> None:
        """``load`` brings rules of others; ``clock`` and ``guard`` hold them to their time.

        ``steady`` is a clock for leases where that of the ticks may jump. ``moved_s``: by how much
        the wall clock was set since the last tick on record.
        """
        self.cluster = cluster
        self.liveness = Liveness(cluster, lease_s)
        self._steady = steady
        self.next_seq = next_seq
        self.sessions = Sessions()
        #: What it has learned about run times; a host may tell it of earlier jobs.
        self.forecast = Forecast()
        self._restarted, self._moved_s = True, moved_s
        self._look_due_s: float | None = None
        self._greeted: list[Session] = []
        self._new_uid = new_uid
        self._new_session = new_session
        self._read_blob, self._read_array = read_blob, read_array
        self._passes = Passes(cluster, load, clock, guard, anew=next_seq > 1)
        #: Placed attempts that wait for others to leave, and their nodes: no agent knows of them.
        self._withheld = {
            uid: node.name
            for node in cluster.nodes.values()
            for uid in node.withheld
            if is_withheld(cluster, uid)
        }
        #: The worlds of gangs, made once for all their tasks that are told of in one tick.
        self._worlds: dict[int, World] = {}
        #: What every job finds in its environment, such as where Rota is.
        self._variables = dict(variables or {})

    def tick(self, now_s: float, inbox: Iterable[FromLink | Asked]) -> Tick:
        """One turn: drain, timers, schedule, and hand back what must be committed."""
        scribe = Scribe(self.cluster, now_s, self.next_seq)
        tick = Tick(Batch(), [], [], [])
        self.liveness.begin(self._steady() if self._steady is not None else now_s)
        if self._restarted:
            self._forget_connections(scribe)
        for item in inbox:
            if isinstance(item, Asked):
                tick.answers.append((item.ticket, self._answer(scribe, item.command)))
                if isinstance(item.command, cmd.RemoveNode):
                    self._cut_off(scribe, tick, item.command.node)
            else:
                self._hear(scribe, tick, item)
        scribe.actor = "rota"
        for node in self.liveness.look(scribe, self.sessions.by_node):
            link = self.sessions.by_node[node].link
            self._hung_up(scribe, link, "its agent is silent")
            tick.hang_up.append(link)
        wait_s = self.liveness.wait_s()
        self._look_due_s = None if wait_s is None else now_s + wait_s
        fire_due(scribe)
        tick.again = self._passes.run(scribe).more
        self.next_seq = scribe.next_seq
        self._order(scribe, tick)
        tick.batch = batch_of(self.cluster, scribe.recorded)
        self._learn(tick.batch)
        return tick

    def _learn(self, batch: Batch) -> None:
        """How long those ran that ended in this tick."""
        ended = {r.event.job for r in batch.events if isinstance(r.event, ev.JobSettled)}
        for job in batch.jobs if ended else ():
            if job.id in ended:
                self.forecast.learn(job)

    @property
    def scheduler(self) -> Scheduler:
        """What the passes know, to read."""
        return self._passes.scheduler

    def next_due_s(self) -> float | None:
        """When a timer wants the next tick, if nothing else happens before."""
        timers = self.cluster.agenda.timers
        due = [timers[0].at_s] if timers else []
        if self._look_due_s is not None:
            due.append(self._look_due_s)
        return min(due, default=None)

    def _forget_connections(self, scribe: Scribe) -> None:
        """After a restart no node is up before its agent has said hello again."""
        self._restarted = False
        if self._moved_s:
            scribe.emit(ev.ClockMoved(shift_s=self._moved_s))
        for node in list(self.cluster.nodes.values()):
            if node.state is NodeState.UP:
                scribe.emit(ev.NodeSilent(node=node.name, note="waiting for its agent"))

    def _answer(self, scribe: Scribe, command: cmd.Command) -> object:
        scribe.actor = command.actor.user
        try:
            return self._perform(scribe, command)
        except (Rejected, Unavailable) as error:
            return error

    def _perform(self, scribe: Scribe, command: cmd.Command) -> object:
        if isinstance(command, cmd.Submit):
            return submit(scribe, command, self._new_uid, self._read_array, self.forecast)
        if isinstance(command, cmd.Select):
            return change_selected(scribe, command)
        if isinstance(command, cmd.Update):
            return update(scribe, command, self._read_array)
        return site.perform(scribe, command)

    def _hear(self, scribe: Scribe, tick: Tick, item: FromLink) -> None:
        scribe.actor = "agent"
        message, session = item.message, self.sessions.by_link.get(item.link)
        if message is None:
            self._hung_up(scribe, item.link, "its agent is not connected")
        elif isinstance(message, Hello) and session is None:
            self._hello(scribe, tick, item, message)
        elif session is None or isinstance(message, Hello):
            # A second hello would leave the node of the first one without a connection.
            self._hung_up(scribe, item.link, "its agent said hello twice")
            tick.hang_up.append(item.link)
        else:
            self.liveness.hears(session.node)
            self._take(scribe, tick, session, message)

    def _take(self, scribe: Scribe, tick: Tick, session: Session, message: AgentMessage) -> None:
        if isinstance(message, Observed):
            self._observed(scribe, tick, session, message)
        elif isinstance(message, Beat) and message.session == session.id:
            confirm_lease(scribe, session)
            tick.to_agents.append((session.link, BeatSeen(session.id, message.number)))
        elif isinstance(message, DeviceUse) and message.session == session.id:
            scribe.emit(ev.DevicesSeen(node=session.node, foreign=message.foreign))

    def _hung_up(self, scribe: Scribe, link: int, note: str) -> None:
        session = self.sessions.close(link)
        if session is not None:
            scribe.emit(ev.NodeSilent(node=session.node, note=note))

    def _cut_off(self, scribe: Scribe, tick: Tick, name: str) -> None:
        """The agent of a node that was removed hears why, and nothing more."""
        node, session = self.cluster.nodes.get(name), self.sessions.by_node.get(name)
        if session is None or (node is not None and not node.leaving):
            return
        tick.to_agents.append((session.link, Refused(f"node {name} was removed by an operator")))
        tick.hang_up.append(session.link)
        if node is not None:
            self._hung_up(scribe, session.link, node.note)
        else:
            self.sessions.close(session.link)

    def _hello(self, scribe: Scribe, tick: Tick, item: FromLink, hello: Hello) -> None:
        link = item.link
        try:
            replaced = self.sessions.by_node.get(hello.node.name)
            admit(scribe, hello, item.shown, replaced, self.liveness)
        except Rejected as error:
            tick.to_agents.append((link, Refused(error.detail)))
            tick.hang_up.append(link)
            return
        if replaced is not None:
            self.sessions.close(replaced.link)
            tick.hang_up.append(replaced.link)
        session = Session(link, self._new_session(), hello, local=hello.local and not item.shown)
        self.sessions.open(session)
        lease_s = session.lease_s = 0.0 if session.local else self.liveness.lease_s
        self.liveness.hears(session.node)
        register(scribe, hello, lease_s)
        if self.cluster.nodes[session.node].foreign != hello.foreign:
            scribe.emit(ev.DevicesSeen(node=session.node, foreign=hello.foreign))
        cluster_id = self.cluster.ids.cluster_id
        welcome = Welcome(session.id, cluster_id, lease_s, beat_s_of(lease_s), PROTOCOL)
        tick.to_agents.append((link, welcome))
        self._greeted.append(session)

    def _full(self, session: Session) -> Desired:
        """Everything that should live on the node, as of now."""
        live = self.cluster.nodes[session.node].live
        # Who lends his CPUs stands still before anybody starts on them.
        lenders = [uid for uid in live if uid in self.cluster.live.loans]
        due = [uid for uid in dict.fromkeys([*lenders, *live]) if uid not in self._withheld]
        return session.desired([self._wanted(uid) for uid in due], full=True)

    def _let_in(self) -> list[str]:
        """Attempts that waited for others to leave, and those have gone."""
        nodes, live = self.cluster.nodes, self.cluster.live.where
        for uid in [uid for uid in self._withheld if uid not in live]:
            del self._withheld[uid]
        return [uid for uid, node in self._withheld.items() if uid not in nodes[node].withheld]

    def _wanted(self, uid: str) -> Wanted:
        cluster = self.cluster
        job_id, task = cluster.live.where[uid]
        job = cluster.jobs[job_id]
        world = None
        if job.spec.task_count > 1:
            world = self._worlds.get(job_id) or world_of(cluster, job)
            self._worlds[job_id] = world
        return wanted(cluster, job, task, self._blob, self._variables, world)

    def _blob(self, digest: str) -> bytes:
        """A blob of this very tick is not in the store yet."""
        if not digest:
            return b""
        body = self.cluster.dirty.blobs.get(digest)
        return body if body is not None else self._read_blob(digest) or b""

    def _observed(self, scribe: Scribe, tick: Tick, session: Session, message: Observed) -> None:
        if not session.accepts(message):
            self._hung_up(scribe, session.link, "its agent skipped a message")
            tick.hang_up.append(session.link)
            return
        strangers = [
            seen.uid for seen in message.attempts if not observe(scribe, session.node, seen)
        ]
        if strangers:
            tick.to_agents.append((session.link, session.desired([], strangers)))

    def _running_of(self, job_id: int) -> list[Attempt]:
        job = self.cluster.jobs.get(job_id)
        return job.live_attempts if job is not None else []

    def _changes(self, scribe: Scribe) -> tuple[dict[str, dict[str, None]], dict[str, list[str]]]:
        """By node: the attempts that are wanted in another way than before, and those gone."""
        fresh: dict[str, dict[str, None]] = {}
        gone: dict[str, list[str]] = {}
        for record in scribe.recorded:
            event = record.event
            if isinstance(event, ev.AttemptPlaced) and event.after:
                self._withheld[event.uid] = event.allocation.node
            elif isinstance(event, ev.AttemptPlaced):
                fresh.setdefault(event.allocation.node, {})[event.uid] = None
            elif isinstance(event, ev.AttemptStopAsked) and event.uid in self.cluster.live.where:
                allocation = self.cluster.jobs[event.job].tasks[event.task].attempts[-1].allocation
                fresh.setdefault(allocation.node, {})[event.uid] = None
            elif isinstance(event, ev.JobSuspended | ev.JobResumed | ev.SaveAsked):
                for attempt in self._running_of(event.job):
                    fresh.setdefault(attempt.allocation.node, {})[attempt.uid] = None
            elif isinstance(event, ev.AttemptEnded):
                gone.setdefault(_node_of(self.cluster, event), []).append(event.uid)
        for attempt in self._resized(scribe):
            fresh.setdefault(attempt.allocation.node, {})[attempt.uid] = None
        for uid in self._let_in():
            fresh.setdefault(self._withheld.pop(uid), {})[uid] = None
        return fresh, gone

    def _resized(self, scribe: Scribe) -> list[Attempt]:
        """The members of gangs that somebody joined or left: they are told of it."""
        elastic = self.cluster.census.elastic
        if not elastic:
            return []
        moved = (ev.AttemptPlaced, ev.AttemptStopAsked)
        events = [record.event for record in scribe.recorded]
        jobs = dict.fromkeys(event.job for event in events if isinstance(event, moved))
        return [a for job in jobs if job in elastic for a in self._running_of(job)]

    def _order(self, scribe: Scribe, tick: Tick) -> None:
        """Tell each connected agent what this tick changed in its set."""
        self._worlds.clear()
        fresh, gone = self._changes(scribe)
        greeted, self._greeted = self._greeted, []
        for session in greeted:
            if self.sessions.by_link.get(session.link) is session:
                tick.to_agents.append((session.link, self._full(session)))
        for node in dict.fromkeys([*fresh, *gone]):
            told = self.sessions.by_node.get(node)
            if told is None or told in greeted:
                continue
            live = [
                uid
                for uid in fresh.get(node, ())
                if uid in self.cluster.live.where and uid not in self._withheld
            ]
            message = told.desired([self._wanted(u) for u in live], gone.get(node))
            tick.to_agents.append((told.link, message))


def _node_of(cluster: Cluster, event: ev.AttemptEnded) -> str:
    job = cluster.jobs.get(event.job) or cluster.dirty.jobs[event.job]
    for attempt in reversed(job.tasks[event.task].attempts):
        if attempt.uid == event.uid:
            return attempt.allocation.node
    raise AssertionError(f"attempt {event.uid} ended and is not on record")
