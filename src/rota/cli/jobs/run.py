"""``rota run``: submit a job, follow it, end as it ends."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import termios
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import click

from rota.cli.jobs.bell import DONE, SIGNAL, UNREAD, Bell
from rota.cli.jobs.far import tell_efficiency
from rota.cli.jobs.follow import POLL_S, LogFollower, exit_code_of, last_words, patiently, wait_for
from rota.cli.shared import exits, render, session
from rota.cli.shared.foretold import basis_of
from rota.cli.shared.live_line import LiveLine
from rota.cli.shared.options import CommandLine, words_argument
from rota.cli.submit.submit import (
    build,
    dry_run,
    fields_of,
    output_options,
    send,
    shell_option,
)
from rota.cli.submit.submit_options import submit_options
from rota.cli.submit.surroundings import refuse_unwritable
from rota.cli.submit.work import read_text
from rota.client.errors import ClientError, Refused
from rota.client.members import task_count

if TYPE_CHECKING:
    from rota.client.http import Client

_HELP = """Submit a job, print what it prints, and exit with its exit code.

\b
rota run [options] -- COMMAND ARGS…
rota run [options] SCRIPT ARGS…
echo data | rota run -- sort            standard input is passed on (to 8 MiB)

Takes the options of 'rota submit'. Ctrl-C asks whether to cancel the job, and cancels it when
pressed again (at once when this is no terminal). A job whose output nobody reads any more (| head)
is cancelled, too. When the terminal goes away (ssh is cut, a laptop sleeps) the job goes on:
'rota logs -f JOB' shows the rest. With --pty the job gets a terminal, and yours is
attached to it (see 'rota attach --help'). Input that the calling shell reads itself, as in
'while read', is left to it; --stdin - passes it on all the same.
"""

#: Two connections each; beyond that the output of all at once is no use anyway.
TASKS_FOLLOWED = 16
#: Programs that read lines of their standard input between two commands.
SHELLS = frozenset({"sh", "bash", "dash", "ash", "busybox", "zsh", "ksh", "mksh", "fish"})
#: A job that has not started so soon is told to wait, and looked at again so often.
WAITED_S = 1.5
WAITING = frozenset({"queued", "held", "preempted"})
#: Grace, KILL and the way back should be over in this time.
CANCEL_PATIENCE_S = 90.0


class Attendance:
    """Waits for a job's end and hears what its owner wants meanwhile.

    Ctrl-C asks first, cancels when pressed again, and leaves when pressed once more.
    """

    def __init__(self, client: Client, bell: Bell, job_id: int, shown: LiveLine) -> None:
        self.client = client
        self.bell = bell
        self.job_id = job_id
        self.shown = shown
        self.cancelled_s = 0.0
        self.error: ClientError | None = None

    def until_end(self) -> None:
        threading.Thread(target=self._wait, name="rota-wait", daemon=True).start()
        while True:
            heard = self.bell.listen(self._left_s())
            if heard:
                self.shown.end()
            if DONE in heard:
                if self.error is not None:
                    raise self.error
                return
            if SIGNAL in heard:
                self._interrupted()
            elif UNREAD in heard and not self.cancelled_s:
                self._stop("nobody reads its output any more: ")

    def _wait(self) -> None:
        """In a thread of its own: the main thread must stay free to hear."""
        client = session.connect()
        client.has_answered = True
        pending = True
        try:
            while pending:
                answer = patiently(
                    client, lambda: wait_for(client, [self.job_id], POLL_S), quiet=False
                )
                pending = bool(answer["pending"])
        except ClientError as error:
            self.error = error
        finally:
            client.close()
            self.bell.ring(DONE)

    def _interrupted(self) -> None:
        if self.cancelled_s:
            self._leave()
        if self._wants_cancel():
            self._stop()

    def _stop(self, reason: str = "") -> None:
        self.cancelled_s = time.monotonic()
        session.warn(f"{reason}cancelling job {self.job_id}")
        self._cancel()

    def _cancel(self) -> None:
        try:
            self.client.delete(f"/jobs/{self.job_id}")
        except Refused as error:
            # It ended by itself in the meantime: that is told in a moment.
            if error.status != 409:
                raise

    def _wants_cancel(self) -> bool:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return True
        try:
            with self.bell.silent():
                return click.confirm(f"\ncancel job {self.job_id}?", default=False, err=True)
        except (click.Abort, KeyboardInterrupt):
            return True

    def _left_s(self) -> float:
        """How long to wait on. A cancelled job ends soon, unless its node is out of reach."""
        if not self.cancelled_s:
            return 3600.0
        left_s = self.cancelled_s + CANCEL_PATIENCE_S - time.monotonic()
        if left_s <= 0:
            self._leave()
        return left_s

    def _leave(self) -> NoReturn:
        session.warn(f"not waiting any longer; job {self.job_id} is being cancelled")
        raise click.Abort


def passed_stdin(quiet: bool) -> str | None:
    """What was piped to us; None when standard input is a terminal, closed or empty by nature."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return None
    if shell_reads_it():
        left = fcntl.ioctl(sys.stdin.fileno(), termios.FIONREAD, bytes(4))
        if any(left) and not quiet:
            session.warn("its input is left to the shell, which reads it; --stdin - passes it on")
        return None
    text = read_text("-", "stdin")
    return text or None


def shell_reads_it() -> bool:
    """Whether our input is the one of the shell that called us: in ``while read``, or where the
    script itself comes from there, what we took would be missing there."""
    caller = Path("/proc", str(os.getppid()))
    try:
        ours, theirs = os.fstat(sys.stdin.fileno()), os.stat(caller / "fd/0")
        name = (caller / "comm").read_text().strip()
    except OSError:
        return False
    same = (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)
    return name in SHELLS and same and not stat.S_ISCHR(ours.st_mode)


def follow_to_end(
    client: Client, bell: Bell, job_id: int, tasks: int, shown: LiveLine
) -> dict[str, Any]:
    """Stream the output of every task until the job has ended; the job as it is then."""
    if tasks > TASKS_FOLLOWED:
        session.warn(f"showing the output of the first {TASKS_FOLLOWED} of {tasks} tasks")
    threads = [
        _follow_in_thread(bell, job_id, task, stream, out, shown)
        for task in range(min(tasks, TASKS_FOLLOWED))
        for stream, out in (("stdout", sys.stdout.buffer), ("stderr", sys.stderr.buffer))
    ]
    Attendance(client, bell, job_id, shown).until_end()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.1)
            if SIGNAL in bell.listen(0):
                raise click.Abort
    job: dict[str, Any] = patiently(client, lambda: client.get(f"/jobs/{job_id}"))
    return job


def _follow_in_thread(
    bell: Bell, job_id: int, task: int, stream: str, out: BinaryIO, shown: LiveLine
) -> threading.Thread:
    def write(part: bytes) -> None:
        shown.end()
        out.write(part)
        out.flush()

    def follow() -> None:
        client = session.connect()
        # The submit was answered: if nothing is there now, it will come back.
        client.has_answered = True
        try:
            LogFollower(client, f"/jobs/{job_id}", stream, write).follow(task=task)
        except BrokenPipeError:
            # Our reader has gone, as `head` does. A program at the end of that pipe would be
            # ended by its next line, and so is the job.
            if stream == "stdout":
                bell.ring(UNREAD)
        except ClientError as error:
            session.warn(f"{stream}: {error}")
        finally:
            client.close()

    thread = threading.Thread(target=follow, name=f"rota-{task}-{stream}", daemon=True)
    thread.start()
    return thread


def tell_waiting(job_id: int, shown: LiveLine) -> None:
    """Why the job waits and how long that may take: a line that is kept up to date at a terminal,
    else one that is said once, when it has waited a while."""
    client, live, told = session.connect(), sys.stderr.isatty(), False
    client.has_answered = True
    time.sleep(WAITED_S)
    with suppress(ClientError):
        while (job := client.get(f"/jobs/{job_id}"))["state"] in WAITING:
            answer = client.get(f"/jobs/{job_id}/why")
            line = waiting_line(answer)
            if not live and not told:
                session.warn(line)
            if not told and (basis := basis_line(answer)):
                session.warn(basis)
            if not told and not job.get("time_limit_s"):
                session.warn("no --time was given; with a limit the job may start sooner")
            told = True
            if live:
                shown.show(line)
            time.sleep(WAITED_S)
    shown.end()
    client.close()


def waiting_line(answer: dict[str, Any]) -> str:
    """``job 86 is queued: not enough free GPUs; expected to start in 12m on box``."""
    about = [str(line) for line in answer["lines"] if "expected to start" in str(line)]
    expected = about[0].removeprefix("it is ").partition(", if")[0] if about else ""
    told = [f"job {answer.get('ref') or answer['id']} is {answer['state']}: {answer['reason']}"]
    told += [expected] if expected else []
    return render.clean("; ".join(told))


def basis_line(answer: dict[str, Any]) -> str:
    """What the expected start rests on; empty where none is told."""
    lines = [str(line) for line in answer["lines"]]
    at = next((n for n, line in enumerate(lines) if "expected to start" in line), None)
    if at is None:
        return ""
    said = [line for line in lines[at + 1 :] if "this assumes" in line or "this is taken" in line]
    if said:
        return render.clean("; ".join(said))
    foretold = answer.get("foretold")
    basis = basis_of(foretold) if foretold else ""
    return f"this rests on time limits and on what such jobs took before{basis}"


def _last_words(client: Client, job: dict[str, Any]) -> None:
    """Say why, where the exit code alone does not tell, and what was held for nothing."""
    plain = job["state"] == "completed" or (job["state"] == "failed" and job.get("exit_code"))
    if not plain:
        session.warn(last_words(job))
    if sys.stderr.isatty():
        tell_efficiency(client, job["id"], str(job["id"]))


def _use_terminal(client: Client, body: dict[str, Any]) -> int:
    from rota.cli.jobs.attach import attach_when_running

    return attach_when_running(client, send(client, body)["id"])


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
    fields = fields_of(body)
    if fields is not body:
        body["alone"] = True
    if fields.get("array") or fields.get("parameters"):
        raise click.UsageError("'rota run' follows one job; use 'rota submit' and 'rota wait'")
    takes_input = "stdin" not in fields and not fields.get("pty") and ctx.params["words"] != ("-",)
    if takes_input and (piped := passed_stdin(bool(params["quiet"]))):
        fields["stdin"] = piped
    if params["dry_run"]:
        dry_run(body)
        return exits.OK
    if client.is_local:
        refuse_unwritable({"workdir": body["workdir"], **fields})
    if fields.get("pty"):
        return _use_terminal(client, body)
    shown = LiveLine()
    with Bell() as bell:
        job_id = send(client, body, quiet=bool(params["quiet"]))["id"]
        bell.impatient = False
        if sys.stderr.isatty() and not params["quiet"]:
            click.echo(f"job {job_id} submitted", err=True)
        if not params["quiet"]:
            threading.Thread(target=tell_waiting, args=(job_id, shown), daemon=True).start()
        job = follow_to_end(client, bell, job_id, task_count(fields), shown)
    if not params["quiet"]:
        _last_words(client, job)
    return exit_code_of(job)
