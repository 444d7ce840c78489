"""``rota attach``: this terminal becomes the terminal of a job."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from rota.cli.jobs.follow import exit_code_of, last_words, patiently, wait_for
from rota.cli.jobs.wires import NORMAL, POLICY_VIOLATION, open_wire
from rota.cli.shared import exits, session, types
from rota.client.errors import ClientError, Refused
from rota.client.http import segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from websockets.sync.client import ClientConnection

    from rota.client.http import Client

_HELP = """Attach this terminal to the terminal of a running JOB.

\b
rota submit --pty -- python -i model.py
rota attach @                     @ is your last job
rota run --pty -- bash            both at once

What you type goes to the job, Ctrl-C too. Ctrl-] and then d detaches: the job goes on, and you
may attach again. Several people may be attached at once. Exits with the job's exit code when the
job ends, with 0 when you detach. For jobs that were submitted with --pty, and for their owners and
operators only.
"""

LEADER = 0x1D  # Ctrl-]


class TypedKeys:
    """Takes the detach sequence out of what is typed: Ctrl-] d. Ctrl-] twice sends one."""

    def __init__(self) -> None:
        self._led = False
        self.detached = False

    def feed(self, typed: bytes) -> bytes:
        """What of it is meant for the job."""
        meant = bytearray()
        for byte in typed:
            if self._led:
                self._led = False
                if byte in b"dD.":
                    self.detached = True
                    break
                meant += bytes([LEADER] if byte == LEADER else [LEADER, byte])
            elif byte == LEADER:
                self._led = True
            else:
                meant.append(byte)
        return bytes(meant)


class Attachment:
    """One connection between a terminal here and a terminal there."""

    def __init__(self, wire: ClientConnection, *, read_only: bool) -> None:
        self._wire = wire
        self._read_only = read_only
        self._keys = TypedKeys()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self.over = False
        self.code = 0
        self.reason = ""

    def hold(self) -> bool:
        """Until the terminal there is gone (True) or somebody detached (False)."""
        thread = threading.Thread(target=self._show, name="rota-attach", daemon=True)
        before = signal.signal(signal.SIGWINCH, lambda *_: self._ring(b"w"))
        try:
            with raw_terminal(not self._read_only):
                # Not before: lines that are shown on a terminal as it was end twice.
                thread.start()
                self._tell_size()
                self._type()
        finally:
            signal.signal(signal.SIGWINCH, before)
            self._wire.close()
            if thread.ident is not None:
                thread.join(5)
        return self.over

    def _ring(self, why: bytes) -> None:
        with suppress(OSError):
            os.write(self._wake_write, why)

    def _show(self) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            for piece in self._wire:
                self.show(piece if isinstance(piece, bytes) else piece.encode())
        except (ConnectionClosed, OSError):
            pass
        self.code = self._wire.close_code or 0
        self.reason = self._wire.close_reason or ""
        self.over = not self._keys.detached
        self._ring(b"o")

    def show(self, piece: bytes) -> None:
        """What comes from there."""
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()

    def _type(self) -> None:
        from websockets.exceptions import ConnectionClosed

        sources = [self._wake_read] if self._read_only else [self._wake_read, 0]
        try:
            while not (self.over or self._keys.detached):
                ready = select.select(sources, [], [])[0]
                if self._wake_read in ready and b"w" in os.read(self._wake_read, 64):
                    self._tell_size()
                if 0 in ready and not self._pass_on():
                    sources.remove(0)
        except KeyboardInterrupt:
            self._keys.detached = True
        except ConnectionClosed:
            self.over = True

    def _pass_on(self) -> bool:
        """What was typed here goes there; False at the end of the input."""
        typed = os.read(0, 4096)
        meant = self._keys.feed(typed)
        if meant:
            self._wire.send(meant)
        return bool(typed)

    def _tell_size(self) -> None:
        from websockets.exceptions import ConnectionClosed

        # A caller that was refused, or came too late, is told why by the end of the connection.
        with suppress(OSError, ConnectionClosed):
            size = os.get_terminal_size(1)
            if size.lines and size.columns and not self._read_only:
                self._wire.send(json.dumps({"rows": size.lines, "columns": size.columns}))


@contextmanager
def raw_terminal(wanted: bool) -> Iterator[None]:
    """Every key as it is pressed; the terminal is put back however this ends."""
    if not (wanted and sys.stdin.isatty()):
        yield
        return
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSADRAIN)  # keys that were pressed early count
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def dial(client: Client, job: object, *, task: int, read_only: bool) -> ClientConnection:
    """The WebSocket to a job's terminal."""
    place = f"/jobs/{segment(str(job))}/attach"
    return open_wire(client, f"{place}?task={task}&read_only={int(read_only)}")


def hold_on(client: Client, job: int, *, task: int = 0, read_only: bool = False) -> int:
    """Attach to a running job until it ends or somebody detaches; the exit code of the command."""
    attachment = Attachment(dial(client, job, task=task, read_only=read_only), read_only=read_only)
    if not attachment.hold():
        session.warn(f"detached from job {job}; it goes on ('rota attach {job}')")
        return exits.OK
    if attachment.code == POLICY_VIOLATION:
        raise ClientError(attachment.reason)
    if attachment.code != NORMAL:
        broke = f"the connection broke; job {job} goes on if it was running"
        raise ClientError(attachment.reason or broke)
    patiently(client, lambda: wait_for(client, [job], 30.0))
    return exit_code_of(patiently(client, lambda: client.get(f"/jobs/{job}")))


def attach_when_running(client: Client, job: int) -> int:
    """For ``rota run --pty``: wait for the start, then attach. Ctrl-C before it cancels the job."""
    try:
        while True:
            shown = patiently(client, lambda: client.get(f"/jobs/{job}"))
            if shown["state"] == "running":
                return hold_on(client, job)
            if shown.get("ended_at"):
                return _too_late(client, shown)
            time.sleep(0.05)
    except KeyboardInterrupt:
        with suppress(Refused):
            client.delete(f"/jobs/{job}")
        session.warn(f"cancelled job {job}")
        raise


def _too_late(client: Client, job: dict[str, Any]) -> int:
    """It ended before anybody could attach: show what it printed instead."""
    for piece in client.stream(f"/jobs/{job['id']}/logs"):
        sys.stdout.buffer.write(piece)
    sys.stdout.flush()
    if job["state"] != "completed":
        session.warn(last_words(job))
    return exit_code_of(job)


@click.command(help=_HELP)
@click.argument("job", type=types.JobRefType())
@click.option("--task", type=types.Number(0), default=0, help="Of this task.  [default: 0]")
@click.option("--read-only", is_flag=True, help="Only look; Ctrl-C detaches.")
def attach(job: str, task: int, read_only: bool) -> int:
    client = session.connect()
    return hold_on(client, session.job_id(client, job), task=task, read_only=read_only)
