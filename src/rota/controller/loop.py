"""The live host: an inbox, the wall clock, one commit per tick, and who waits for what.

One task owns the state; everybody else puts a message in the inbox and awaits the answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rota.controller.agents.job_tokens import JobTokens
from rota.controller.agents.links import Links
from rota.controller.agents.sessions import Sessions
from rota.controller.agents.user_secrets import UserSecrets
from rota.controller.alarm import LoopAlarm
from rota.controller.audit import Audit
from rota.controller.blobs import Blobs, read_blobs
from rota.controller.clock import Clock
from rota.controller.engine import BrokenJob, Controller, FromLink, Item, Tick
from rota.controller.inbox import Inbox
from rota.controller.launches.vault import Vault
from rota.controller.meters import Meters
from rota.controller.names import Names
from rota.controller.outage import Outage, Rest, Trouble, longer, put_aside
from rota.controller.parents import Parents
from rota.controller.recover import Recovered, read_state
from rota.controller.tick import plugins
from rota.controller.watch import NewsWatch
from rota.core.changes.invariants import check
from rota.core.facts.errors import RotaError, Stumbled, Unavailable
from rota.store.errors import NotLeading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rota.controller.commands.commands import Command
    from rota.core.cluster import Cluster
    from rota.core.derived.ids import Ledger
    from rota.rpc.messages import AgentMessage, BeatSeen
    from rota.scheduling.scheduler import Scheduler
    from rota.store.api import Batch, Store
    from rota.store.writer import Commits

Answer = TypeVar("Answer")
log = logging.getLogger("rota.controller")
#: How long a reader waits for a commit, or for the state to be read back.
ON_DISK_S = 10.0
DEPOSED = "this controller does not lead any more, and answers no agent"
STUCK = "cannot go on yet"


class Host:
    """Runs a Controller in an asyncio loop over a store."""

    def __init__(
        self,
        store: Store,
        writer: Commits,
        *,
        inbox_size: int = 10_000,
        lease_s: float = 0.0,
        measure_s: float = 0.0,
        variables: Mapping[str, str] | None = None,
        checked: bool = False,
        job_key: bytes = b"",
        vault: Vault | None = None,
        clock: Clock | None = None,
        names: Names | None = None,
        ended: Ledger | None = None,
    ) -> None:
        self.store = store
        self.clock, self._names = clock or Clock(), names or Names()
        self.watch, self.links, self.meters = NewsWatch(), Links(self.put), Meters()
        #: With these jobs on other machines are known again.
        self.job_tokens = JobTokens(job_key)
        #: What is read by jobs alone, and what opens it.
        self.secrets = UserSecrets(vault or Vault())
        #: Who did what.
        self.audit = Audit(self.keep, self.clock.now_s)
        self.started_s = self.clock.now_s()
        self._lease_s, self._variables, self._writer = lease_s, variables, writer
        #: Hold every tick against the invariants before it is committed.
        self._checked = checked
        self.blobs, self._inbox = Blobs(self.clock.now_s), Inbox(inbox_size)
        self.parents = Parents(lambda: self.cluster.arrays, self.read)
        self._alarm = LoopAlarm(self.clock, self._inbox.wake.set)
        self._on_disk = asyncio.Event()
        self._on_disk.set()
        self._stopping, self._trouble = False, Trouble()
        #: Nothing can be written, or the state is being read back; and who sees to that.
        self._outage: Outage | None = None
        self._mending: asyncio.Task[None] | None = None
        #: Messages of a tick that broke, to be taken one by one.
        self._suspects: deque[Item] = deque()
        self._pause_s, self._rest = 0.0, Rest()
        state = read_state(store, ended)
        self.secrets.load(state.secrets)
        self._origin = (state.next_seq - 1, self._names.number(), measure_s)
        moved_s = self.clock.moved_s(store, state.next_seq)
        self._controller = self._controller_of(state, Sessions(), moved_s)

    @property
    def cluster(self) -> Cluster:
        """The live state, to read. It may be one commit ahead of the disk."""
        return self._controller.cluster

    @property
    def scheduler(self) -> Scheduler:
        """What the passes over the live state know, to read."""
        return self._controller.scheduler

    @property
    def newest_seq(self) -> int:
        """The number of the newest event; it may be one commit ahead of the disk."""
        return self._controller.next_seq - 1

    @property
    def waiting(self) -> int:
        """How many messages wait for the next tick."""
        return len(self._inbox)

    @property
    def warning(self) -> str:
        """What people must know of nodes that are gone, or of the clock; empty: nothing."""
        return self._controller.liveness.warning or self.clock.warning

    @property
    def trouble(self) -> str:
        """Why nothing can be taken in just now; empty: it can."""
        return self._trouble.words(self._outage)

    @property
    def sessions(self) -> Sessions:
        """Which agents are connected."""
        return self._controller.sessions

    def _controller_of(self, state: Recovered, sessions: Sessions, moved_s: float) -> Controller:
        controller = Controller(
            state.cluster,
            state.next_seq,
            new_uid=self._names.uid,
            new_session=self._names.number,
            read_blob=self.blobs.get,
            read_array=self.parents.get,
            variables=self._variables,
            load=lambda policy: plugins.load_known(policy)[0],
            clock=plugins.clock,
            guard=plugins.time_limit,
            lease_s=self._lease_s,
            sessions=sessions,
            moved_s=moved_s,
            origin=self._origin,
            open_sealed=self.secrets.vault.open,
        )
        controller.forecast.remember(state.past)
        #: What was learned of run times; the number of the next event, as of the last commit.
        self.forecast, self._next_seq = controller.forecast, state.next_seq
        return controller

    async def ask(self, command: Command) -> Any:  # noqa: ANN401 - each has its own answer
        """Hand in a command and await its answer, which is on disk by then."""
        if self._stopping:
            raise Unavailable("rota is stopping; try again when it is up")
        await self.parents.prepare(command)
        return await self._inbox.ask(command)

    async def on_disk(self) -> None:
        """Wait until what ``cluster`` shows right now is committed."""
        if self._on_disk.is_set():
            return
        try:
            async with asyncio.timeout(ON_DISK_S):
                await self._on_disk.wait()
        except TimeoutError:
            why = self._outage.error if self._outage is not None else "a commit has not ended"
            raise Unavailable(f"the state cannot be read just now: {why}") from None

    def put(self, link: int, message: AgentMessage | None, shown: str) -> None:
        """What an agent said, or (None) that it is gone."""
        self._inbox.hear(FromLink(link, message, shown))

    async def run(self) -> None:
        """Tick until stopped. Always ticks once at the start, to settle what was due meanwhile."""
        self._inbox.wake.set()
        while not self._stopping or self._inbox:
            items = await self._inbox.drain()
            self.links.drained()
            await self._turn(items)
        self._alarm.cancel()
        if self._mending is not None:
            self._mending.cancel()

    def stop(self) -> None:
        self._stopping = True
        self._inbox.wake.set()

    async def _turn(self, items: list[Item]) -> None:
        self._on_disk.clear()
        self._trouble.since_s = time.monotonic()
        try:
            await self._take_turn(items)
        finally:
            self._trouble.since_s = None
            if self._outage is None or not self._outage.stale:
                self._on_disk.set()

    async def _take_turn(self, items: list[Item]) -> None:
        """Everything in one tick; after one that broke, first its messages one by one."""
        if self._outage is not None:
            if (waited := await self._wait_out(self._outage, items)) is None:
                return
            items = waited
        while self._suspects:
            await self._tick([self._suspects.popleft()], calm=True)
            if self._outage is not None:
                self._outage.held += items
                return
        await self._tick(items, calm=self._rest.is_on)

    async def _wait_out(self, outage: Outage, items: list[Item]) -> list[Item] | None:
        """What can be done without a commit. Gives what was held back once that is over."""
        # Where a try is quick, each caller is worth one.
        beats = outage.take(items, self._inbox.reply, self.links.hang_up, may_wait=self.store.local)
        if outage.over:
            self._outage = self._mending = None
            return [*outage.held, *beats]
        if self._mending is None and (outage.has_callers or not outage.wait_s):
            self._mending = asyncio.create_task(self._mend(outage))
        answers = [self._controller.beat(self.clock.now_s(), beat) for beat in beats]
        seen = [*filter(None, answers)]
        if seen and not outage.deposed:
            await self._answer_beats(seen)
        if self._mending is None:
            self._alarm.after(outage.wait_s)
        return None

    async def _answer_beats(self, seen: list[tuple[int, BeatSeen]]) -> None:
        try:
            await self._prove()
        except Exception as error:
            log.warning("no agent is answered: %s", error)
            return
        for link, message in seen:
            self.links.send(link, message)

    async def _prove(self) -> None:
        """Nobody else can have taken over: only then may an agent rely on what it is told."""
        if not self.store.local:
            await self._writer.run(self.store.prove)

    async def _mend(self, outage: Outage) -> None:
        """Lead again, read the state back, and see whether something can be written."""
        try:
            if outage.deposed:
                await self._writer.run(self.store.lead)
            if outage.stale:
                await self._read_back(outage)
            await self._writer.run(partial(self.store.set_bookmark, "outage", str(outage.error)))
            outage.over = True
            log.info("the state is as it is on disk, and can be written")
        except Exception as error:
            self._pause_s = longer(self._pause_s)
            if outage.postpone(error, self._pause_s):
                log.error("%s: %s", DEPOSED if isinstance(error, NotLeading) else STUCK, error)
            outage.refuse(self._inbox.reply)
        finally:
            self._mending = None
            self._inbox.wake.set()

    async def _read_back(self, outage: Outage) -> None:
        """Without holding up the loop. How jobs ended is kept: it may be ten millions of them."""
        sessions, ended = self.sessions, self.cluster.ids.ended
        state: Recovered | None = None
        if not outage.deposed:
            ended.rewind()
            state = await asyncio.to_thread(read_state, self.store, ended)
        if state is None or state.next_seq != self._next_seq:
            # It is not the state that agents were told of: they dial again, and hear all of it.
            state = await asyncio.to_thread(read_state, self.store)
            self.secrets.load(state.secrets)
            self.links.hang_up_all()
            sessions, outage.held = Sessions(), [*self._suspects, *outage.held]
            outage.refuse(self._inbox.reply)
            outage.held, self._suspects = [], deque()
            self.blobs.forget()
        moved_s = await asyncio.to_thread(self.clock.moved_s, self.store, state.next_seq)
        self._controller = self._controller_of(state, sessions, moved_s)
        outage.stale = outage.deposed = False
        self._on_disk.set()

    async def _tick(self, items: list[Item], *, calm: bool) -> None:
        ahead = False
        try:
            with self.meters.timed(self.meters.tick, "tick"):
                tick = self._controller.decide(self.clock.tick_s(), items, calm=calm)
            self.meters.passed(*self._controller.last_pass)
            if self._checked:
                check(self.cluster)
            ahead = True
            tick.batch.audit = self.audit.of_tick(items, tick.answers)
            await self._commit(tick)
        except Exception as error:
            self._trouble.broke_s = time.monotonic()
            self.sessions.rewind()
            if ahead and isinstance(error, RotaError):
                self._break_off(items, error)
            else:
                self._stumble(items, error, calm)
            self._inbox.wake.set()
            return
        if not calm:
            self._rest.over()
        await self._act(tick)
        if self._rest.is_on:
            self._alarm.after(self._rest.left_s)
        elif tick.again:
            self._inbox.wake.set()
        else:
            self._alarm.at(self._controller.next_due_s())

    async def _commit(self, tick: Tick) -> None:
        """Nothing is said to anybody before it is on disk, and nothing by one that was deposed."""
        if tick.batch.events or tick.batch.audit:
            with self.meters.timed(self.meters.commit, "commit"):
                await self._writer.commit(tick.batch)
            self._next_seq = self._controller.next_seq
            self._trouble.broke_s, self._pause_s = None, 0.0
        elif tick.to_agents:
            await self._prove()

    def _break_off(self, items: list[Item], error: RotaError) -> None:
        """The tick did not reach the disk: nothing of it happened, and nobody was told of it."""
        log.error("tick dropped: %s", error)
        if isinstance(error, NotLeading):
            log.error("%s: %s", DEPOSED, error)
        stale = self._controller.next_seq != self._next_seq
        self._outage = outage = Outage(error, self._pause_s, stale=stale)
        self._pause_s = longer(self._pause_s)
        self._inbox.put(outage.take(items, self._inbox.reply, self.links.hang_up))

    def _stumble(self, items: list[Item], error: Exception, calm: bool) -> None:
        """A tick broke, by a bug of ours. What broke it is found and put aside; the rest goes on.

        The messages are taken one by one; if it was none of them, a pass or a timer broke.
        """
        log.error("a tick broke: %s", error, exc_info=error)
        self._outage = Outage(error)
        job = error.job if isinstance(error, Stumbled) else 0
        if calm and len(items) == 1:
            put_aside(items[0], error, self.sessions, self._inbox.reply, self.links.hang_up)
        elif job and job not in self._rest.blamed:
            self._suspects.extend([*items, BrokenJob(job, str(error))])
            self._rest.blamed.add(job)
        elif items:
            self._suspects.extend(items)
        else:
            rest_s = self._rest.begin()
            log.error("no job is started and no timer rings for %.0f s: %s", rest_s, error)

    async def _act(self, tick: Tick) -> None:
        """After the commit, and only then: answers, news, orders."""
        self.blobs.stored(tick.batch)
        await self._inbox.answer(tick.answers)
        self.meters.read(tick.batch)
        try:
            self.watch.publish(tick.batch.events)
            self.audit.hand_on(tick.batch.audit)
            # What orders need of the store is read outside of the loop.
            with self.blobs.at_hand():
                while missing := self._controller.order(tick):
                    self.blobs.need(await self.read(partial(read_blobs, missing)))
            for link, message in tick.to_agents:
                message = self.secrets.filled(message, self.cluster)
                near = (to := self.sessions.by_link.get(link)) is None or to.local
                self.links.send(link, message if near else self.job_tokens.sealed(message))
            for link in tick.hang_up:
                self.links.hang_up(link)
        except Exception as error:
            # Agents that were not told of everything dial again, and are told all of it.
            log.error("orders were not sent: %s", error, exc_info=error)
            self.links.hang_up_all()

    async def keep(self, batch: Batch) -> None:
        """Commit what the state does not hold, such as a secret."""
        if self._outage is not None:
            raise Unavailable(self.trouble or "the state is being read back; try again")
        await self._writer.commit(batch)

    async def write(self, work: Callable[[Store], Answer]) -> Answer:
        """Change what the state does not hold, where commits are done, between ticks."""
        return await self._writer.run(lambda: work(self.store))

    async def read(self, question: Callable[[Store], Answer]) -> Answer:
        """Ask the store something without holding up the loop."""
        return await asyncio.to_thread(question, self.store)
