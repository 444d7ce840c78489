"""``rota logs``: what a job printed."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from rota.cli import follow, session, types
from rota.client.errors import ClientError
from rota.paths import state_dir


def write_bytes(part: bytes) -> None:
    """As the job wrote it, at once."""
    sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()


@click.command()
@click.argument("job", type=types.JobRef())
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on until the job has ended.")
@click.option("--stderr", is_flag=True, help="Standard error instead of standard output.")
@click.option("--tail", type=types.COUNT, metavar="N", help="Only the last N lines.")
@click.option(
    "--task", type=types.COUNT, metavar="I", help="Of this task of the job.  [default: 0]"
)
@click.option(
    "--attempt", type=types.AT_LEAST_ONE, metavar="N", help="Of this try.  [default: last]"
)
@click.option("--path", is_flag=True, help="Print where the file is, on the job's node.")
def logs(job: str, follows: bool, stderr: bool, path: bool, **choice: Any) -> None:
    """Print what a JOB wrote to standard output.

    JOB is an id (12), an element of an array (12_3), or @ for your last job.
    """
    client = session.connect()
    place = session.job_path(client, job)
    stream = "stderr" if stderr else "stdout"
    if path:
        click.echo(_path(client.get(place), stream, choice))
        return
    if follows:
        chosen = {**choice, "task": choice["task"] or 0}
        follow.Follower(client, place, stream, write_bytes).follow(**chosen)
        return
    given = {name: value for name, value in choice.items() if value is not None}
    for part in client.stream(f"{place}/logs", stream=stream, **given):
        write_bytes(part)


def _path(job: dict[str, Any], stream: str, choice: dict[str, Any]) -> str:
    """The file of the attempt that was asked for, the last one if none was.

    Without --output the agent keeps it; that file is told when it is on this machine.
    """
    named = job.get("output" if stream == "stdout" else "error")
    if named:
        return str(named)
    attempts = [
        attempt
        for attempt in job.get("attempts") or ()
        if attempt["task"] == (choice["task"] or 0)
        and choice["attempt"] in (None, attempt["number"])
    ]
    if not attempts:
        raise ClientError("there is no such attempt; a job has a file once it was started")
    suffix = "out" if stream == "stdout" else "err"
    path = state_dir(os.environ) / "agent" / "logs" / f"{attempts[-1]['uid']}.{suffix}"
    if not path.exists():
        raise ClientError(f"the file is kept by the agent on {attempts[-1]['node']}, not here")
    return str(path)
