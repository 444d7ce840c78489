"""Files of the caller that options name: lists of nodes, and which task runs what."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from rota.core.facts.errors import Rejected
from rota.core.facts.indices import parse_indices
from rota.slurm.call.command import CommandFailed

if TYPE_CHECKING:
    from rota.slurm.call.command import Call
    from rota.slurm.orders.orders import JobOrder

#: More tasks than that are given no command of their own.
TASKS_MAX = 100_000


async def with_nodes(call: Call, order: JobOrder) -> None:
    """``--nodefile``: names of nodes between commas, blanks and line ends."""
    if name := order.text("nodefile"):
        words = (await read_text(call, name, "node file")).replace(",", " ").split()
        order.options["nodelist"] = ",".join(filter(None, [order.text("nodelist"), *words]))


async def read_text(call: Call, name: str, what: str) -> str:
    body = await call.line.read_file(call.request.path(name))
    if isinstance(body, int):
        line = f"Unable to open {what} {name}: {os.strerror(body)}"
        raise CommandFailed(f"{call.request.program}: error: {line}\n", 1)
    return body.decode(errors="replace")


async def program_text(call: Call, order: JobOrder, argv: list[str]) -> str:
    """``--multi-prog``: what the file says that stands for the command; it is read beforehand.

    A file that is not there, or cannot be understood, shall cost no allocation.
    """
    if not order.has("multi-prog"):
        return ""
    text = await read_text(call, argv[0], "configuration file")
    programs(order, argv, text)
    return text


def programs(order: JobOrder, argv: list[str], text: str) -> dict[int, list[str]]:
    """What each task runs by ``--multi-prog``; none without it.

    A line is ``0-3,5 program arguments``, with ``*`` for all tasks; in arguments ``%t`` is the
    number of the task and ``%o`` its place among those of the line.
    """
    found: dict[int, list[str]] = {}
    for number, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
        words = _words(argv[0], number, line)
        for place, rank in enumerate(_ranks(argv[0], number, words[0], order) if words else ()):
            if rank in found:
                raise _bad(argv[0], number, f"task {rank} has a program already")
            found[rank] = [_filled(word, rank, place) for word in words[1:]]
    return found


def _words(name: str, number: int, line: str) -> list[str]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise _bad(name, number, str(error).lower()) from None
    if len(words) == 1:
        raise _bad(name, number, f"no program for tasks {words[0]}")
    return words


def _ranks(name: str, number: int, text: str, order: JobOrder) -> list[int]:
    if text == "*":
        return list(range(order.ntasks or 1))
    try:
        runs, _cap = parse_indices(text)
    except Rejected:
        raise _bad(name, number, f"tasks {text}: expected numbers such as 0-3,5 or *") from None
    if sum(map(len, runs)) > TASKS_MAX:
        raise _bad(name, number, f"tasks {text}: at most {TASKS_MAX}")
    return [rank for run in runs for rank in range(run.first, run.last + 1, run.step)]


def _filled(word: str, rank: int, place: int) -> str:
    return word.replace("%t", str(rank)).replace("%o", str(place))


def _bad(name: str, number: int, what: str) -> CommandFailed:
    return CommandFailed(f"srun: error: {name}: line {number}: {what}\n", 1)
