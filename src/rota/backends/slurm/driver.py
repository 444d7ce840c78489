"""What the host of an engine calls, over either way to Slurm.

An id alone proves nothing: Slurm gives the ids of jobs that it lost to the next ones. So whatever
is believed, signalled or cancelled is compared with its comment, which is our key.
"""

from __future__ import annotations

import asyncio
import logging
import math
import pwd
import time
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rota.backends.api import Driver, EngineError, EngineJob, EnginePhase, EngineRefused, Feature
from rota.backends.orders import Key, parse_key
from rota.backends.pace import Pace
from rota.backends.slurm import visits
from rota.backends.slurm.backstops import Backstops
from rota.backends.slurm.commands import ByCommands
from rota.backends.slurm.folders import Folders
from rota.backends.slurm.inner import SlurmRequest, code_of
from rota.backends.slurm.nodes import SlurmUse, as_nodes, as_pools, partition_of, pool_at
from rota.backends.slurm.records import SlurmAmount
from rota.backends.slurm.rest import ByRest
from rota.backends.slurm.script import check, script
from rota.backends.slurm.settings import SlurmSettings  # noqa: TC001 - read as an annotation
from rota.backends.slurm.shim import UNSTARTED
from rota.backends.slurm.states import BOOTING, ENDS, WAITING, as_job, nodes_in
from rota.core.facts.states import Blame, Cause
from rota.slurmrest.verdicts import NO_PARTITION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rota.backends.api import ByteStream, EngineNode
    from rota.backends.orders import AttemptOrder
    from rota.backends.slurm.folders import Left, Program
    from rota.backends.slurm.inner import Transport
    from rota.backends.slurm.records import SlurmRecord

#: slurmctld writes its state every five seconds; what it had not written is lost with it.
SETTLE_S = 10.0
DAY_S = 86400.0
#: What every Slurm can do. Whether it holds jobs to their memory, only its site knows.
_ALWAYS = frozenset(
    {Feature.STREAMS, Feature.STDIN, Feature.SIGNALS, Feature.ULIMITS}
    | {Feature.GANGS, Feature.WHOLE_GANGS, Feature.KEEPS_LOGS, Feature.REPORTS}
)
_TERM = 15
_NOBODY = "nobody"
#: So long the script of a job that runs may take to its program.
BEGIN_S = 5.0
#: The most jobs whose limit is lowered after one look.
AT_ONCE = 8
#: A stop that Slurm did not answer is tried again.
AGAIN_S = 1.0

log = logging.getLogger("rota.engine")


def driver(settings: SlurmSettings) -> Driver:
    """The driver that a table of settings asks for."""
    return SlurmDriver(settings, ByRest(settings) if settings.rest_url else ByCommands(settings))


class SlurmDriver:
    """One Slurm."""

    kind = "slurm"
    settle_s = SETTLE_S
    #: Slurm begins the next job as one ends, and looks at new ones only every few seconds.
    early = 4.0

    def __init__(self, settings: SlurmSettings, transport: Transport) -> None:
        self._settings = settings
        self._transport = transport
        self._folders = Folders(settings.folder)
        self.poll_s = settings.poll_s
        self._pace = Pace(settings.poll_s)
        self.cluster = ""
        self.features: frozenset[Feature] = _ALWAYS
        #: Whose the attempts are that we handed in: jobs of others with their keys are not they.
        self._users: dict[str, str] = {}
        self._backstops = Backstops(transport)
        #: What Slurm listed last, jobs of others too, and the pools that ours were placed in.
        self._records: list[SlurmRecord] | None = None
        self._pools: dict[str, str] = {}
        #: What ended attempts have written down, by uid, id and restart: it changes no more.
        self._left: dict[tuple[str, str, int], Left] = {}
        self._stops: dict[str, asyncio.Task[None]] = {}

    async def open(self) -> None:
        await self._transport.open()
        places = {Feature.PLACES} if self._places else set()
        users = {Feature.USERS} if self._transport.acts_for_all else set()
        can_enter = visits.can_enter(acts_for_all=self._transport.acts_for_all)
        self.features = _ALWAYS | places | users | ({Feature.VISITS} if can_enter else set())

    @property
    def _places(self) -> bool:
        return self._settings.placement == "ours" and self._transport.places

    async def close(self) -> None:
        for task in self._stops.values():
            task.cancel()
        await asyncio.gather(*self._stops.values(), return_exceptions=True)
        self._folders.close()
        await self._transport.close()

    async def nodes(self) -> list[EngineNode]:
        found = await self._transport.nodes()
        if self._records is None:
            self._records = await self._transport.jobs()
        uses = self._uses(self._records, {str(node.get("name")): node for node in found})
        settings, shown = self._settings, as_nodes if self._places else as_pools
        reserved = bool(settings.reservation)
        listed = shown(found, settings.partition, uses, reserved=reserved)
        if self._transport.acts_for_all:
            return listed
        own = self._transport.user
        return [replace(node, spec=replace(node.spec, user=own)) for node in listed]

    def _uses(self, records: Iterable[SlurmRecord], nodes: Mapping[str, Any]) -> Iterator[SlurmUse]:
        """Who holds what on which node, node by node; ours with the pool that they are in."""
        for record in records:
            waits = record.state in WAITING and record.state != BOOTING
            if waits or record.state in ENDS or not record.nodes:
                continue
            key = parse_key(record.comment)
            ours = key is not None and key.cluster == self.cluster
            names = nodes_in(record.nodes)
            for name in names:
                pool = ""
                if key is not None and ours and name in nodes:
                    pool = self._pools.get(key.uid) or pool_at(record.partition, nodes[name])
                yield SlurmUse(name, SlurmAmount().plus(record.held, 1 / len(names)), pool)

    async def submit(self, order: AttemptOrder) -> str:
        check(order.launch)
        user = self._user_of(order)
        if order.pool:
            self._pools[order.uid] = order.pool
        await self._folders.prepare(user)
        wish = self._wish(order, user)
        self._users[order.uid] = user
        try:
            return await self._backstops.submit(order.uid, wish)
        except EngineRefused as error:
            if code_of(error) == NO_PARTITION and not self._is_of_job(order):
                # The site has named it, and may have taken it away since.
                raise EngineRefused(str(error), Blame.NODE) from None
            raise

    def _user_of(self, order: AttemptOrder) -> str:
        """Slurm starts it as the user, or as the only one for whom we may submit."""
        own = self._transport.user
        user = order.launch.user or own
        if user != own and not self._transport.acts_for_all:
            raise EngineRefused(f"user {user}: this engine submits to Slurm as {own} alone")
        return user

    def _wish(self, order: AttemptOrder, user: str) -> SlurmRequest:
        settings, launch = self._settings, order.launch
        gang = order.gang if order.gang is not None and len(order.gang.uids) > 1 else None
        per_node = gang.per_node if gang is not None else 1
        project = f"{settings.account_prefix}{order.project}" if settings.account_prefix else ""
        limit_s = order.time_limit_s + launch.grace_s + settings.backstop_s
        model = f":{order.gpu_type}" if order.gpu_type else ""
        return SlurmRequest(
            comment=str(order.key),
            script=script(order, lambda uid: self._folders.of(user, uid)),
            user=user,
            name=order.name or "rota",
            partition=self._partition(order),
            account=order.account or (project if order.project else "") or settings.account,
            qos=order.qos or settings.qos,
            reservation=settings.reservation,
            minutes=math.ceil(limit_s / 60) if order.time_limit_s else 0,
            least_minutes=math.ceil(order.time_limit_s / 60),
            nodes=(gang.nodes or math.ceil(len(gang.uids) / per_node)) if gang is not None else 1,
            tasks=len(gang.uids) if gang is not None else 1,
            tasks_per_node=per_node,
            cpus_per_task=max(1, math.ceil(launch.cpu_milli / 1000)),
            memory_mib_per_node=launch.memory_mib * per_node,
            gres=f"gpu{model}:{order.gpus * per_node}" if order.gpus else "",
            on=order.node if self._places else "",
        )

    def _partition(self, order: AttemptOrder) -> str:
        """A pool is one of a partition; else the queue says which one."""
        if order.pool:
            return partition_of(order.pool)
        settings = self._settings
        return settings.queues.get(order.queue, order.queue) or settings.partition

    def _is_of_job(self, order: AttemptOrder) -> bool:
        """Whether the job itself has named its partition, by its queue."""
        return not order.pool and bool(order.queue) and order.queue not in self._settings.queues

    async def jobs(self) -> list[EngineJob]:
        asked_s = time.monotonic()
        self._records = await self._transport.jobs()
        jobs = self._of_ours(self._records)
        self._pace.saw({(job.id, job.phase) for job in jobs}, time.monotonic() - asked_s)
        too_long = [job for job in jobs if self._backstops.is_too_long(job)]
        await asyncio.gather(*map(self._shorten, too_long[:AT_ONCE]))
        words = [self._with_its_word(job) for job in jobs if _unclear(job)]
        told = {job.id: job for job in await asyncio.gather(*words)}
        jobs = await self._one_begun([told.get(job.id, job) for job in jobs])
        listed = {(job.uid, job.id, job.restarts) for job in jobs}
        self._left = {at: left for at, left in self._left.items() if at in listed}
        return jobs

    async def _shorten(self, job: EngineJob) -> None:
        try:
            if await self._is_still(job):
                await self._backstops.take_away(job)
        except EngineError as error:
            log.warning("the limit of job %s of Slurm cannot be lowered: %s", job.id, error)

    async def _one_begun(self, jobs: list[EngineJob]) -> list[EngineJob]:
        """Of several with one key that have begun, the one that took the folder; the others end by
        themselves. Until the folder is taken the first stands alone: its twins may still take it,
        those that wait too.
        """
        by_key: dict[str, list[EngineJob]] = {}
        for job in jobs:
            by_key.setdefault(job.uid, []).append(job)
        hidden = set()
        for twins in by_key.values():
            begun = [job for job in twins if job.started_s and job.phase is not EnginePhase.WAITING]
            if len(twins) == 1 or not begun:
                continue
            owners = [t for t in begun if await self._folders.began(t.user, t.uid, t.id)]
            shown = (owners or begun)[0]
            others = begun if owners or shown.phase is EnginePhase.ENDED else twins
            hidden |= {twin.id for twin in others} - {shown.id}
        return [job for job in jobs if job.id not in hidden]

    async def find(self, uids: Iterable[str]) -> list[EngineJob]:
        """In slurmctld, in the accounting, and where an attempt has left a word of its own."""
        wanted = set(uids)
        found = [job for job in await self.jobs() if job.uid in wanted]
        missing = wanted - {job.uid for job in found}
        if missing:
            since_s = time.time() - self._settings.lookback_days * DAY_S
            # One that slurmctld no longer knows does not live, whatever the accounting was told.
            told = self._of_ours(await self._transport.past(since_s))
            past = [job for job in told if job.phase is EnginePhase.ENDED]
            # Its exit codes lack the highest bit, or are not there at all.
            found += [await self._with_its_word(job) for job in past if job.uid in missing]
        for uid in sorted(missing - {job.uid for job in found}):
            if (user := self._users.get(uid)) and (left := await self._folders.left(user, uid)):
                alone = EngineJob(uid=uid, id="", phase=EnginePhase.ENDED, user=user)
                found.append(_completed(alone, left))
        return found

    def _of_ours(self, records: Iterable[SlurmRecord]) -> list[EngineJob]:
        jobs = []
        for record in records:
            key = parse_key(record.comment)
            if key is None or key.cluster != self.cluster:
                continue
            user = owner(record)
            if user and self._users.get(key.uid, user) != user:
                continue  # A comment that somebody else has copied.
            jobs.append(replace(as_job(key.uid, record), user=user))
        return jobs

    async def _with_its_word(self, job: EngineJob) -> EngineJob:
        """With what the attempt itself wrote down, if it has come so far."""
        if job.phase is not EnginePhase.ENDED or not job.started_s:
            return job
        at = (job.uid, job.id, job.restarts)
        left = self._left.get(at) or await self._folders.left(job.user, job.uid)
        if left is None:
            return await self._without_its_word(job)
        self._left[at] = left
        return _completed(job, left)

    async def _without_its_word(self, job: EngineJob) -> EngineJob:
        """A slurmctld that lost jobs gives their numbers away. Where one of them still runs, its
        heir cannot, and Slurm itself cancels the heir before its script begins.
        """
        if job.code == UNSTARTED and job.cause is None:
            return _unstarted(job, "its folder is not its own")
        stopped = job.cause is Cause.CANCELLED
        if stopped and not await self._folders.began(job.user, job.uid, job.id):
            return _unstarted(job, f"{job.detail} before its script began")
        return job

    async def changes(self) -> None:
        await asyncio.sleep(self._pace.pause_s)

    async def signal(self, job: EngineJob, number: int) -> None:
        if await self._is_still(job):
            await self._transport.signal(job.id, number)

    async def stop(self, job: EngineJob, grace_s: float) -> None:
        """Slurm's own stop has a grace that is the same for all: a longer one is ours."""
        if not await self._is_still(job):
            return
        if grace_s <= 0 or job.phase is EnginePhase.WAITING:
            await self._transport.cancel(job.id)
        elif job.id not in self._stops:
            await self._transport.signal(job.id, _TERM)
            task = self._stops[job.id] = asyncio.create_task(self._stop_later(job, grace_s))
            task.add_done_callback(lambda _: self._stops.pop(job.id, None))

    async def _stop_later(self, job: EngineJob, grace_s: float) -> None:
        await asyncio.sleep(grace_s)
        while True:
            try:
                if await self._is_still(job):
                    await self._transport.cancel(job.id)
                return
            except EngineRefused as error:
                log.warning("attempt %s cannot be stopped: %s", job.uid, error)
                return
            except EngineError:
                await asyncio.sleep(AGAIN_S)

    async def _is_still(self, job: EngineJob) -> bool:
        """Whether the job with this id is the one that is meant."""
        return await self._transport.comment(job.id) == str(Key(self.cluster, job.uid))

    async def forget(self, job: EngineJob) -> None:
        """Slurm forgets by itself, and its accounting is not ours to change."""
        self._users.pop(job.uid, None)
        self._backstops.forget(job.uid)
        self._pools.pop(job.uid, None)

    async def read_log(
        self, job: EngineJob, stream: str, offset: int, limit: int, lines: int = 0
    ) -> tuple[bytes, int]:
        user = job.user or self._users.get(job.uid, "")
        if not user:
            return b"", 0
        return await self._folders.read(user, job.uid, stream, offset, limit, lines)

    async def enter(self, job: EngineJob, argv: tuple[str, ...]) -> ByteStream:
        return await visits.enter(job.user, await self._program(job), argv)

    async def reach(self, job: EngineJob, port: int) -> ByteStream:
        return await visits.reach(job.user, await self._program(job), port)

    async def _program(self, job: EngineJob) -> Program:
        """Slurm calls a job running a moment before its script has come so far."""
        until_s = time.monotonic() + BEGIN_S
        while True:
            found = await self._folders.program(job.user, job.uid)
            if found is not None and found.job == job.id:
                return found
            if time.monotonic() > until_s:
                raise EngineRefused("the job's program has not begun yet", Blame.NODE)
            await asyncio.sleep(BEGIN_S / 50)


def owner(record: SlurmRecord) -> str:
    """Whose job it is. A slurmrestd on a machine that knows no users calls each of them nobody."""
    if record.user_id < 0 or record.user not in ("", _NOBODY):
        return record.user
    try:
        return pwd.getpwuid(record.user_id).pw_name
    except KeyError:
        return record.user if record.user != _NOBODY else ""


def _unclear(job: EngineJob) -> bool:
    """Slurm does not say how it ended, or its script did not come to the program, as Slurm says."""
    if job.cause in (Cause.CANCELLED, Cause.START_FAILED):
        return True
    silent = job.code is None and not job.signal and job.cause is None
    return silent or (job.code == UNSTARTED and job.cause is None)


def _unstarted(job: EngineJob, why: str) -> EngineJob:
    """For the node's sake: another try is due."""
    return replace(
        job, cause=Cause.START_FAILED, fault=Blame.NODE, detail=why, code=None, started_s=0.0
    )


def _completed(job: EngineJob, left: Left) -> EngineJob:
    """Its end with what the attempt itself has written down."""
    if left.fault is not None:
        return replace(
            job, cause=Cause.START_FAILED, detail=left.unstarted, fault=left.fault, code=None
        )
    # One that came to its end by itself is not what was cancelled: after a crash slurmctld may
    # start a job once more, and cancel that. Nor has a program that ended failed to start: it may
    # die of the signal by which Slurm tells of failed starts.
    done = job.cause is Cause.CANCELLED and left.code == 0
    if done or job.cause is Cause.START_FAILED:
        job = replace(job, cause=None, detail="", fault=None)
    return replace(job, code=left.code, signal=left.signal)
