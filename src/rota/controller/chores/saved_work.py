"""Saved work of jobs, wherever it lies: what is there, what is dropped, and when.

The folders are on the nodes. Agents tell which there are; only the controller knows which of their
jobs are over. A folder that several nodes share is told of by each of them and counted once.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from rota.controller.chores.trusted_time import trusted_s
from rota.controller.launches.launch import (
    CHECKPOINT_DIR,
    CHECKPOINT_STORE,
    folder_name,
    saved_work,
)
from rota.core.facts.errors import Unavailable
from rota.rpc.messages import (
    CheckpointAnswer,
    CheckpointFolder,
    DropCheckpoint,
    ListCheckpoints,
    NoteCheckpoint,
    Saved,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rota.controller.loop import Host
    from rota.core.facts.job import Job
    from rota.rpc.messages import ControllerMessage

log = logging.getLogger("rota.controller")

DAY_S = 86_400.0
#: To remove or measure a hundred gigabytes takes its time.
ANSWER_S = 120.0


class SavedWork:
    """Asks the agents about saved work."""

    def __init__(self, host: Host, variables: Mapping[str, str]) -> None:
        self._host = host
        self._variables = variables
        self._errands: set[asyncio.Task[object]] = set()

    def of(self, job: Job) -> Saved | None:
        """Where a job saves its work; None: this site has no place for it."""
        return saved_work(job, self._variables)

    async def listed(self, names: Iterable[str] = ()) -> dict[str, tuple[str, CheckpointFolder]]:
        """What lies on the nodes that are connected: folder -> (node, what is in it)."""
        root = self._variables.get(CHECKPOINT_DIR, "")
        chosen = tuple(names)
        answers = await self._ask_all(lambda request: ListCheckpoints(request, root, chosen))
        found: dict[str, tuple[str, CheckpointFolder]] = {}
        for node, answer in answers.items():
            for folder in answer.folders:
                known = found.get(folder.name)
                if known is None or known[1].changed_s < folder.changed_s:
                    found[folder.name] = (node, folder)
        return found

    def note(self, job: Job, body: bytes, drop: tuple[str, ...] = ()) -> None:
        """Have it written on the nodes where the job runs, or ran last; nobody waits for that."""
        saved = self.of(job)
        if saved is None:
            return
        runs = bool(job.live_attempts)
        nodes = dict.fromkeys(attempt.allocation.node for attempt in job.live_attempts or job.round)
        for number, node in enumerate(nodes):
            # What a try left was copied at its end; the next one may have saved more by now.
            work = self._ask(node, _noting(saved, body, drop, copies=runs and number == 0))
            task = asyncio.ensure_future(work)
            self._errands.add(task)
            task.add_done_callback(self._errands.discard)

    async def drop(self, job: Job) -> list[str]:
        """Remove what a job saved, on every node that is connected; what went wrong."""
        saved = self.of(job)
        if saved is None:
            return []
        answers = await self._ask_all(partial(_dropping, saved))
        return [f"{node}: {answer.error}" for node, answer in answers.items() if answer.error]

    async def _ask_all(
        self, message: Callable[[int], ControllerMessage]
    ) -> dict[str, CheckpointAnswer]:
        nodes = sorted(self._host.sessions.by_node)
        answers = await asyncio.gather(*(self._ask(node, message) for node in nodes))
        return {
            node: answer for node, answer in zip(nodes, answers, strict=True) if answer is not None
        }

    async def _ask(
        self, node: str, message: Callable[[int], ControllerMessage]
    ) -> CheckpointAnswer | None:
        session = self._host.sessions.by_node.get(node)
        if session is None:
            return None
        try:
            answer: CheckpointAnswer = await self._host.links.ask(session.link, message, ANSWER_S)
        except Unavailable as error:
            log.warning("node %s: %s", node, error)
            return None
        if answer.error:
            log.warning("node %s: %s", node, answer.error)
        return answer

    async def drop_old(self, days: int) -> int:
        """Remove what jobs left that ended so long ago, or that nobody knows any more."""
        before_s = await trusted_s(self._host, "old saved work") - days * DAY_S
        old = [
            name
            for name, (_, folder) in (await self.listed()).items()
            if (over_s := await self._over_since(name, folder)) is not None and over_s < before_s
        ]
        for name in old:
            root, store = self._variables[CHECKPOINT_DIR], self._variables.get(CHECKPOINT_STORE)
            saved = Saved(f"{root}/{name}", f"{store}/{name}" if store else "")
            await self._ask_all(partial(_dropping, saved))
        return len(old)

    async def _over_since(self, name: str, folder: CheckpointFolder) -> float | None:
        """When the job of a folder ended; None: it has not.

        A folder of a job that nobody knows is as old as what is in it.
        """
        number = int(name.partition("-")[0])
        job: Job | None = self._host.cluster.jobs.get(number)
        if job is None:
            job = await self._host.read(lambda store: store.job(number))
        if job is None or folder_name(job) != name:
            return folder.changed_s
        return job.ended_s or None


def _dropping(saved: Saved, request: int) -> ControllerMessage:
    return DropCheckpoint(request, saved)


def _noting(
    saved: Saved, body: bytes, drop: tuple[str, ...], *, copies: bool
) -> Callable[[int], ControllerMessage]:
    """One node copies into the store; each writes its note."""
    chosen = msgspec.structs.replace(saved, copies=copies)
    return lambda request: NoteCheckpoint(request, chosen, body, drop)


async def drop_old_checkpoints(work: SavedWork, days: int) -> None:
    """What is left of jobs that ended ``days`` days ago."""
    await work.drop_old(days)
