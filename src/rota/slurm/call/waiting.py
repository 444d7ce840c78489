"""Waiting for jobs, with an eye on whether the caller that waits is still there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from rota.core.facts.array import Array
from rota.core.facts.job import Job
from rota.core.facts.states import FINAL, JobState
from rota.store.api import JobFilter

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from rota.api.context import Context

T = TypeVar("T")
#: Looked at again after this time at the latest.
LOOK_S = 1.0


class Stopping(Exception):
    """The server is told to stop while a command waits: its line ends without an exit code."""


async def unless_stopping(context: Context, work: Coroutine[Any, Any, T]) -> T:
    """Await something, or raise ``Stopping`` when the server goes first."""
    task = asyncio.ensure_future(work)
    closing = asyncio.ensure_future(context.closing.wait())
    try:
        await asyncio.wait({task, closing}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Stopping
        return task.result()
    finally:
        closing.cancel()
        task.cancel()


async def until_over(context: Context, job_id: int) -> list[Job]:
    """Every job of an id, once all of them have ended."""
    host = context.host
    while host.cluster.state_of(job_id) not in FINAL and not context.closing.is_set():
        watched = [job_id, *list(host.cluster.families.unfinished.get(job_id, ()))[:1000]]
        await context.until_closing(host.watch.settled(watched, LOOK_S))
    await host.on_disk()
    found = await host.read(lambda store: store.job(job_id) or store.array(job_id))
    if isinstance(found, Array):
        chosen = JobFilter(array=found.id)
        elements: list[Job] = await host.read(
            lambda store: store.list_jobs(chosen, limit=found.count)
        )
        return elements
    return [found] if isinstance(found, Job) else []


async def until_running(context: Context, job_id: int, timeout_s: float) -> JobState | None:
    """Its state when it runs or is over, or after this time."""
    host = context.host
    until_s = host.clock.now_s() + timeout_s
    while True:
        state = host.cluster.state_of(job_id)
        left_s = until_s - host.clock.now_s()
        waits = state in (JobState.QUEUED, JobState.HELD, JobState.SCHEDULED, JobState.PREEMPTED)
        if not waits or left_s <= 0 or context.closing.is_set():
            return state
        await context.until_closing(host.watch.settled([job_id], min(left_s, 0.02)))


def exit_code(jobs: list[Job]) -> int:
    """The worst of them; one that a signal or a limit ended counts as 1."""
    return max(map(_code, jobs), default=0)


def _code(job: Job) -> int:
    outcome = job.outcome
    if outcome is None or outcome.state is JobState.COMPLETED:
        return 0
    return outcome.exit_code or 1
