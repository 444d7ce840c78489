"""A file that a function left on its node: its result, or how far it says it is.

A job that finds ``ROTA_RESULT_DIR`` in its variables leaves files named after its id and task in
that folder. They are read through the node's agent, with the rights of the job's user, like an
output file that the user chose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.api.jobs.log_reader import PART_BYTES
from rota.core.facts.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rota.api.context import Context
    from rota.core.facts.job import Job
    from rota.rpc.visits import LogPart

FOLDER_VARIABLE = "ROTA_RESULT_DIR"


class LeftFile:
    """One file that the last attempt of a task left."""

    def __init__(self, context: Context, job: Job, task: int, part: str) -> None:
        folder = job.spec.variables.get(FOLDER_VARIABLE, "")
        attempts = job.tasks[task].attempts if task < len(job.tasks) else []
        # One that never started has left nothing, whatever its user says where to look.
        if not folder.startswith("/") or not attempts or not attempts[-1].started_s:
            raise NotFound(f"job {job.id} has left no {part}", field="id", value=job.id)
        self._context = context
        self._path = f"{folder}/{job.id}.{task}.{part}"
        self._user = job.spec.user
        self._attempt = attempts[-1]

    async def read(self, offset: int) -> LogPart:
        """A piece of it, from the node that has it."""
        node = self._attempt.allocation.node
        session = self._context.host.sessions.by_node.get(node)
        if session is None:
            raise Unavailable(f"node {node} is not connected, its files cannot be read now")
        found: LogPart = await self._context.host.links.read_log(
            session.link,
            uid=self._attempt.uid,
            stream="stdout",
            offset=offset,
            limit=PART_BYTES,
            path=self._path,
            user=self._user,
        )
        return found

    async def pieces(self, first: LogPart) -> AsyncIterator[bytes]:
        piece = first
        while piece.body:
            yield piece.body
            piece = await self.read(piece.offset + len(piece.body))
