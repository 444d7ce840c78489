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
from functools import partial
from signal import SIGKILL, SIGTERM
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.backends.api import EngineError, EnginePhase, EngineRefused, Feature
from rota.backends.flow import Flow
from rota.backends.gangs import spread
from rota.backends.intake import Intake
from rota.backends.journal import EngineEntry, Stance
from rota.backends.logs import EngineLogs
from rota.backends.lost import LostAttempts
from rota.backends.machines import Machines, next_look_s, out_of_service, with_early
from rota.backends.metering import PoolMeter
from rota.backends.news import ended, known, started
from rota.backends.node_session import NodeSession
from rota.backends.orders import Key, order_of
from rota.backends.pace import EngineBreaker
from rota.backends.pilot_tables import PREFIX
from rota.backends.reconcile import Absences, look
from rota.backends.register import LEFT, MachineRegister
from rota.backends.registry import EngineSettings
from rota.backends.visits import EngineVisits
from rota.core.facts.states import Cause
from rota.session.instructions import Forget, GiveUp, Gone, KeeperAll, Queued, Seek, Signal, Spawn

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from pathlib import Path

    from rota.backends.api import Driver, EngineJob, EngineNode
    from rota.backends.journal import EngineJournal
    from rota.session.instructions import Began, Instruction, KnownAttempt

#: A stop that an engine does not take is tried again.
AGAIN_S = 1.0

log = logging.getLogger("rota.engine")


class Engine:
    """One engine, as its site named it."""

    def __init__(
        self,
        name: str,
        driver: Driver,
        journal: EngineJournal,
        home: Path,
        url: str,
        token: str = "",
        settings: EngineSettings | None = None,
    ) -> None:
        self._name, self._driver, self._journal = name, driver, journal
        self._home, self._url, self._token = home, url, token
        named = settings or EngineSettings(kind=driver.kind)
        self._machines = Machines(name, named.cluster or name, named.inside_max)
        self._register = MachineRegister(home / "nodes")
        self._breaker, self._nodes_breaker = EngineBreaker(name), EngineBreaker(f"{name} (nodes)")
        self._logs = EngineLogs(driver, home / "logs")
        self._absences = Absences(driver.settle_s)
        self._sessions: dict[str, NodeSession] = {}
        #: The engine's name of a node, by ours.
        self._engine_nodes: dict[str, str] = {}
        #: What the engine showed of each living attempt when it was last looked at.
        self._seen: dict[str, EngineJob] = {}
        self._meter = PoolMeter(named.inside_max, named.give_back_s, named.begin_s)
        early = getattr(driver, "early", 0.0)
        self._flow = Flow(early if named.early is None else named.early)
        self._intake = Intake(
            name,
            driver,
            journal,
            named.give_back_s,
            lambda node: self._sessions[node].spec,
            self._over,
            self._tell_waits,
            lambda: bool(self._breaker.why),
        )
        self._lost = LostAttempts(name, driver, journal, self._for_each, self._over, self._tell)
        self._errands: set[asyncio.Task[None]] = set()
        #: What was forgotten, and could not be dropped from the engine then.
        self._leftovers: asyncio.Task[None] | None = None
        self._listed = False
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Until it is told to stop; what runs in the engine runs on."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        loop.add_signal_handler(signal.SIGINT, self._stop.set)
        await self._open()
        duties = [asyncio.create_task(self._hold_nodes()), asyncio.create_task(self._follow())]
        stopped = asyncio.create_task(self._stop.wait())
        done, _ = await asyncio.wait([*duties, stopped], return_when=asyncio.FIRST_COMPLETED)
        for task in (*duties, stopped, *self._errands):
            task.cancel()
        self._intake.cancel()
        await asyncio.gather(*duties, return_exceptions=True)
        await self._driver.close()
        self._logs.close()
        self._journal.close()
        for task in done - {stopped}:
            task.result()

    async def _open(self) -> None:
        while True:
            try:
                await self._driver.open()
            except EngineRefused:
                raise
            except EngineError as error:
                await asyncio.sleep(self._breaker.failed(str(error), error.after_s))
            else:
                return self._breaker.answered()

    async def _hold_nodes(self) -> None:
        while True:
            asked_s = time.monotonic()
            silent_s = await self._look_at_nodes()
            specs = [session.spec for session in self._sessions.values()]
            took_s = time.monotonic() - asked_s
            await asyncio.sleep(silent_s or next_look_s(specs, self._driver.poll_s, took_s))

    async def _look_at_nodes(self) -> float:
        """0, or how long to wait before an engine is asked again that has not told of them."""
        try:
            listed = await self._driver.nodes()
        except EngineError as error:
            return self._nodes_breaker.failed(str(error), error.after_s)
        self._nodes_breaker.answered()
        names = {self._machines.name_of(node.spec.name) for node in listed}
        for name, session in self._sessions.items():
            if name not in names:
                session.become(out_of_service(session.spec, LEFT))
        held = {entry.node for entry in self._journal.entries.values()} - names
        left = self._register.left(held - self._sessions.keys(), self._machines.name_of)
        for session in filter(None, map(self._take_node, [*listed, *left])):
            self._begin(session.hold())
        return 0.0

    def _take_node(self, node: EngineNode) -> NodeSession | None:
        """A session for a machine that is new; one that is known hears what has changed."""
        inside = node.spec.name
        places = self._flow.places(self._machines.name_of(inside))
        spec = self._machines.spec_of(node, self._driver.features, places)
        session = self._sessions.get(spec.name)
        if session is not None:
            session.become(spec)
            return None
        home = self._home / "nodes" / inside
        self._engine_nodes[spec.name] = inside
        self._register.keep(node)
        visits = partial(EngineVisits, self._driver, self._logs, self._shown)
        session = NodeSession(spec, self._url, home, self._token, self._obey, visits)
        self._sessions[spec.name] = session
        if self._listed:
            session.hears_all(KeeperAll(self._known_on(spec.name)))
        return session

    def _obey(self, session: NodeSession, instructions: Sequence[Instruction]) -> None:
        spawns = [order for order in instructions if isinstance(order, Spawn)]
        fresh = [spawn for spawn in spawns if spawn.uid not in self._journal.entries]
        self._journal.put(self._intent(session, spawn) for spawn in fresh)
        for spawn in fresh:
            self._intake.submit(spawn.uid)
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

    def _intent(self, session: NodeSession, spawn: Spawn) -> EngineEntry:
        launch, key = spawn.launch, Key(session.cluster, spawn.uid)
        node, pool = self._engine_nodes[session.name], session.spec.pool
        order = order_of(launch, key, node, pool=pool)
        return EngineEntry.intended(order, session.name, time.time())

    def _told_again(self, uid: str) -> Began | Gone | None:
        entry = self._journal.entries.get(uid)
        if entry is None:
            return Gone(uid, 0.0, time.time(), lost=True, error="the engine does not know it")
        if entry.over:
            return ended(entry)
        job = self._seen.get(uid)
        return started(job) if job is not None and job.phase is EnginePhase.RUNNING else None

    def _begin(self, errand: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
        return task

    async def _signal(self, order: Signal) -> None:
        """Until the engine has taken it, or the attempt has ended."""
        while (entry := self._journal.entries.get(order.uid)) is not None and not entry.over:
            job = self._handle(order.uid)
            if job is None or job.uid != order.uid:
                # The state machine repeats what matters once it is known to run; of a gang that is
                # one job the first member speaks for all.
                return
            try:
                if order.signal == SIGKILL:
                    await self._driver.stop(job, 0.0)
                elif Feature.SIGNALS in self._driver.features:
                    await self._driver.signal(job, order.signal)
                elif order.signal == SIGTERM:
                    await self._driver.stop(job, entry.grace_s)
            except EngineRefused as error:
                log.warning("signal %d for attempt %s: %s", order.signal, order.uid, error)
                return
            except EngineError as error:
                self._breaker.failed(str(error))
                await asyncio.sleep(AGAIN_S)
            else:
                return

    def _handle(self, uid: str) -> EngineJob | None:
        """The job that the engine knows it by; None: it shows none."""
        job, entry = self._seen.get(uid), self._journal.entries.get(uid)
        if job is None or entry is None or entry.gang is None or not self._intake.whole:
            return job
        return replace(job, uid=entry.gang.leader)

    async def _withdraw(self, uids: list[str]) -> None:
        """They shall not start: those that wait in the engine are taken out of it."""
        self._intake.withdraw(uids)
        for uid in uids:
            if (job := self._handle(uid)) is not None:
                with suppress(EngineError):
                    await self._driver.stop(job, 0.0)

    async def _forget(self, uids: tuple[str, ...]) -> None:
        for uid in uids:
            entry = self._journal.entries.get(uid)
            if entry is not None and entry.end is not None and entry.end.id:
                await self._drop([entry.end])
            self._seen.pop(uid, None)
        self._journal.forget(uids, time.time())
        self._intake.forget(uids)

    async def _drop(self, ended: list[EngineJob]) -> None:
        """What the engine does not let go now is in its next list: then it is tried again."""
        for job in ended:
            with suppress(EngineError):
                with suppress(EngineRefused):  # What it printed is gone; the job goes, too.
                    await self._logs.keep(job)
                await self._driver.forget(job)

    def _over(self, entry: EngineEntry, end: EngineJob) -> None:
        """On disk first; its state machine hears of it after that."""
        entry = replace(entry, state=Stance.ENDED, end=end, order=None)
        self._journal.put([entry])
        self._seen.pop(entry.uid, None)
        if (session := self._sessions.get(entry.node)) is not None:
            session.hears([ended(entry)])

    def _tell_waits(self, entry: EngineEntry, why: str, number: str = "", where: str = "") -> None:
        if (session := self._sessions.get(entry.node)) is not None:
            session.hears_waits(Queued(entry.uid, why, number, where))

    async def _follow(self) -> None:
        while True:
            if not self._cluster():
                await asyncio.sleep(AGAIN_S / 10)
                continue
            try:
                await self._look()
                was_away = self._breaker.is_away
                self._breaker.answered()
                if was_away:
                    await self._look_at_nodes()
                await self._driver.changes()
            except EngineError as error:
                pause_s = self._breaker.failed(str(error), error.after_s)
                for session in self._sessions.values() if self._breaker.is_away else ():
                    session.become(self._machines.away(session.spec, str(error)))
                await asyncio.sleep(pause_s)

    def _cluster(self) -> str:
        """Whose work is ours; nothing is looked for before a controller has said it."""
        known = self._journal.fact("cluster")
        said = next((s.cluster for s in self._sessions.values() if s.cluster), "")
        if said and not known:
            self._journal.note("cluster", said)
        self._driver.cluster = known or said
        return self._driver.cluster

    async def _look(self) -> None:
        asked_s, busy = time.monotonic(), set(self._intake.busy)
        shown = [job for job in await self._driver.jobs() if not job.uid.startswith(PREFIX)]
        listing, left = self._journal.without_past(self._for_each(shown))
        if left and (not self._leftovers or self._leftovers.done()):
            self._leftovers = self._begin(self._drop(left))
        busy |= set(self._intake.busy)
        nodes = self._ours_by_theirs()
        entries, now_s = self._journal.entries, time.time()
        before = dict(entries)
        found = look(entries, listing, busy, self._absences, asked_s, nodes, now_s)
        self._journal.put(found.changed)
        adopted = {entry.node for entry in found.changed if entry.uid not in before}
        self._seen = found.seen
        self._meter.note(found.seen.values(), asked_s)
        told, self._listed = (adopted if self._listed else set(self._sessions)), True
        for name in told:
            if (session := self._sessions.get(name)) is not None:
                session.hears_all(KeeperAll(self._known_on(name)))
        over = [entry for entry in found.changed if entry.over]
        if any(entry.end is not None and entry.end.cause is Cause.NODE_LOST for entry in over):
            await self._look_at_nodes()  # Told first, so that another try goes elsewhere.
        self._tell(over)
        self._flow.look(self._journal.entries, found.seen, over, asked_s)
        for session in self._sessions.values():
            session.become(with_early(session.spec, self._flow.places(session.name)))
        for uid in found.due:
            self._intake.submit(uid)
        for stray in found.strays:
            log.error("attempt %s: job %s must not run, and is stopped", stray.uid, stray.id)
            with suppress(EngineError):
                await self._driver.stop(stray, 0.0)
        for session in self._sessions.values():
            await self._withdraw(session.agent.unstarted())
        await self._give_back()
        # Last: what else remembers may be down for long by itself.
        await self._lost.ask(found.lost, busy, asked_s)

    def _for_each(self, listing: list[EngineJob]) -> list[EngineJob]:
        """A gang that is one job of the engine is shown as often as it has members."""
        return [*spread(listing, self._journal.entries)] if self._intake.whole else listing

    def _ours_by_theirs(self) -> dict[str, str]:
        """The node of ours for a node of the engine; of all that are in no list, the first pool."""
        pools = sorted(name for name, session in self._sessions.items() if session.spec.pool)
        known = {inside: ours for ours, inside in self._engine_nodes.items()}
        return {"": pools[0]} | known if pools else known

    def _tell(self, over: list[EngineEntry]) -> None:
        """Starts, ends and waits, node by node, in one message each."""
        events: dict[str, list[Began | Gone]] = {}
        for uid, job in self._seen.items():
            entry = self._journal.entries[uid]
            if job.phase is EnginePhase.RUNNING:
                events.setdefault(entry.node, []).append(started(job))
            elif job.phase is EnginePhase.WAITING and self._meter.is_news(uid):
                self._tell_waits(entry, job.reason or "it waits", job.id, job.node)
        for entry in over:
            events.setdefault(entry.node, []).append(ended(entry))
        for name, told in events.items():
            if (session := self._sessions.get(name)) is not None:
                session.hears(told)

    async def _give_back(self) -> None:
        """What waits inside for too long waits better outside, where others may pass it."""
        self._intake.give_back_incomplete(time.time())
        entries = self._journal.entries
        # Where jobs end and others are handed in early, what waits will have its turn.
        specs = [session.spec for session in self._sessions.values()]
        pools = {spec.name for spec in specs if spec.pool and not spec.early}
        due = [*self._meter.given_back(self._seen, entries, pools, time.time())]
        for uid, why in due:
            reason = f"{why} inside {self._name}: {self._seen[uid].reason}"
            self._journal.put([replace(entries[uid], given_back=reason)])
        if due:
            await self._look_at_nodes()  # As above.
        for uid in [uid for uid, entry in entries.items() if entry.given_back]:
            job = self._handle(uid)
            if job is not None and job.uid == uid and job.phase is EnginePhase.WAITING:
                with suppress(EngineError):  # The next look finds it again.
                    await self._driver.stop(job, 0.0)

    def _known_on(self, node: str) -> tuple[KnownAttempt, ...]:
        entries = [entry for entry in self._journal.entries.values() if entry.node == node]
        return tuple(known(entry, self._seen.get(entry.uid)) for entry in entries)

    def _shown(self, uid: str) -> EngineJob | None:
        """What is known of an attempt that people ask for, also after its end."""
        entry = self._journal.entries.get(uid)
        return self._seen.get(uid) or (entry.end if entry else self._journal.past(uid))
