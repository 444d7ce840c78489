"""The driver: jobs of ours, by the rules of ``states``, through the requests of ``client``."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from rota.backends.api import (
    Driver,
    EngineAway,
    EngineError,
    EnginePhase,
    EngineRefused,
    Feature,
    Full,
    Paced,
)
from rota.backends.logs import COPY_BYTES_MAX, first_of
from rota.backends.orders import Key
from rota.backends.ray import machines, package
from rota.backends.ray.client import RayApi
from rota.backends.ray.room import RayRoom
from rota.backends.ray.settings import RaySettings  # noqa: TC001 - read as an annotation
from rota.backends.ray.states import ShimNotes, job_of, parse_notes
from rota.core.facts.states import Blame, Cause

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.backends.api import EngineJob, EngineNode
    from rota.backends.orders import AttemptOrder
    from rota.backends.ray.records import RayAmount, RayJob, RayNode
    from rota.core.facts.node import NodeSpec

#: The first version with these requests: nodes and actors with details, and files by node.
OLDEST = (2, 9)
#: A job that Ray has had in its list for so long has a process that starts it, or never will.
ORPHAN_S = 10.0
#: What Ray's own KILL has not ended so long after a stop without grace is ended with its actor.
KILL_S = 2.0
#: A removal that has failed is tried again.
AGAIN_S = 30.0
_SUFFIX = {"stdout": "out", "stderr": "err"}
_ABLE = frozenset(
    {Feature.STREAMS, Feature.STDIN, Feature.ULIMITS, Feature.GANGS, Feature.WHOLE_GANGS}
)

log = logging.getLogger("rota.engine")


def driver(settings: RaySettings) -> Driver:
    """The driver that a table of settings asks for."""
    return RayDriver(settings, RayApi(settings))


class RayDriver:
    """One Ray."""

    kind = "ray"
    settle_s = 2.0
    early = 0.0

    def __init__(self, settings: RaySettings, api: RayApi) -> None:
        self.cluster = ""
        self.poll_s = settings.poll_s
        places = {Feature.PLACES} if settings.placement == "ours" else set()
        self.features: frozenset[Feature] = _ABLE | places
        self._settings, self._api = settings, api
        self._room = RayRoom()
        #: Living nodes by name, as they were last shown, and all that were ever shown.
        self._living: dict[str, RayNode] = {}
        self._shown: dict[str, NodeSpec] = {}
        #: What shims wrote down of jobs that Ray lists: a start, then an end, and nothing after.
        self._notes: dict[str, ShimNotes] = {}
        #: Since when jobs have been seen to wait for the process that starts them.
        self._pending: dict[str, float] = {}
        #: Jobs that Ray keeps for ever, since nothing will start them; they are forgotten here.
        self._forgotten: set[str] = set()
        self._kills: dict[str, asyncio.Task[None]] = {}

    async def open(self) -> None:
        told = await self._api.open()
        numbers = tuple(int(part) for part in told.split(".")[:2] if part.isdecimal())
        if numbers < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise EngineRefused(f"Ray {told} is too old; {oldest} or later is needed", Blame.NODE)

    async def close(self) -> None:
        for task in self._kills.values():
            task.cancel()
        await asyncio.gather(*self._kills.values(), return_exceptions=True)
        await self._api.close()

    async def nodes(self) -> list[EngineNode]:
        self._living = machines.usable(await self._api.nodes())
        await self._listed()  # What is ours is not held by others.
        use = await self._api.use()
        foreign = {
            name: self._room.foreign(name, node.node_id, use) for name, node in self._living.items()
        }
        if self._settings.placement == "theirs":
            return [machines.as_pool(self._living, foreign)]
        shown = machines.as_nodes(self._living, foreign, self._shown.values())
        self._shown = {node.spec.name: node.spec for node in shown}
        return shown

    async def submit(self, order: AttemptOrder) -> str:
        package.check(order)
        number = package.id_of(order.key)
        nodes = await self._reserve(number, order)
        resources = [node.resource for node in nodes] if order.node else []
        try:
            name, parcel = package.package(order, resources)
            await self._api.upload(name, parcel)
            wish = package.wish(order, self._settings, resources[0] if resources else "", name)
            fresh = await self._api.submit(wish)
        except (EngineRefused, EngineAway):
            self._room.drop(number)
            raise
        if not fresh:
            log.info("attempt %s is in Ray already", order.uid)
        return number

    async def _reserve(self, number: str, order: AttemptOrder) -> list[RayNode]:
        """Nodes where it fits now: what Ray takes in and cannot start, it does not give back."""
        named = tuple(filter(None, order.node.split(",")))
        if not named or not self._living.keys() >= set(named):
            self._living = machines.usable(await self._api.nodes())
        use = await self._api.use()
        # From here to the claim nothing else may be submitted.
        self._keep_pace(named)
        wanted = package.held_per_node(order)
        fitting, problem = [], f"no node of Ray has {wanted} free now"
        for name in named or self._living:
            node = self._living.get(name)
            if node is None:
                raise Full(f"node {name} is not in Ray now")
            foreign = self._room.foreign(name, node.node_id, use)
            free = node.has.less(foreign).less(self._room.ours(name))
            if wanted.fits(free):
                fitting.append(node)
            elif named:
                raise Full(_too_little(name, free, foreign, wanted))
        needed = len(named) or _machines(order)
        if len(fitting) < needed:
            raise Full(problem if needed == 1 else f"{needed} nodes are wanted; {problem}")
        self._room.take(number, named, wanted, time.time())
        return fitting

    def _keep_pace(self, nodes: tuple[str, ...]) -> None:
        """Ray starts all that it takes in at once, and drowns its nodes with it."""
        most, now_s = self._settings.starts_per_node, time.time()
        for name in nodes:
            if (count := self._room.starting(name, now_s)) >= most:
                raise Paced(f"node {name} of Ray starts {count} of our jobs now")
        if not nodes and (count := self._room.starting("", now_s)) >= most * len(self._living):
            raise Paced(f"Ray starts {count} of our jobs now")

    async def jobs(self) -> list[EngineJob]:
        listed = await self._listed()
        shown = await asyncio.gather(*(self._shown_as(key, job) for key, job in listed))
        numbers = {job.id for _, job in listed}
        self._notes = {number: n for number, n in self._notes.items() if number in numbers}
        self._forgotten &= numbers
        self._pending = {number: s for number, s in self._pending.items() if number in numbers}
        return [job for job in shown if job.id not in self._forgotten]

    async def _listed(self) -> list[tuple[Key, RayJob]]:
        """All of ours; before the cluster is known, those of any."""
        jobs = await self._api.jobs()
        prefix = package.removals_of(self.cluster)
        await self._clear_away(job for job in jobs if job.id.startswith(prefix))
        every = [(package.key_of(job), job) for job in jobs]
        listed = [
            (key, job)
            for key, job in every
            if key is not None and self.cluster in ("", key.cluster)
        ]
        ours = [(key, job) for key, job in listed if not package.is_ghost(job)]
        for key, job in listed:
            if package.is_ghost(job) and key.cluster == self.cluster:
                await self._api.delete(job.id)
        names = {node.node_id: name for name, node in self._living.items()}
        self._room.see((job for _, job in ours), names, time.time())
        return ours

    async def _shown_as(self, key: Key, job: RayJob) -> EngineJob:
        orphaned = False
        if job.status == "PENDING":
            # By our own clock: a head that is behind takes in each job long ago.
            since_s = self._pending.setdefault(job.id, time.monotonic())
            if time.monotonic() - since_s > ORPHAN_S:
                orphaned = not await self._api.has_supervisor(job.id)
        names = {node.node_id: name for name, node in self._living.items()}
        bound, _ = package.claimed(job)
        notes = await self._notes_of(job)
        # The process of a gang is on the head, its first member where that one wrote down.
        first = notes.nodes[0] if notes is not None and notes.nodes else job.driver_node_id or ""
        node = names.get(first, bound[0] if bound else "")
        return job_of(key.uid, job, notes, node, orphaned)

    async def _notes_of(self, job: RayJob) -> ShimNotes | None:
        """Read until the shim has nothing more to say; None: its node does not answer."""
        known = self._notes.get(job.id)
        if job.driver_node_id is None:
            return ShimNotes()
        if known is not None and (known.complete or not job.over):
            return known
        try:
            body = await self._api.file(job.driver_node_id, f"{job.id}.state")
        except EngineError:
            return known
        notes = parse_notes(body or b"")
        if notes.complete or notes.started_s:
            self._notes[job.id] = notes
        return notes

    async def find(self, uids: Iterable[str]) -> list[EngineJob]:
        """By their ids. Nothing remembers what a head has forgotten."""
        keys = [Key(self.cluster, uid) for uid in uids]
        found = [(key, await self._api.job(package.id_of(key))) for key in keys]
        real = [(key, job) for key, job in found if job is not None and not package.is_ghost(job)]
        return [await self._shown_as(key, job) for key, job in real]

    async def changes(self) -> None:
        await asyncio.sleep(self.poll_s)

    async def signal(self, job: EngineJob, number: int) -> None:
        raise EngineRefused(f"Ray sends no signal {number}: it stops job {job.id} or not at all")

    async def stop(self, job: EngineJob, grace_s: float) -> None:
        """TERM and, after the grace of its launch, KILL by Ray; sooner by a removal.

        Ray answers that it has stopped a job that waits, and lets it wait: it is removed.
        """
        if job.phase is EnginePhase.WAITING and await self._waits(job.id):
            await self._remove(job.id)
            return
        await self._api.stop(job.id)
        if grace_s <= 0 and job.id not in self._kills:
            task = self._kills[job.id] = asyncio.create_task(self._kill(job.id))
            task.add_done_callback(lambda _: self._kills.pop(job.id, None))

    async def _waits(self, number: str) -> bool:
        """Whether Ray itself lets it wait, and not its program that is being started."""
        job = await self._api.job(number)
        return job is not None and job.status == "PENDING"

    async def _kill(self, number: str) -> None:
        await asyncio.sleep(KILL_S)
        try:
            await self._remove(number)
        except EngineError as error:
            log.warning("job %s of Ray cannot be killed: %s", number, error)

    async def _remove(self, number: str) -> None:
        """By a small job on the head; Ray takes one at a time for each that is to go."""
        job = await self._api.job(number)
        if job is not None and not job.over:
            await self._api.submit(package.removal(number, self._settings))

    async def _clear_away(self, removals: Iterable[RayJob]) -> None:
        """Those that have done their work. One that failed stays a while, and is not repeated."""
        for job in removals:
            if job.status == "SUCCEEDED":
                await self._api.delete(job.id)
            elif job.over and time.time() - job.ended_s > AGAIN_S:
                log.warning("job %s of Ray has failed: %s", job.id, (job.message or "").strip())
                await self._api.delete(job.id)

    async def forget(self, job: EngineJob) -> None:
        self._room.let_go(job.id, time.time())
        there = await self._api.job(job.id)
        if there is not None and not there.over:
            self._forgotten.add(job.id)  # Ray deletes what has ended, and nothing else.
        elif there is not None:
            await self._api.delete(job.id)

    async def read_log(
        self, job: EngineJob, stream: str, offset: int, limit: int, lines: int = 0
    ) -> tuple[bytes, int]:
        """Ray serves files from their beginning. Of a gang, each member has its own."""
        there = await self._api.job(job.id)
        if there is None or there.driver_node_id is None:
            return b"", 0
        own = package.id_of(Key(self.cluster, job.uid))
        where = await self._where(there, own)
        straight = offset >= 0 and not lines
        most = offset + limit + 1 if straight else COPY_BYTES_MAX
        try:
            body = await self._api.file(where, f"{own}.{_SUFFIX[stream]}", most) or b""
        except EngineAway:
            # Ray itself calls a node alive for a while after it has lost it.
            if job.cause is Cause.NODE_LOST or not await self._is_alive(where):
                raise EngineRefused("what it printed went with its node", Blame.NODE) from None
            raise
        if straight:
            return body[offset : offset + limit], len(body)
        return body[first_of(body, offset, lines) :][-limit:], len(body)

    async def _where(self, job: RayJob, member: str) -> str:
        """The id of the node whose log folder has the output."""
        names = (job.metadata or {}).get("rota_members", "").split()
        notes = await self._notes_of(job)
        if member in names and notes is not None and len(notes.nodes) == len(names):
            return notes.nodes[names.index(member)]
        return job.driver_node_id or ""

    async def _is_alive(self, node_id: str) -> bool:
        return any(node.alive for node in await self._api.nodes() if node.node_id == node_id)


def _machines(order: AttemptOrder) -> int:
    """On how many it runs."""
    gang = order.gang
    return -(-len(gang.uids) // max(1, gang.per_node)) if gang is not None else 1


def _too_little(name: str, free: RayAmount, foreign: RayAmount, wanted: RayAmount) -> str:
    return f"node {name} of Ray has {free} free, and {wanted} is wanted; others hold {foreign}"
