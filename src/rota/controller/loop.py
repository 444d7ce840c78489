"""The live host: an inbox, the wall clock, one commit per tick, and who waits for what.

One task owns the state. Everybody else puts a message in the inbox and awaits the answer. A
message wakes the loop; between messages and timers it sleeps and costs nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from rota.controller.agents.job_tokens import JobTokens
from rota.controller.agents.links import Links
from rota.controller.clock import Clock
from rota.controller.commands.commands import Submit
from rota.controller.engine import Asked, Controller, FromLink, Tick
from rota.controller.recover import recover
from rota.controller.tick import plugins
from rota.controller.tick.forecast import REMEMBERED, TELLING
from rota.controller.watch import Watch
from rota.core.changes.invariants import check
from rota.core.facts.errors import Busy, RotaError, Unavailable
from rota.core.facts.policy import Estimates
from rota.store.api import JobFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rota.controller.agents.sessions import Sessions
    from rota.controller.commands.commands import Command
    from rota.core.cluster import Cluster
    from rota.rpc.messages import AgentMessage
    from rota.scheduling.scheduler import Scheduler
    from rota.store.api import Store
    from rota.store.writer import Commits

Answer = TypeVar("Answer")

log = logging.getLogger("rota.controller")

#: Blobs (environments, scripts) kept at hand for launches.
BLOBS_KEPT = 256
#: How long the loop waits before it tries again after a failed commit.
RETRY_S = 1.0
#: A timer is looked at this often: the machine may have slept meanwhile.
LOOK_S = 30.0
#: A tick that takes longer than this hangs; a disk that failed is bad news for so long.
STUCK_S, BROKE_S = 10.0, 30.0


class Host:
    """Runs a Controller in an asyncio loop over a store."""

    def __init__(
        self,
        store: Store,
        writer: Commits,
        *,
        inbox_size: int = 10_000,
        lease_s: float = 0.0,
        variables: Mapping[str, str] | None = None,
        checked: bool = False,
        job_key: bytes = b"",
    ) -> None:
        self.store = store
        self.clock = Clock()
        self.watch = Watch()
        self.links = Links(self.put)
        #: With these jobs on other machines are known again.
        self.job_tokens = JobTokens(job_key)
        self.started_s = self.clock.now_s()
        self.inbox_size = inbox_size
        self._lease_s = lease_s
        self._variables = variables
        #: Hold every tick against the invariants before it is committed.
        self._checked = checked
        #: For metrics: how many ticks there were, and how long their commits took together.
        self.ticks = 0
        self.commit_s = 0.0
        self._writer = writer
        self._blobs: dict[str, bytes] = {}
        self._inbox: deque[tuple[int, FromLink | Asked]] = deque()
        self._load = 0
        self._tickets = itertools.count(1)
        self._callers: dict[int, asyncio.Future[Any]] = {}
        self._wake = asyncio.Event()
        self._on_disk = asyncio.Event()
        self._on_disk.set()
        self._alarm: asyncio.TimerHandle | None = None
        #: For which moment the alarm is set, where a timer wants it.
        self._alarm_s: float | None = None
        self._stopping = False
        #: Since when the tick that is going on goes on, and when the last one was dropped.
        self._turn_since_s: float | None = None
        self._broke_s: float | None = None
        self._controller = self._load_controller()

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
        """What people must know about nodes that are gone; empty: nothing."""
        return self._controller.liveness.warning

    @property
    def trouble(self) -> str:
        """Why nothing can be taken in just now; empty: it can."""
        now_s = time.monotonic()
        if self._turn_since_s is not None and now_s - self._turn_since_s > STUCK_S:
            return f"a tick has not ended for {now_s - self._turn_since_s:.0f}s"
        if self._broke_s is not None and now_s - self._broke_s < BROKE_S:
            return "the last change could not be written; controller.log says why"
        return ""

    @property
    def sessions(self) -> Sessions:
        """Which agents are connected."""
        return self._controller.sessions

    def _load_controller(self) -> Controller:
        snapshot = self.store.load()
        controller = Controller(
            recover(snapshot),
            snapshot.next_seq,
            new_uid=lambda: secrets.token_hex(16),
            new_session=lambda: secrets.randbits(52) + 1,
            read_blob=self._blob,
            read_array=self.store.array,
            variables=self._variables,
            load=lambda policy: plugins.load_known(policy)[0],
            clock=plugins.clock,
            guard=plugins.time_limit,
            lease_s=self._lease_s,
            moved_s=self.clock.moved_s(self.store, snapshot.next_seq),
        )
        if controller.cluster.policy.backfill.estimates is Estimates.PREDICTED:
            ended = JobFilter(states=TELLING)
            controller.forecast.remember(
                self.store.list_jobs(ended, limit=REMEMBERED, newest_first=True)
            )
        return controller

    async def ask(self, command: Command) -> Any:  # noqa: ANN401 - each has its own answer
        """Hand in a command and await its answer, which is on disk by then."""
        weight = len(command.submissions) if isinstance(command, Submit) else 1
        if self._stopping:
            raise Unavailable("rota is stopping; try again when it is up")
        if self._inbox and self._load + weight > self.inbox_size:
            raise Busy(
                f"the inbox is full ({self.inbox_size} requests wait); nothing was changed, try "
                "again shortly"
            )
        ticket = next(self._tickets)
        caller: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._callers[ticket] = caller
        self._load += weight
        self._inbox.append((weight, Asked(ticket, command)))
        self._wake.set()
        answer = await caller
        if isinstance(answer, RotaError):
            raise answer
        return answer

    async def on_disk(self) -> None:
        """Wait until what ``cluster`` shows right now is committed."""
        await self._on_disk.wait()

    def put(self, link: int, message: AgentMessage | None, shown: str) -> None:
        """What an agent said; never refused, because an agent cannot say it to anybody else."""
        self._inbox.append((0, FromLink(link, message, shown)))
        self._wake.set()

    async def run(self) -> None:
        """Tick until stopped. Always ticks once at the start, to settle what was due meanwhile."""
        self._wake.set()
        while not self._stopping or self._inbox:
            await self._wake.wait()
            self._wake.clear()
            items = [item for _, item in self._inbox]
            self._inbox.clear()
            self.links.drained()
            self._load = 0
            await self._turn(items)
        self._cancel_alarm()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()

    async def _turn(self, items: list[FromLink | Asked]) -> None:
        self._on_disk.clear()
        self._turn_since_s = time.monotonic()
        try:
            await self._tick(items)
        finally:
            self._turn_since_s = None
            self._on_disk.set()

    async def _tick(self, items: list[FromLink | Asked]) -> None:
        try:
            self.ticks += 1
            tick = self._controller.tick(self.clock.now_s(), items)
            if self._checked:
                check(self.cluster)
            if tick.batch.events:
                begun_s = time.monotonic()
                await self._writer.commit(tick.batch)
                self.commit_s += time.monotonic() - begun_s
                self._broke_s = None
        except Exception as error:
            await self._start_over(items, error)
            return
        self._act(tick)
        self._set_alarm(tick.again)

    def _act(self, tick: Tick) -> None:
        """After the commit, and only then: answers, news, orders."""
        for ticket, answer in tick.answers:
            self._reply(ticket, answer)
        for link, message in tick.to_agents:
            session = self.sessions.by_link.get(link)
            near = session is None or session.local
            self.links.send(link, message if near else self.job_tokens.sealed(message))
        for link in tick.hang_up:
            self.links.hang_up(link)
        for digest, body in tick.batch.blobs.items():
            self._keep_blob(digest, body)
        self.watch.publish(tick.batch.events)

    def _reply(self, ticket: int, answer: object) -> None:
        caller = self._callers.pop(ticket, None)
        if caller is not None and not caller.done():
            caller.set_result(answer)

    async def _start_over(self, items: list[FromLink | Asked], error: Exception) -> None:
        """The tick did not reach the disk: nothing of it happened. Rebuild from what did.

        Agents are asked to dial again; they repeat in full what was lost of their reports.
        """
        known = isinstance(error, RotaError)
        log.error("tick dropped: %s", error, exc_info=None if known else error)
        refusal = error if known else Unavailable(f"internal error, nothing was changed: {error}")
        self._broke_s = time.monotonic()
        for item in items:
            if isinstance(item, Asked):
                self._reply(item.ticket, refusal)
        self.links.hang_up_all()
        while True:
            try:
                self._controller = self._load_controller()
                break
            except RotaError as again:
                log.error("cannot read the state: %s", again)
                await asyncio.sleep(RETRY_S)
        self._set_alarm(again=False, at_most_s=RETRY_S)

    def _set_alarm(self, again: bool, at_most_s: float | None = None) -> None:
        due_s = self._controller.next_due_s()
        stands = self._alarm is not None and due_s is not None and due_s == self._alarm_s
        if stands and not again and at_most_s is None:
            return  # It will ring just then: most ticks change nothing there.
        self._cancel_alarm()
        if again:
            self._wake.set()
            return
        self._alarm_s = due_s if at_most_s is None else None
        wait_s = at_most_s if due_s is None else max(0.0, due_s - self.clock.now_s())
        if wait_s is not None:
            wait_s = min(wait_s, LOOK_S if at_most_s is None else at_most_s)
            self._alarm = asyncio.get_running_loop().call_later(wait_s, self._ring)

    def _ring(self) -> None:
        """The loop sleeps on a clock that stands still with the machine: look up now and then."""
        due_s, self._alarm = self._alarm_s, None
        if due_s is not None and self.clock.now_s() < due_s:
            self._set_alarm(again=False)
            return
        self._alarm_s = None
        self._wake.set()

    def _cancel_alarm(self) -> None:
        self._alarm_s = None
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _blob(self, digest: str) -> bytes | None:
        body = self._blobs.get(digest)
        if body is None:
            body = self.store.blob(digest)
            if body is not None:
                self._keep_blob(digest, body)
        return body

    def _keep_blob(self, digest: str, body: bytes) -> None:
        self._blobs[digest] = body
        while len(self._blobs) > BLOBS_KEPT:
            self._blobs.pop(next(iter(self._blobs)))

    def knows_blob(self, digest: str) -> bool:
        """Whether a blob is on disk for certain, so that a submit need not store it again."""
        return digest in self._blobs

    async def write(self, work: Callable[[Store], Answer]) -> Answer:
        """Change what the state does not hold, where commits are done, between ticks."""
        return await self._writer.run(lambda: work(self.store))

    async def read(self, question: Callable[[Store], Answer]) -> Answer:
        """Ask the store something without holding up the loop."""
        return await asyncio.to_thread(question, self.store)
