"""The process of one engine: a driver, a journal, and a session for each node of the engine.

What the state machines decide is written into the journal, then asked of the engine. What the
engine shows is held against the journal and told to the state machines. Killing this process ends
nothing: the next one reads the journal, looks at the engine, and goes on.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from contextlib import suppress
from signal import SIGKILL, SIGTERM
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.backends.api import Away, EngineError, Feature, Full, Phase, Refused
from rota.backends.journal import Entry, State
from rota.backends.logs import EngineLogs
from rota.backends.news import ended, known, started, unstarted
from rota.backends.node_session import NodeSession
from rota.backends.orders import Key, order_of
from rota.backends.pace import Breaker
from rota.backends.pilot_tables import PREFIX
from rota.backends.reconcile import Absences, look
from rota.core.facts.placing import Taint
from rota.core.facts.states import Blame, Cause
from rota.rpc.visits import LogFound, ReadLog, SearchLog
from rota.session.instructions import (
    Ended,
    Forget,
    GiveUp,
    KeeperAll,
    Seek,
    Signal,
    Spawn,
    Waits,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from pathlib import Path

    from rota.backends.api import Driver, EngineJob, EngineNode
    from rota.backends.journal import Journal
    from rota.session.instructions import Instruction, Known, Started

#: So many submits at a time.
SUBMITS_MAX = 8
#: Nodes of the engine are looked at so often.
NODES_S = 30.0
#: What keeps new jobs from a machine to which its engine gives none.
OUT_OF_SERVICE = Taint("engine", "out-of-service")
#: A stop that an engine does not take is tried again.
AGAIN_S = 1.0

log = logging.getLogger("rota.engine")


class Engine:
    """One engine, as its site named it."""

    def __init__(
        self,
        name: str,
        driver: Driver,
        journal: Journal,
        home: Path,
        url: str,
        token: str = "",
        give_back_s: float = 60.0,
    ) -> None:
        self._name, self._driver, self._journal = name, driver, journal
        self._home, self._url, self._token = home, url, token
        self._give_back_s = give_back_s
        self._breaker = Breaker(name)
        self._logs = EngineLogs(driver, home / "logs")
        self._absences = Absences(driver.settle_s)
        self._sessions: dict[str, NodeSession] = {}
        #: The engine's name of a node, by ours.
        self._engine_nodes: dict[str, str] = {}
        #: What the engine showed of each living attempt when it was last looked at.
        self._seen: dict[str, EngineJob] = {}
        self._submitting: dict[str, asyncio.Task[None]] = {}
        self._door = asyncio.Semaphore(SUBMITS_MAX)
        #: Not to be started any more.
        self._withdrawn: set[str] = set()
        self._errands: set[asyncio.Task[None]] = set()
        self._listed = False
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Until it is told to stop; what runs in the engine runs on."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        loop.add_signal_handler(signal.SIGINT, self._stop.set)
        await self._persist(self._driver.open)
        duties = [asyncio.create_task(self._hold_nodes()), asyncio.create_task(self._follow())]
        stopped = asyncio.create_task(self._stop.wait())
        done, _ = await asyncio.wait([*duties, stopped], return_when=asyncio.FIRST_COMPLETED)
        for task in (*duties, stopped, *self._errands, *self._submitting.values()):
            task.cancel()
        await asyncio.gather(*duties, return_exceptions=True)
        await self._driver.close()
        self._journal.close()
        for task in done - {stopped}:
            task.result()

    async def _persist(self, call: Callable[[], Coroutine[None, None, None]]) -> None:
        while True:
            try:
                await call()
            except Away as error:
                await asyncio.sleep(self._breaker.failed(str(error)))
            else:
                self._breaker.answered()
                return

    async def _hold_nodes(self) -> None:
        while True:
            await self._look_at_nodes()
            await asyncio.sleep(NODES_S)

    async def _look_at_nodes(self) -> None:
        try:
            for session in map(self._take_node, await self._driver.nodes()):
                if session is not None:
                    self._begin(session.hold())
        except EngineError as error:
            self._breaker.failed(str(error))

    def _take_node(self, node: EngineNode) -> NodeSession | None:
        """A session for a machine that is new; one that is known hears what has changed."""
        inside = node.spec.name
        spec = replace(node.spec, name=f"{inside}.{self._name}", engine=self._name)
        if not node.usable:
            remark = node.detail or "out of service in the engine"
            spec = replace(spec, remarks=(remark,), taints=(*spec.taints, OUT_OF_SERVICE))
        session = self._sessions.get(spec.name)
        if session is not None:
            session.become(spec)
            return None
        home = self._home / "nodes" / inside
        self._engine_nodes[spec.name] = "" if node.pool else inside
        session = NodeSession(spec, self._url, home, self._token, self._obey, self._visit)
        self._sessions[spec.name] = session
        if self._listed:
            session.hears_all(KeeperAll(self._known_on(spec.name)))
        return session

    def _obey(self, session: NodeSession, instructions: Sequence[Instruction]) -> None:
        spawns = [order for order in instructions if isinstance(order, Spawn)]
        fresh = [spawn for spawn in spawns if spawn.uid not in self._journal.entries]
        self._journal.put(self._intent(session, spawn) for spawn in fresh)
        for spawn in fresh:
            self._submit(spawn.uid)
        for order in instructions:
            if isinstance(order, Signal):
                self._begin(self._signal(order))
            elif isinstance(order, GiveUp):
                self._begin(self._withdraw([order.uid]))
            elif isinstance(order, Forget):
                self._begin(self._forget(order.uids))
        known = [order.uid for order in instructions if isinstance(order, Seek)]
        known += [spawn.uid for spawn in spawns if spawn not in fresh]
        again = map(self._told_again, known)
        if told := [event for event in again if event is not None]:
            session.hears(told)

    def _intent(self, session: NodeSession, spawn: Spawn) -> Entry:
        launch = spawn.launch
        node = self._engine_nodes[session.name]
        order = order_of(launch, Key(session.cluster, spawn.uid), node)
        return Entry(
            uid=spawn.uid,
            node=session.name,
            state=State.INTENDED,
            order=order,
            at_s=time.time(),
            grace_s=launch.grace_s,
        )

    def _told_again(self, uid: str) -> Started | Ended | None:
        entry = self._journal.entries.get(uid)
        if entry is None:
            return Ended(uid, 0.0, time.time(), lost=True, error="the engine does not know it")
        if entry.over:
            return ended(entry)
        job = self._seen.get(uid)
        return started(job) if job is not None and job.phase is Phase.RUNNING else None

    def _begin(self, errand: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    def _submit(self, uid: str) -> None:
        task = self._submitting[uid] = asyncio.create_task(self._hand_in(uid))
        task.add_done_callback(lambda _: self._submitting.pop(uid, None))

    async def _hand_in(self, uid: str) -> None:
        """Once. What may have happened is found out by the next looks, not by another try."""
        entry = self._journal.entries.get(uid)
        if entry is None or entry.order is None:
            return
        async with self._door:
            waited_s = time.monotonic()
            while True:
                if uid in self._withdrawn:
                    self._over(entry, unstarted(uid, "stopped before it was started", Blame.NODE))
                    return
                try:
                    number = await self._driver.submit(entry.order)
                    break
                except Refused as error:
                    self._over(entry, unstarted(uid, str(error), error.fault))
                    return
                except Full as error:
                    if time.monotonic() - waited_s > self._give_back_s:
                        self._over(entry, unstarted(uid, str(error), Blame.NODE))
                        return
                    self._tell_waits(entry, str(error))
                    await asyncio.sleep(AGAIN_S)
                except EngineError as error:
                    log.warning("attempt %s may not have reached %s: %s", uid, self._name, error)
                    return
        self._journal.put([replace(entry, state=State.SUBMITTED, id=number, at_s=time.time())])

    async def _signal(self, order: Signal) -> None:
        """Until the engine has taken it, or the attempt has ended."""
        while (entry := self._journal.entries.get(order.uid)) is not None and not entry.over:
            job = self._seen.get(order.uid)
            if job is None:
                return  # The state machine repeats what matters once it is known to run.
            try:
                if order.signal == SIGKILL:
                    await self._driver.stop(job, 0.0)
                elif Feature.SIGNALS in self._driver.features:
                    await self._driver.signal(job, order.signal)
                elif order.signal == SIGTERM:
                    await self._driver.stop(job, entry.grace_s)
            except Refused as error:
                log.warning("signal %d for attempt %s: %s", order.signal, order.uid, error)
                return
            except EngineError as error:
                self._breaker.failed(str(error))
                await asyncio.sleep(AGAIN_S)
            else:
                return

    async def _withdraw(self, uids: list[str]) -> None:
        """They shall not start: those that wait in the engine are taken out of it."""
        self._withdrawn |= set(uids)
        for uid in uids:
            if (job := self._seen.get(uid)) is not None:
                with suppress(EngineError):
                    await self._driver.stop(job, 0.0)

    async def _forget(self, uids: tuple[str, ...]) -> None:
        for uid in uids:
            entry = self._journal.entries.get(uid)
            if entry is not None and entry.end is not None and entry.end.id:
                with suppress(EngineError):
                    with suppress(Refused):  # What it printed is gone, and it must go all the same.
                        await self._logs.keep(entry.end)
                    await self._driver.forget(entry.end)
        self._journal.forget(uids, time.time())
        self._withdrawn.difference_update(uids)

    def _over(self, entry: Entry, end: EngineJob) -> None:
        """On disk first; its state machine hears of it after that."""
        entry = replace(entry, state=State.ENDED, end=end, order=None)
        self._journal.put([entry])
        self._seen.pop(entry.uid, None)
        if (session := self._sessions.get(entry.node)) is not None:
            session.hears([ended(entry)])

    def _tell_waits(self, entry: Entry, reason: str, number: str = "") -> None:
        if (session := self._sessions.get(entry.node)) is not None:
            session.hears_waits(Waits(entry.uid, reason, number))

    async def _follow(self) -> None:
        while True:
            if not self._cluster():
                await asyncio.sleep(AGAIN_S / 10)
                continue
            try:
                await self._look()
                self._breaker.answered()
                await self._driver.changes()
            except EngineError as error:
                await asyncio.sleep(self._breaker.failed(str(error)))

    def _cluster(self) -> str:
        """Whose work is ours; nothing is looked for before a controller has said it."""
        known = self._journal.fact("cluster")
        said = next((s.cluster for s in self._sessions.values() if s.cluster), "")
        if said and not known:
            self._journal.note("cluster", said)
        self._driver.cluster = known or said
        return self._driver.cluster

    async def _look(self) -> None:
        asked_s, busy = time.monotonic(), set(self._submitting)
        listing = [job for job in await self._driver.jobs() if not job.uid.startswith(PREFIX)]
        nodes = {inside: ours for ours, inside in self._engine_nodes.items()}
        busy |= set(self._submitting)
        found = look(self._journal.entries, listing, busy, self._absences, asked_s, nodes)
        if found.lost:
            await self._search(found.lost, busy)
        before = dict(self._journal.entries)
        self._journal.put(found.changed)
        adopted = {entry.node for entry in found.changed if entry.uid not in before}
        self._seen = found.seen
        if not self._listed:
            self._listed = True
            adopted = set(self._sessions)
        for name in adopted:
            if (session := self._sessions.get(name)) is not None:
                session.hears_all(KeeperAll(self._known_on(name)))
        over = [entry for entry in found.changed if entry.over]
        if any(entry.end is not None and entry.end.cause is Cause.NODE_LOST for entry in over):
            await self._look_at_nodes()  # Told first, so that another try goes elsewhere.
        self._tell(over)
        for uid in found.due:
            if uid not in self._submitting:
                self._submit(uid)
        for twin in found.twins:
            log.error("attempt %s is in %s twice: %s is stopped", twin.uid, self._name, twin.id)
            with suppress(EngineError):
                await self._driver.stop(twin, 0.0)
        for session in self._sessions.values():
            await self._withdraw(session.agent.unstarted())
        await self._give_back()

    async def _search(self, lost: list[str], busy: set[str]) -> None:
        """What the list no longer has may be in the accounting; if not, it is gone for good."""
        found = {job.uid: job for job in await self._driver.find(lost)}
        for uid in lost:
            entry, job = self._journal.entries.get(uid), found.get(uid)
            if entry is None or entry.over or uid in busy:
                continue
            if job is None:
                entry = replace(entry, state=State.MISSING, order=None)
                self._journal.put([entry])
                self._tell([entry])
            elif job.phase is Phase.ENDED:
                self._over(entry, job)

    def _tell(self, over: list[Entry]) -> None:
        """Starts, ends and waits, node by node, in one message each."""
        events: dict[str, list[Started | Ended]] = {}
        for uid, job in self._seen.items():
            entry = self._journal.entries[uid]
            if job.phase is Phase.RUNNING:
                events.setdefault(entry.node, []).append(started(job))
            elif job.phase is Phase.WAITING:
                self._tell_waits(entry, job.reason or "it waits", job.id)
        for entry in over:
            events.setdefault(entry.node, []).append(ended(entry))
        for name, told in events.items():
            if (session := self._sessions.get(name)) is not None:
                session.hears(told)

    async def _give_back(self) -> None:
        """What waits inside for too long waits better outside, where others may pass it."""
        for uid, job in [*self._seen.items()]:
            entry = self._journal.entries[uid]
            waits = job.phase is Phase.WAITING and time.time() - entry.at_s > self._give_back_s
            if waits and not entry.given_back and self._give_back_s:
                why = f"it waited inside {self._name}: {job.reason}"
                self._journal.put([replace(entry, given_back=why)])
                with suppress(EngineError):
                    await self._driver.stop(job, 0.0)

    def _known_on(self, node: str) -> tuple[Known, ...]:
        entries = [entry for entry in self._journal.entries.values() if entry.node == node]
        return tuple(known(entry, self._seen.get(entry.uid)) for entry in entries)

    def _visit(self, session: NodeSession, request: ReadLog | SearchLog) -> None:
        if isinstance(request, SearchLog):
            error = "logs on an engine are read, not searched"
            session.send(LogFound(request.request, error=error))
        else:
            self._begin(self._read_log(session, request))

    async def _read_log(self, session: NodeSession, request: ReadLog) -> None:
        uid, entry = request.uid, self._journal.entries.get(request.uid)
        job = self._seen.get(uid) or (entry.end if entry is not None else self._journal.past(uid))
        session.send(await self._logs.read(job, request))
