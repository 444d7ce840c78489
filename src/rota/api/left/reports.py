"""What jobs say of how far they are: read from the node of a task, with the rights of its user.

A job on a node of Rota has a file for it, a line for each report. A function has left its last
one beside its result, too, with all that it named: there it may be more than numbers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rota.api.left.left_files import FOLDER_VARIABLE, LeftFile
from rota.core.facts.errors import RotaError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.api.context import Context
    from rota.core.facts.job import Attempt, Job

#: More than the file of a job holds that was written by Rota, and more than one line of it.
HISTORY_BYTES, LINE_BYTES = 96 * 1024, 8 * 1024
#: More names of figures than this are no curves that anybody reads.
FIGURES_MAX = 16
#: A node that does not answer so soon is not waited for.
READ_S = 2.0
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_OWN = frozenset({"fraction", "message", "at_s"})


class TaskReport(NamedTuple):
    """What a task said at one moment."""

    at_s: float
    #: From 0 to 1.
    fraction: float
    message: str
    figures: dict[str, Any]

    @property
    def numbers(self) -> dict[str, float]:
        """The figures that can be points of curves."""
        found = (item for item in self.figures.items() if _is_number(item[1]))
        return {name[:64]: float(value) for name, value in found}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def parsed(body: bytes, since_s: float = 0.0) -> TaskReport | None:
    """None: nonsense, or what a try before the one that began at ``since_s`` said."""
    try:
        said = _decode(body)
        fraction, at_s = float(said["fraction"]), float(said["at_s"])
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError, OverflowError):
        return None
    if not 0.0 <= fraction <= 1.0 or not since_s <= at_s < 1e11:
        return None
    figures = {name: value for name, value in said.items() if name not in _OWN}
    return TaskReport(at_s, fraction, str(said.get("message") or "")[:1000], figures)


async def last_report(context: Context, job: Job, task: int = 0) -> TaskReport | None:
    """What the last try of a task last said; None: nothing, or it cannot be read now."""
    attempt = last_try(job, task)
    if attempt is None:
        return None
    try:
        async with asyncio.timeout(READ_S):
            if FOLDER_VARIABLE in job.spec.variables:
                left = await LeftFile(context, job, task, "progress").read(0)
                if left.body:
                    return parsed(left.body, attempt.started_s)
            body = await read_lines(context, job, attempt, LINE_BYTES)
    except (RotaError, TimeoutError):
        return None
    return next(_reports(reversed(body), attempt.started_s), None)


async def reports_of(context: Context, job: Job, task: int) -> list[TaskReport]:
    """What the last try of a task has said, the oldest first; ``Unavailable``: not now."""
    attempt = last_try(job, task)
    if attempt is None:
        return []
    try:
        async with asyncio.timeout(READ_S):
            lines = await read_lines(context, job, attempt, HISTORY_BYTES)
    except TimeoutError:
        raise Unavailable(f"node {attempt.allocation.node} does not answer") from None
    found = sorted(_reports(lines, attempt.started_s), key=lambda one: one.at_s)
    if not found and (last := await last_report(context, job, task)) is not None:
        return [last]
    return found


def last_try(job: Job, task: int) -> Attempt | None:
    """The last try of a task that has begun; one that has not has said nothing."""
    attempts = job.tasks[task].attempts if task < len(job.tasks) else []
    return attempts[-1] if attempts and attempts[-1].started_s else None


async def read_lines(context: Context, job: Job, attempt: Attempt, most_bytes: int) -> list[bytes]:
    """The last lines of its file; a line that is cut off at the beginning is no report."""
    node = attempt.allocation.node
    session = context.host.sessions.by_node.get(node)
    if session is None:
        raise Unavailable(f"node {node} is not connected, what jobs say cannot be read now")
    found = await context.host.links.read_log(
        session.link,
        uid=attempt.uid,
        stream="progress",
        offset=-most_bytes,
        limit=most_bytes,
        user=job.spec.user,
    )
    return found.body.splitlines()


def _reports(lines: Iterator[bytes] | list[bytes], since_s: float) -> Iterator[TaskReport]:
    return (report for line in lines if (report := parsed(line, since_s)) is not None)
