"""The allocations of one pilot: in its journal, in its engine, and as nodes of the controller.

An allocation is on disk before the engine is asked, and is never asked for twice: one of which the
engine knows nothing is forgotten, and what waits then asks for another.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rota.backends.api import EngineAway, EngineError, EnginePhase
from rota.backends.journal import EngineEntry, Stance
from rota.backends.pace import EngineBreaker
from rota.backends.reconcile import Absences, look
from rota.pilots.orders import order_for
from rota.pilots.setbacks import Setbacks
from rota.pilots.shapes import PilotShape, is_of, new_uid, node_of, shapes_of, size_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.backends.api import Driver, EngineJob
    from rota.backends.journal import EngineJournal
    from rota.core.facts.site.pilot import Pilot
    from rota.pilots.desk import PilotDesk

#: An allocation that runs for so long without a node of ours is let go.
JOIN_S = 120.0
#: The kinds of nodes of an engine are looked at so often.
NODES_S = 60.0
#: Those that wait in the engine go when they have been of no use for so long.
SURPLUS_S = 5.0
#: A token is good for so long beside the time of the allocation: it may wait in the engine.
TOKEN_S = 7 * 86400
#: The most of a pilot's output that is told when it failed, in characters.
LAST_BYTES = 2000

log = logging.getLogger("rota.pilots")


class Fleet:
    """Everything that one pilot has asked for."""

    def __init__(
        self, pilot: Pilot, driver: Driver, journal: EngineJournal, desk: PilotDesk
    ) -> None:
        self.pilot = pilot
        self._driver, self._journal, self._desk = driver, journal, desk
        self._breaker = EngineBreaker(f"of pilot {pilot.name}")
        self._memory = EngineBreaker(f"of pilot {pilot.name} (its memory)")
        self._setbacks = Setbacks()
        self._absences = Absences(driver.settle_s)
        self._seen: dict[str, EngineJob] = {}
        #: Those whose node has been there, also before this process was.
        self._joined = {uid for uid in journal.entries if journal.fact(f"joined {uid}")}
        self._shapes: list[PilotShape] = []
        self._shapes_s = 0.0
        #: Since when allocations that wait have been of no use, and others without a node of ours.
        self._surplus, self._nodeless = Absences(SURPLUS_S), Absences(JOIN_S)
        self._again_s = 0.0
        self._open = self._looked = False
        #: No more are asked for, and it goes when the last is gone.
        self.retired = False

    @property
    def fresh(self) -> bool:
        """Whether the engine was not looked at yet: it may have some that no journal names."""
        return not self._looked

    def pause_s(self, now_s: float) -> float:
        """How long until more may be asked for; 0: they may."""
        return self._setbacks.pause_s(now_s)

    @property
    def entries(self) -> dict[str, EngineEntry]:
        return self._journal.entries

    @property
    def coming(self) -> list[str]:
        """Asked for, and not there yet."""
        return [uid for uid, entry in self.entries.items() if not self._is_there(uid, entry)]

    def _is_there(self, uid: str, entry: EngineEntry) -> bool:
        return entry.over or uid in self._joined

    async def shapes(self) -> list[PilotShape]:
        """What an allocation may have; none while the engine does not answer."""
        now_s = time.monotonic()
        if self.pilot.cpu_milli:
            return shapes_of(self.pilot, ())
        if not self._shapes or now_s - self._shapes_s > NODES_S:
            try:
                await self._opened()
                self._shapes = shapes_of(self.pilot, await self._driver.nodes())
                self._shapes_s = now_s
                self._breaker.answered()
            except EngineError as error:
                self._breaker.failed(str(error))
        return self._shapes

    async def _opened(self) -> None:
        if not self._open:
            await self._driver.open()
            self._open = True

    def may_ask(self, now_s: float) -> int:
        """How many more, by number and cost, and by how the last ones fared."""
        if self.retired or not self._setbacks.is_over(now_s):
            return 0
        alive = sum(not entry.over for entry in self.entries.values())
        return max(0, self.pilot.affordable - alive)

    async def ask(self, cluster: str, shape: PilotShape, number: int) -> None:
        self._driver.cluster = cluster
        await asyncio.gather(*[self._ask_one(cluster, shape) for _ in range(number)])

    async def _ask_one(self, cluster: str, shape: PilotShape) -> None:
        pilot, uid = self.pilot, new_uid(self.pilot.name, shape)
        made = await self._desk.join_token(pilot.name, pilot.time_s + TOKEN_S)
        token = ".".join(filter(None, (made["token"], made.get("fingerprint"))))
        order = order_for(pilot, cluster, uid, shape, pilot.url or made["url"], token)
        node = node_of(pilot.name, uid)
        entry = EngineEntry(
            uid=uid, node=node, state=Stance.INTENDED, order=order, at_s=time.time()
        )
        self._journal.note(f"token {uid}", made["id"])
        self._journal.put([entry])
        try:
            await self._opened()
            number = await self._driver.submit(order)
        except EngineAway as error:
            self._breaker.failed(str(error))
            self._setbacks.failed(f"{pilot.kind} does not answer: {error}", time.time())
            await self._forget(uid)
        except EngineError as error:
            if not _is_certain(error):
                log.warning("allocation %s may not have reached %s: %s", uid, pilot.name, error)
                return
            self._setbacks.failed(f"{pilot.kind} refuses a pilot: {error}", time.time())
            log.warning("pilot %s: %s", pilot.name, self._setbacks.line(time.time()))
            await self._forget(uid)
        else:
            # The token is in the engine now, and nowhere else.
            self._journal.put([replace(entry, state=Stance.SUBMITTED, id=number, order=None)])
            log.info("pilot %s: asked for %s as %s", pilot.name, node, number)

    async def look(self, cluster: str, nodes: set[str]) -> None:
        """Hold journal, engine and controller against each other."""
        self._driver.cluster = cluster
        asked_s = time.monotonic()
        if asked_s < self._again_s:
            return
        try:
            await self._opened()
            listing = [job for job in await self._driver.jobs() if self._concerns(job)]
            self._breaker.answered()
            ours = {"": self.pilot.name}
            found = look(self.entries, listing, set(), self._absences, asked_s, ours, time.time())
            for twin in found.strays:
                await self._driver.stop(twin, 0.0)
        except EngineError as error:
            self._again_s = time.monotonic() + self._breaker.failed(str(error))
            return
        self._looked = True
        self._journal.put(found.changed)
        self._seen = found.seen
        self._note_joined(nodes)
        for uid in found.due:
            await self._forget(uid)
        await self._look_for(found.lost)
        for uid, entry in [*self.entries.items()]:
            if entry.over:
                await self._over(uid, entry.end)
        await self._stop(self._orphans(nodes))

    async def _look_for(self, lost: list[str]) -> None:
        """In all that remembers. While that is down they stay as they are, and all others go on."""
        if not lost:
            return
        try:
            found = await self._driver.find(lost)
        except EngineError as error:
            self._memory.failed(str(error))
            return
        self._memory.answered()
        ended = {job.uid: job for job in found if job.phase is EnginePhase.ENDED}
        for uid in lost:
            await self._over(uid, ended.get(uid))

    def _concerns(self, job: EngineJob) -> bool:
        """One that has ended and is in no journal was forgotten for good."""
        known = job.uid in self.entries or job.phase is not EnginePhase.ENDED
        return known and is_of(self.pilot.name, job.uid)

    def _note_joined(self, nodes: set[str]) -> None:
        name = self.pilot.name
        here = {uid for uid in self.entries if node_of(name, uid) in nodes}
        for uid in here - self._joined:
            self._setbacks.worked()
            self._journal.note(f"joined {uid}", "yes")
        self._joined |= here

    def _orphans(self, nodes: set[str]) -> list[str]:
        """They run, and have no node of ours: it never came, or it has left long ago."""
        absent = [
            uid
            for uid, job in self._seen.items()
            if job.phase is EnginePhase.RUNNING and node_of(self.pilot.name, uid) not in nodes
        ]
        return self._nodeless.note(absent, time.monotonic())

    async def _over(self, uid: str, end: EngineJob | None) -> None:
        """It is gone: its node with it, and its token."""
        joined, failed = uid in self._joined, end is not None and bool(end.code)
        if not joined or failed:
            when, now_s = "" if joined else " before it joined", time.time()
            self._setbacks.failed(f"a pilot ended{when}: {await self._why(end)}", now_s)
            log.warning("pilot %s: %s", self.pilot.name, self._setbacks.line(now_s))
        if joined:
            await self._desk.remove_node(node_of(self.pilot.name, uid))
        if end is not None:
            try:
                await self._driver.forget(end)
            except EngineError as error:
                self._breaker.failed(str(error))
                return
        await self._forget(uid)

    async def _why(self, end: EngineJob | None) -> str:
        if end is None:
            return f"{self.pilot.kind} knows it no more"
        said = ""
        for stream in ("stderr", "stdout"):
            try:
                body, _ = await self._driver.read_log(end, stream, -LAST_BYTES, LAST_BYTES)
            except EngineError:
                continue
            lines = [line for line in body.decode(errors="replace").splitlines() if line.strip()]
            said = said or (lines[-1].strip()[:300] if lines else "")
        how = end.detail or (f"signal {end.signal}" if end.signal else f"exit code {end.code}")
        return ": ".join(filter(None, (how, said)))

    async def _forget(self, uid: str) -> None:
        if token := self._journal.fact(f"token {uid}"):
            await self._desk.revoke(token)
            self._journal.drop(f"token {uid}")
        self._journal.drop(f"joined {uid}")
        self._journal.forget([uid], time.time())
        self._joined.discard(uid)
        self._seen.pop(uid, None)

    async def follow(self, useful: dict[tuple[int, int, int], int]) -> None:
        """Those that wait in the engine and would not help go, if that stays so for a moment."""
        name, surplus = self.pilot.name, []
        left = dict(useful)
        for uid in sorted(self.coming, key=lambda uid: self._phase(uid) is EnginePhase.WAITING):
            size = size_of(name, uid)
            left[size] = left.get(size, 0) - 1
            if left[size] < 0 and self._phase(uid) is EnginePhase.WAITING:
                surplus.append(uid)
        await self._stop(self._surplus.note(surplus, time.monotonic()))

    def _phase(self, uid: str) -> EnginePhase | None:
        job = self._seen.get(uid)
        return job.phase if job is not None else None

    async def retire(self) -> None:
        """What waits goes at once, what runs when its jobs are over."""
        await self._stop([uid for uid in self._seen if self._phase(uid) is EnginePhase.WAITING])
        if not self.retired:
            self.retired = True
            for uid in self._joined & self.entries.keys():
                await self._desk.drain(node_of(self.pilot.name, uid), "its pilot was removed")

    async def _stop(self, uids: Iterable[str]) -> None:
        for uid in uids:
            # Nobody is to blame for the end of one that we let go ourselves.
            self._joined.add(uid)
            try:
                await self._driver.stop(self._seen[uid], 0.0)
            except EngineError as error:
                self._breaker.failed(str(error))

    async def close(self) -> None:
        if self._open:
            await self._driver.close()
        self._journal.close()

    def told(self, now_s: float) -> tuple[list[dict[str, Any]], str]:
        """For people: each allocation, and what is wrong."""
        found = []
        for uid, entry in self.entries.items():
            job = self._seen.get(uid)
            state = "asked for" if job is None else str(job.phase)
            if uid in self._joined:
                state = "up"
            elif job is not None and job.phase is EnginePhase.RUNNING:
                state = "starting"
            found.append(
                {
                    "node": node_of(self.pilot.name, uid),
                    "id": entry.id,
                    "state": state,
                    "reason": job.reason if job is not None else "",
                    "since_s": entry.at_s,
                }
            )
        return found, self._problem(now_s)

    def _problem(self, now_s: float) -> str:
        if self._breaker.why:
            return f"{self.pilot.kind} does not answer: {self._breaker.why}"
        if self._shapes_s and not self._shapes:
            return f"{self.pilot.kind} shows no whole node in service; name --cpus"
        return self._setbacks.line(now_s)


def _is_certain(error: EngineError) -> bool:
    """Whether it has not been taken for certain."""
    from rota.backends.api import EngineRefused, Full

    return isinstance(error, Full | EngineRefused)
