"""What one can ask about jobs and nodes, and do to them, without blocking the loop."""

from __future__ import annotations

import codecs
import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, overload

from rota.client import asking
from rota.client.errors import Refused
from rota.client.ids import id_of
from rota.client.status import JobStatus, Node, Why
from rota.client.verbs import page_size

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import Unpack

    from rota.client.aio.line import AsyncLine
    from rota.client.asking import JobOptions
    from rota.client.ids import AnyJob


class AsyncVerbs(ABC):
    """The twin of ``rota.client.verbs.Verbs``, name by name."""

    @property
    @abstractmethod
    def line(self) -> AsyncLine:
        """The connection to the server."""

    @property
    def url(self) -> str:
        """Where the server is; another program can give it to ``rota.connect``."""
        return self.line.url

    @property
    @abstractmethod
    def home(self) -> str:
        """What tells the jobs of this cluster from those of another one; it never changes."""

    def _id(self, job: AnyJob) -> int:
        return id_of(job, self.home)

    async def status(self, job: AnyJob) -> JobStatus:
        """The job as it is now."""
        return JobStatus(await self.line.call("GET", f"/jobs/{self._id(job)}"))

    async def jobs(self, *, limit: int | None = None, **filters: object) -> list[JobStatus]:
        """Jobs as they are now, the oldest first; see ``ClusterContext.jobs``."""
        found: list[JobStatus] = []
        cursor: str | None = ""
        while cursor is not None and (limit is None or len(found) < limit):
            size = page_size(limit, len(found))
            asked = {**filters, "limit": size, "cursor": cursor}
            page = await self.line.call("GET", "/jobs", parameters=asked)
            found += map(JobStatus, page["items"])
            cursor = page["cursor"]
        return found

    async def nodes(self) -> list[Node]:
        """The machines as they are now."""
        return [Node(record) for record in (await self.line.call("GET", "/nodes"))["items"]]

    async def why(self, job: AnyJob) -> Why:
        """Why a job waits and what would start it now, or how it ended."""
        return Why(await self.line.call("GET", f"/jobs/{self._id(job)}/why"))

    async def events(self, job: AnyJob) -> list[dict[str, Any]]:
        """What happened to the job, oldest first."""
        answer = await self.line.call("GET", f"/jobs/{self._id(job)}/events")
        found: list[dict[str, Any]] = answer["items"]
        return found

    async def cancel(self, job: AnyJob) -> bool:
        """Ask for the end of a job; False if it has ended already."""
        try:
            await self.line.call("DELETE", f"/jobs/{self._id(job)}")
        except Refused as refusal:
            if refusal.status != 409:
                raise
            return False
        return True

    async def hold(self, job: AnyJob) -> JobStatus:
        """Keep a job that waits from starting until it is released."""
        return await self._patch(job, {"action": "hold"})

    async def release(self, job: AnyJob) -> JobStatus:
        """Let a job go that is held, or was submitted with ``hold=True``."""
        return await self._patch(job, {"action": "release"})

    async def update(self, job: AnyJob, **options: Unpack[JobOptions]) -> JobStatus:
        """Change a job that exists: ``priority="high"``, ``time="4h"``, ``gpus=2``, ``queue=…``."""
        if not options:
            raise ValueError("update: nothing is given; say what to change, as in priority='high'")
        return await self._patch(job, asking.changes(options, self.home))

    async def _patch(self, job: AnyJob, body: Mapping[str, Any]) -> JobStatus:
        return JobStatus(await self.line.call("PATCH", f"/jobs/{self._id(job)}", body))

    @overload
    async def logs(
        self, job: AnyJob, stream: str = ..., *, task: int = ..., tail: int | None = ...,
        follow: Literal[False] = ...,
    ) -> str: ...  # fmt: skip

    @overload
    async def logs(
        self, job: AnyJob, stream: str = ..., *, task: int = ..., tail: int | None = ...,
        follow: Literal[True],
    ) -> AsyncIterator[str]: ...  # fmt: skip

    async def logs(
        self, job: AnyJob, stream: str = "stdout", *, task: int = 0, tail: int | None = None,
        follow: bool = False,
    ) -> str | AsyncIterator[str]:  # fmt: skip
        """All that a job has written so far; with ``follow`` pieces as they come, until it ends.

        ``async for text in await cluster.logs(job, follow=True)``.
        """
        pieces = self.log_pieces(job, stream, task, tail, follow=follow)
        return pieces if follow else "".join([piece async for piece in pieces])

    async def log_pieces(
        self, job: AnyJob, stream: str, task: int, tail: int | None, *, follow: bool
    ) -> AsyncIterator[str]:
        """What ``logs`` gives, piece by piece."""
        asked = {"stream": stream, "task": task, "tail": tail, "follow": "true" if follow else None}
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        async with self.line.stream(f"/jobs/{self._id(job)}/logs", asked) as pieces:
            async for piece in pieces:
                if text := decoder.decode(piece):
                    yield text
        if rest := decoder.decode(b"", final=True):
            yield rest

    async def progress(self, job: AnyJob, task: int = 0) -> dict[str, Any] | None:
        """What a task last said about how far it is; None before it said anything."""
        body = await self.line.left_by(self._id(job), task, "progress")
        found: dict[str, Any] | None = None if body is None else json.loads(body)
        return found
