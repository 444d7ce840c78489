"""Slurm's own limit is longer than the job's: it rings only where Rota's does not.

What is on top may be more than a partition, a quality of service or an association allows. Such a
job waits for ever inside, or is refused at once; then it has to do without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.backends.api import EnginePhase, EngineRefused
from rota.backends.slurm.inner import code_of
from rota.slurmrest.verdicts import BAD_LIMIT

if TYPE_CHECKING:
    from rota.backends.api import EngineJob
    from rota.backends.slurm.inner import SlurmRequest, Transport

_TOO_LONG = ("PartitionTimeLimit", "QOSMaxWallDuration", "AssocMaxWallDuration")


class Backstops:
    """What was handed in with more than its own limit."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        #: The job's own limits in minutes, by uid.
        self._own: dict[str, int] = {}

    async def submit(self, uid: str, wish: SlurmRequest) -> str:
        try:
            number = await self._transport.submit(wish)
        except EngineRefused as error:
            if code_of(error) != BAD_LIMIT or wish.minutes <= wish.least_minutes:
                raise
            return await self._transport.submit(replace(wish, minutes=wish.least_minutes))
        if wish.minutes > wish.least_minutes:
            self._own[uid] = wish.least_minutes
        return number

    def is_too_long(self, job: EngineJob) -> bool:
        waits = job.phase is EnginePhase.WAITING and job.uid in self._own
        return waits and job.reason.startswith(_TOO_LONG)

    async def take_away(self, job: EngineJob) -> None:
        """What Slurm did not answer is tried again: the job would wait for ever."""
        if (minutes := self._own.get(job.uid)) is None:
            return
        try:
            await self._transport.shorten(job.id, minutes, job.user)
        except EngineRefused:
            self.forget(job.uid)
            raise
        self.forget(job.uid)

    def forget(self, uid: str) -> None:
        self._own.pop(uid, None)
