"""``rota run``: submit a job, follow it, end as it ends."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from rota.cli import exits, session
from rota.cli.follow import POLL_S, Follower, exit_code_of, patiently, wait_for
from rota.cli.options import CommandLine, words_argument
from rota.cli.submit import build, dry_run, output_options, shell_option
from rota.cli.submit_options import submit_options
from rota.cli.work import read_text
from rota.client.errors import ClientError
from rota.client.http import new_key

if TYPE_CHECKING:
    from rota.client.http import Client

_HELP = """Submit a job, print what it prints, and exit with its exit code.

\b
rota run [options] -- COMMAND ARGS…
rota run [options] SCRIPT ARGS…
echo data | rota run -- sort            standard input is passed on (to 8 MiB)

Takes the options of 'rota submit'. Ctrl-C asks whether to cancel the job, and cancels it when
pressed again (at once when this is no terminal). Use --stdin /dev/null inside a loop that reads.
"""

#: Two connections each; beyond that the output of so many at once is no use anyway.
TASKS_FOLLOWED = 16


class Interrupts:
    """What Ctrl-C means: a question first, then a cancel, then out of here."""

    def __init__(self, client: Client, job_id: int) -> None:
        self.client = client
        self.job_id = job_id
        self.cancelled = False

    def __call__(self) -> None:
        """Called on each Ctrl-C (and TERM). Raises ``KeyboardInterrupt`` when it is time to go."""
        self.client.close()
        if self.cancelled:
            session.warn(f"not waiting any longer; job {self.job_id} is being cancelled")
            raise KeyboardInterrupt
        if self._wants_cancel():
            self.cancelled = True
            session.warn(f"cancelling job {self.job_id}")
            self.client.delete(f"/jobs/{self.job_id}")

    def _wants_cancel(self) -> bool:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return True
        try:
            return click.confirm(f"\ncancel job {self.job_id}?", default=False, err=True)
        except (click.Abort, KeyboardInterrupt):
            return True


def passed_stdin() -> str | None:
    """What was piped to us; None when standard input is a terminal, closed or empty by nature."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return None
    text = read_text("-", "stdin")
    return text or None


def follow_to_end(client: Client, job_id: int, tasks: int = 1) -> dict[str, Any]:
    """Stream the output of every task until the job has ended; the job as it is then."""
    if tasks > TASKS_FOLLOWED:
        session.warn(f"showing the output of the first {TASKS_FOLLOWED} of {tasks} tasks")
    threads = [
        _follow_in_thread(job_id, task, stream, out)
        for task in range(min(tasks, TASKS_FOLLOWED))
        for stream, out in (("stdout", sys.stdout.buffer), ("stderr", sys.stderr.buffer))
    ]
    interrupts = Interrupts(client, job_id)
    pending = True
    while pending:
        try:
            answer = patiently(client, lambda: wait_for(client, [job_id], POLL_S), quiet=False)
            pending = bool(answer["pending"])
        except KeyboardInterrupt:
            interrupts()
    for thread in threads:
        thread.join()
    job: dict[str, Any] = patiently(client, lambda: client.get(f"/jobs/{job_id}"))
    return job


def _follow_in_thread(job_id: int, task: int, stream: str, out: BinaryIO) -> threading.Thread:
    def write(part: bytes) -> None:
        out.write(part)
        out.flush()

    def follow() -> None:
        client = session.connect()
        # The submit was answered: if nothing is there now, it will come back.
        client.has_answered = True
        try:
            Follower(client, f"/jobs/{job_id}", stream, write).follow(task=task)
        except BrokenPipeError:
            # Our reader has gone, as `head` does: the main thread waits on for the job's end.
            pass
        except ClientError as error:
            session.warn(f"{stream}: {error}")
        finally:
            client.close()

    thread = threading.Thread(target=follow, name=f"rota-{task}-{stream}", daemon=True)
    thread.start()
    return thread


def _last_words(job: dict[str, Any]) -> None:
    """Say why, where the exit code alone does not tell."""
    plain = job["state"] == "completed" or (job["state"] == "failed" and job.get("exit_code"))
    if not plain:
        cause = job.get("cause") or job.get("reason") or ""
        session.warn(f"job {job['id']}: {job['state']}{': ' if cause else ''}{cause}")


def _stop_like_interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


@click.command(
    cls=CommandLine,
    help=_HELP,
    params=[
        words_argument("[-- COMMAND… | SCRIPT…]"),
        shell_option(),
        *submit_options(),
        *output_options(),
    ],
)
@click.pass_context
def run(ctx: click.Context, /, **params: object) -> int:
    client = session.connect()
    body = build(ctx, client, run=True)
    if body.get("array") or body.get("parameters"):
        raise click.UsageError("'rota run' follows one job; use 'rota submit' and 'rota wait'")
    if "stdin" not in body and ctx.params["words"] != ("-",) and (piped := passed_stdin()):
        body["stdin"] = piped
    if params["dry_run"]:
        dry_run(body)
        return exits.OK
    job_id = client.post("/jobs", body, key=new_key())["id"]
    if sys.stderr.isatty() and not params["quiet"]:
        click.echo(f"job {job_id} submitted", err=True)
    signal.signal(signal.SIGTERM, _stop_like_interrupt)
    job = follow_to_end(client, job_id, body.get("tasks", 1))
    if not params["quiet"]:
        _last_words(job)
    return exit_code_of(job)
