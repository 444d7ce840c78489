"""The controller without its I/O: messages in, one tick, a batch to commit and orders out.

The live host (``loop.py``) and the worlds of the tests drive this same class. A tick changes the
state in memory and returns what must be committed; nothing of it may be seen outside before the
commit has succeeded. When a commit fails the state is rebuilt from the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rota.controller.agents.admission import admit
from rota.controller.agents.liveness import Liveness, beat_s_of, let_go
from rota.controller.agents.observe import observe
from rota.controller.agents.registering import confirm_lease, register, resize
from rota.controller.agents.sessions import Session, Sessions
from rota.controller.commands import commands as cmd
from rota.controller.commands import site
from rota.controller.commands.change import change_selected, update
from rota.controller.commands.submit import submit
from rota.controller.orders import News, Orders
from rota.controller.tick.batches import batch_of
from rota.controller.tick.broken import hold_broken, never_began
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
    DeviceUse,
    Farewell,
    Hello,
    Observed,
    Resized,
    SessionRefused,
    Welcome,
)
from rota.scheduling.guarded import Guard, no_guard
from rota.store.api import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rota.core.cluster import Cluster
    from rota.core.facts.array import Array
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


class BrokenJob(msgspec.Struct, frozen=True):
    """A job on which a pass or a timer failed: it is held, with a note that says why."""

    job: int
    note: str


Item = FromLink | Asked | BrokenJob


class Tick(msgspec.Struct):
    """The result of a tick: what to commit first, and what to do after that."""

    batch: Batch
    answers: list[tuple[int, Any]]
    to_agents: list[tuple[int, ControllerMessage]]
    #: Links to close once their messages are sent.
    hang_up: list[int]
    #: What is told to agents after the commit.
    news: News
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
        sessions: Sessions | None = None,
        origin: tuple[int, int, float] = (0, 0, 0.0),
        open_sealed: Callable[[bytes], bytes] = bytes,
    ) -> None:
        """``load`` brings rules of others; ``clock`` and ``guard`` hold them to their time.

        ``steady`` is a clock for leases where that of the ticks may jump. ``moved_s``: by how much
        the wall clock was set since the last tick on record. ``sessions`` are those of a
        controller that this one takes the place of; ``origin`` is the newest event when the
        process started, a number for that start, and how often agents tell what they measure.
        """
        self.cluster = cluster
        self.liveness = Liveness(cluster, lease_s)
        self._steady = steady
        self.next_seq = next_seq
        self.sessions = Sessions() if sessions is None else sessions
        self.sessions.silent_s = self.liveness.silent_s
        #: What it has learned about run times; a host may tell it of earlier jobs.
        self.forecast = Forecast()
        self._restarted, self._moved_s, self._origin = True, moved_s, origin
        self._look_due_s: float | None = None
        self._new_uid, self._new_session = new_uid, new_session
        self._read_array = read_array
        self._orders = Orders(cluster, self.sessions, read_blob, variables, open_sealed)
        self._passes = Passes(cluster, load, clock, guard, anew=next_seq > 1)

    def tick(self, now_s: float, inbox: Iterable[Item]) -> Tick:
        """One turn with everything at hand: decide, and say what agents are told after it."""
        tick = self.decide(now_s, inbox)
        while missing := self.order(tick):
            tick.news.blobs |= dict.fromkeys(missing, b"")
        return tick

    def decide(self, now_s: float, inbox: Iterable[Item], *, calm: bool = False) -> Tick:
        """Drain, timers, schedule, and hand back what must be committed.

        ``calm``: the inbox alone. No timer rings, nothing is scheduled.
        """
        scribe = Scribe(self.cluster, now_s, self.next_seq)
        tick = Tick(Batch(), [], [], [], News())
        self.sessions.begin()
        self.cluster.ids.ended.begin()
        self.liveness.begin(self._steady() if self._steady is not None else now_s)
        if self._restarted:
            self._forget_connections(scribe)
        for item in inbox:
            if isinstance(item, Asked):
                tick.answers.append((item.ticket, self._answer(scribe, item.command)))
                if isinstance(item.command, cmd.RemoveNode):
                    self._cut_off(scribe, tick, item.command.node)
            elif isinstance(item, BrokenJob):
                hold_broken(scribe, item.job, item.note)
            else:
                self._hear(scribe, tick, item)
        scribe.actor = "rota"
        if self._orders.failed:
            self._end_unlaunched(scribe)
        for node in self.liveness.look(scribe, self.sessions.by_node):
            link = self.sessions.by_node[node].link
            self._hung_up(scribe, link, "its agent is silent")
            tick.hang_up.append(link)
        wait_s = self.liveness.wait_s()
        self._look_due_s = None if wait_s is None else now_s + wait_s
        if not calm:
            fire_due(scribe)
            tick.again = self._passes.run(scribe).more
        self.next_seq = scribe.next_seq
        self._orders.note(scribe, tick.news)
        tick.batch = batch_of(self.cluster, scribe.recorded)
        tick.news.blobs, tick.news.seq = dict(tick.batch.blobs), self.next_seq - 1
        self._learn(tick.batch)
        return tick

    def order(self, tick: Tick) -> set[str]:
        """After the commit: what agents are told. Gives blobs that have to be at hand first."""
        news = tick.news
        if not (news.fresh or news.gone or news.greeted):
            return set()
        missing = self._orders.make(news, tick.to_agents)
        tick.again = tick.again or bool(self._orders.failed)
        return missing

    def _end_unlaunched(self, scribe: Scribe) -> None:
        """Attempts that no agent could be told of have ended before they began."""
        failed, self._orders.failed = self._orders.failed, {}
        for uid, detail in failed.items():
            if uid in self.cluster.live.where:
                never_began(scribe, uid, detail)

    def beat(self, now_s: float, item: Item) -> tuple[int, BeatSeen] | None:
        """The answer to a beat, without a tick; None: it is none, or of no session."""
        if not (isinstance(item, FromLink) and isinstance(item.message, Beat)):
            return None
        session = self.sessions.by_link.get(item.link)
        if session is None or session.id != item.message.session:
            return None
        self.liveness.begin(self._steady() if self._steady is not None else now_s)
        self.liveness.hears(session.node)
        return item.link, BeatSeen(session.id, item.message.number)

    def _learn(self, batch: Batch) -> None:
        """How long those ran that ended in this tick."""
        ended = {r.event.job for r in batch.events if isinstance(r.event, ev.JobSettled)}
        for job in batch.jobs if ended else ():
            if job.id in ended:
                self.forecast.learn(job)

    @property
    def last_pass(self) -> tuple[float, int]:
        """How long it took (0: there is no clock for it), and how many jobs it let past others."""
        return self._passes.took_s, self._passes.ahead

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
            if node.state is NodeState.UP and node.name not in self.sessions.by_node:
                scribe.emit(ev.NodeSilent(node=node.name, note="waiting for its agent"))

    def _answer(self, scribe: Scribe, command: cmd.Command) -> object:
        scribe.actor = command.actor.user
        try:
            return self._perform(scribe, command)
        except (Rejected, Unavailable) as error:
            return error

    def _perform(self, scribe: Scribe, command: cmd.Command) -> object:
        if isinstance(command, cmd.Submit):
            known = (self._new_uid, self._read_array, self.forecast, self.scheduler)
            return submit(scribe, command, *known)
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
            if session.misses(message):
                self._hung_up(scribe, session.link, "a report of its agent got lost")
                tick.hang_up.append(session.link)
                return
            confirm_lease(scribe, session)
            tick.to_agents.append((session.link, BeatSeen(session.id, message.number)))
        elif isinstance(message, DeviceUse) and message.session == session.id:
            scribe.emit(ev.DevicesSeen(node=session.node, foreign=message.foreign))
        elif isinstance(message, Resized) and message.session == session.id:
            resize(scribe, session, message.node)
        elif isinstance(message, Farewell) and message.session == session.id:
            self._farewell(scribe, tick, session, message)

    def _farewell(self, scribe: Scribe, tick: Tick, session: Session, message: Farewell) -> None:
        if let_go(scribe, session.node, message):
            self.sessions.close(session.link)
            tick.hang_up.append(session.link)

    def _hung_up(self, scribe: Scribe, link: int, note: str) -> None:
        session = self.sessions.close(link)
        if session is not None:
            scribe.emit(ev.NodeSilent(node=session.node, note=note))

    def _cut_off(self, scribe: Scribe, tick: Tick, name: str) -> None:
        """The agent of a node that was removed hears why, and nothing more."""
        node, session = self.cluster.nodes.get(name), self.sessions.by_node.get(name)
        if session is None or (node is not None and not node.leaving):
            return
        tick.to_agents.append(
            (session.link, SessionRefused(f"node {name} was removed by an operator"))
        )
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
            tick.to_agents.append((link, SessionRefused(error.detail)))
            tick.hang_up.append(link)
            return
        if replaced is not None:
            self.sessions.close(replaced.link)
            tick.hang_up.append(replaced.link)
        session = Session(link, self._new_session(), hello, local=hello.local and not item.shown)
        self.sessions.open(session)
        unleased = session.local or hello.engine
        lease_s = session.lease_s = 0.0 if unleased else self.liveness.lease_s
        self.liveness.hears(session.node)
        register(scribe, hello, lease_s)
        if self.cluster.nodes[session.node].foreign != hello.foreign:
            scribe.emit(ev.DevicesSeen(node=session.node, foreign=hello.foreign))
        cluster_id = self.cluster.ids.cluster_id
        beat_s = beat_s_of(lease_s)
        words = (session.id, cluster_id, lease_s, beat_s, PROTOCOL, *self._origin)
        welcome = Welcome(*words, answers=hello.greeting)
        tick.to_agents.append((link, welcome))
        tick.news.greeted.append(session)

    def _observed(self, scribe: Scribe, tick: Tick, session: Session, message: Observed) -> None:
        if not self.sessions.accepts(session, message):
            self._hung_up(scribe, session.link, "its agent skipped a message")
            tick.hang_up.append(session.link)
            return
        strangers = [
            seen.uid for seen in message.attempts if not observe(scribe, session.node, seen)
        ]
        if strangers:
            tick.news.gone.setdefault(session.node, []).extend(strangers)
