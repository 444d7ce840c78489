"""How jobs ended that did not end well: the last lines that they wrote, and what of a sweep failed.

Nobody who asks why waits long for a node: what cannot be read soon is left out.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from typing import TYPE_CHECKING

import msgspec

from rota.api.auth import may_look_into
from rota.api.jobs.log_reader import LogReader
from rota.api.views.attempt_views import told_detail
from rota.api.views.views import ref_of
from rota.controller.launches.launch import fill_in
from rota.core.facts.errors import RotaError
from rota.core.facts.states import FINAL, Cause, JobState
from rota.core.words.kin import is_kin
from rota.core.words.units import format_indices
from rota.scheduling.answers.explain import describe_end
from rota.store.api import JobFilter

if TYPE_CHECKING:
    from rota.api.context import Context
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job
    from rota.core.facts.tenant import Actor

LINES = 10
#: A node that does not answer so soon is not waited for.
READ_S = 3.0
#: The most elements whose last lines are read, to tell causes apart; the others go by their end.
LOOKED_INTO = 50
#: More elements than this are not gone through for one question.
ELEMENTS_MAX = 20_000
UNWELL = tuple(sorted(FINAL - {JobState.COMPLETED, JobState.CANCELLED}))
#: Ends after which nobody wonders what the program wrote.
_EXPLAINED = frozenset({Cause.CANCELLED, Cause.START_FAILED})
_NUMBERS = re.compile(r"[0-9]+")
_FRAME = re.compile(r'\s+File "')


class LastWords(msgspec.Struct):
    """Of a job that did not end well: what it ran, and what it wrote last."""

    command: str = ""
    #: The exception that ended a Python program, as it printed it; empty: none was seen.
    error: str = ""
    last_lines: list[str] = []


class FailureView(msgspec.Struct):
    """Elements of an array that ended for one cause."""

    cause: str
    state: JobState
    count: int
    #: Their indices, as in 3,7-9.
    indices: str
    #: The first of them, as it is named: 15_3.
    first: str
    last_lines: list[str]


async def last_words(context: Context, actor: Actor, job: Job, lines: int = LINES) -> LastWords:
    """Empty where the caller may not read it, or where the end says it all."""
    end = job.outcome
    seen = may_look_into(actor, job.spec.user) and is_kin(actor, job.id, job.spec)
    if end is None or end.state not in UNWELL or end.cause in _EXPLAINED or not seen:
        return LastWords()
    told = LastWords(_command(job))
    try:
        async with asyncio.timeout(READ_S):
            told.last_lines = await _tail(context, job, lines)
    except (TimeoutError, RotaError):
        return told
    told.error = raised(told.last_lines)
    return told


def _command(job: Job) -> str:
    if any("rota.client.runner" in word for word in job.spec.command):
        return f"the Python function {fill_in(job.spec.name, job)}"
    command = shlex.join(fill_in(word, job) for word in job.spec.command)
    return command or ("a script" if job.spec.script else "")


async def _tail(context: Context, job: Job, lines: int) -> list[str]:
    """Of standard error; of standard output where nothing was written to that."""
    task = next((one.index for one in job.tasks if one.attempts and _failed(one.attempts[-1])), 0)
    reader = LogReader(context, job, "stderr", task, None)
    attempts = reader.attempts()
    if not attempts:
        return []
    for stream in ("stderr", "stdout"):
        part = await reader.of(stream).part(attempts[-1], 0, lines)
        if part.body.strip():
            return part.body.decode(errors="replace").rstrip().splitlines()[-lines:]
    return []


def _failed(attempt: object) -> bool:
    return bool(getattr(attempt, "exit_code", None) or getattr(attempt, "signal", 0))


def raised(lines: list[str]) -> str:
    """What a Python program raised: the line behind the last frame of its traceback."""
    frames = [number for number, line in enumerate(lines) if _FRAME.match(line)]
    if not frames:
        return ""
    return next((line for line in lines[frames[-1] :] if not line.startswith(" ")), "")


async def failures(context: Context, actor: Actor, array: Array) -> list[FailureView]:
    """The elements that did not end well, by what ended them; the commonest cause first."""
    wanted = JobFilter(array=array.id, states=UNWELL)
    jobs: list[Job] = await context.host.read(
        lambda store: store.list_jobs(wanted, limit=ELEMENTS_MAX)
    )
    #: Exceptions that differ in numbers only are one; it is told in the words of the first.
    groups: dict[tuple[JobState, str], list[Job]] = {}
    told: dict[tuple[JobState, str], str] = {}
    words: dict[int, LastWords] = {}
    for number, job in enumerate(jobs):
        end = job.outcome
        if end is None:
            continue
        cause = alike = end_text(job, actor)
        if number < LOOKED_INTO:
            words[job.id] = await last_words(context, actor, job)
        if number < LOOKED_INTO and words[job.id].error:
            cause = words[job.id].error
            alike = _NUMBERS.sub("#", cause)
        key = (end.state, alike)
        groups.setdefault(key, []).append(job)
        told.setdefault(key, cause)
    found = [
        FailureView(
            told[key],
            key[0],
            len(members),
            format_indices([job.array_index for job in members]),
            ref_of(members[0]),
            words.get(members[0].id, LastWords()).last_lines,
        )
        for key, members in groups.items()
    ]
    return sorted(found, key=lambda one: -one.count)


def end_text(job: Job, actor: Actor) -> str:
    """``exit code 1``."""
    end = job.outcome
    assert end is not None
    open_ = may_look_into(actor, job.spec.user)
    text = describe_end(end.state, end.cause, told_detail(end, open_=open_))
    return text.removeprefix(f"{end.state}: ")
