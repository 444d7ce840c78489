"""``rota exec`` and ``rota shell``: a program beside that of a running job."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from rota.cli.jobs.attach import Attachment
from rota.cli.jobs.wires import NORMAL, open_wire
from rota.cli.shared import session, types
from rota.cli.shared.options import CommandLine, SectionOption, job_and_command, words_argument
from rota.client.errors import ClientError
from rota.client.http import segment

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

_EXEC = """Run a COMMAND inside a running JOB, and exit with its exit code.

\b
rota exec 12 -- nvidia-smi
rota exec 12 -- py-spy dump --pid 1234
rota exec 15_3 --task 1 -- ls -l

It has the job's user, environment and folder, and counts against the job's CPUs and memory; it ends
with the job, or when you leave. At a terminal it has one too, with your keys; else it reads
nothing, and its standard error comes with its standard output. For owners of the job and operators
only; not for jobs in containers on our own nodes, and on an engine if it can (Slurm, Kubernetes).
"""
_SHELL = """Open a shell inside a running JOB.

\b
rota shell 12
rota shell @ --shell bash

It is your login shell there, unless --shell names another. Ctrl-] and then d leaves it, and ends
it. As with 'rota exec', it has the job's user, environment, folder, CPUs and memory.
"""
#: How the end of the program is told at the end of what it printed: terminals do not show it.
_MARK = re.compile(rb"\x1b\]7777;rota-exit=([0-9]{1,3})\x07")
_TOLD = "printf '\\033]7777;rota-exit=%d\\007' $?"
#: As much of the end may be the beginning of the mark.
_MARK_BYTES = 26
_PLAIN = f'stty raw -echo; "$@" </dev/null; {_TOLD}'
#: Ctrl-C is for the program alone: the shell around it lives on to tell how that ended.
_AT_TERMINAL = f'TERM=$1; export TERM; shift; trap : INT QUIT; "$@"; {_TOLD}'
_LOGIN = 'sh=$(getent passwd "$(id -u)" | cut -d: -f7); exec "${sh:-/bin/sh}" -i'


class Visit(Attachment):
    """An attachment that learns how its program ended."""

    def __init__(self, wire: ClientConnection, *, silent: bool) -> None:
        super().__init__(wire, read_only=silent)
        self._held = b""
        self.exit_code: int | None = None

    def show(self, piece: bytes) -> None:
        body = self._held + piece
        if found := _MARK.search(body):
            self.exit_code = int(found[1])
            body = body[: found.start()] + body[found.end() :]
        # The mark may be cut in two; it begins with an escape.
        cut = body.rfind(b"\x1b]77", max(0, len(body) - _MARK_BYTES))
        cut = len(body) if cut < 0 or self.exit_code is not None else cut
        self._held = body[cut:]
        super().show(body[:cut])


def visit(job: str, task: int, command: list[str]) -> int:
    """Run a command in a job until it ends or we leave; its exit code."""
    from websockets.exceptions import ConnectionClosed

    client = session.connect()
    name = session.job_name(client, job)
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    wrapped = ["/bin/sh", "-c", _PLAIN, "sh", *command]
    size = {}
    if at_terminal:
        wrapped = ["/bin/sh", "-c", _AT_TERMINAL, "sh", os.environ.get("TERM") or "dumb", *command]
        columns, rows = shutil.get_terminal_size()
        size = {"rows": rows, "columns": columns}
    wire = open_wire(client, f"/jobs/{segment(name)}/exec?task={task}")
    # A server that refuses hangs up at once; why, is read with all the rest.
    with suppress(ConnectionClosed):
        wire.send(json.dumps({"argv": wrapped, **size}))
    inside = Visit(wire, silent=not at_terminal)
    if not inside.hold():
        session.warn(f"left job {name}; what ran for you in it was ended")
        return 0
    if inside.exit_code is not None:
        return inside.exit_code
    if inside.code != NORMAL:
        raise ClientError(inside.reason or "the connection broke")
    raise ClientError(f"it was ended, with job {name} or by a signal")


def _task() -> SectionOption:
    return SectionOption.under(
        "Options", "--task", type=types.Number(0), default=0, help="Of this task.  [default: 0]"
    )


@click.command(
    "exec",
    cls=CommandLine,
    help=_EXEC,
    params=[words_argument("JOB -- COMMAND…"), _task()],
    context_settings={"allow_interspersed_args": True},
)
@click.pass_context
def execute(ctx: click.Context, /, task: int, **_: object) -> int:
    job, command = job_and_command(ctx)
    if not command:
        raise click.UsageError("run what? rota exec JOB -- COMMAND ('rota shell JOB' for a shell)")
    return visit(job, task, command)


@click.command("shell", help=_SHELL)
@click.argument("job", type=types.JobRefType())
@click.option("--task", type=types.Number(0), default=0, help="Of this task.  [default: 0]")
@click.option("--shell", help="This program.  [default: the login shell there]")
def shell(job: str, task: int, shell: str | None) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("a shell needs a terminal; use 'rota exec JOB -- COMMAND'")
    return visit(job, task, [shell, "-i"] if shell else ["/bin/sh", "-c", _LOGIN])
