"""The agent's own folder: who works in it, and which installation it is."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from rota import sd_notify

if TYPE_CHECKING:
    from pathlib import Path


class CannotRun(Exception):
    """The agent cannot start; the text says why in one line."""


def lock(folder: Path) -> int:
    """One agent per folder, as long as the descriptor is open."""
    held = os.open(folder / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        holder = ""
        with suppress(OSError, ValueError, KeyError):
            holder = f" (pid {json.loads((folder / 'agent.json').read_text())['pid']})"
        raise CannotRun(f"another agent{holder} already runs on {folder}") from None
    return held


def incarnation_of(folder: Path) -> str:
    """The random name of this installation: a wiped folder is another node."""
    file = folder / "incarnation"
    with suppress(FileNotFoundError):
        file.chmod(0o600)
        text = file.read_text().strip()
        if text:
            return text
    text = secrets.token_hex(8)
    _write(file, text + "\n")
    return text


def introduce(folder: Path, node: str, refused: str = "", *, at_work: bool = False) -> None:
    """What others on this machine may know of us: whether we work for the controller, or why not.

    A session that the controller shows proves neither: its welcome may still be refused here.
    """
    sd_notify.ready(f"node {node}" + (f", not at work: {refused}" if refused else ""))
    facts: dict[str, object] = {"pid": os.getpid(), "node": node, "started_s": time.time()}
    facts |= {"at_work": True} if at_work else {"refused": refused} if refused else {}
    with suppress(OSError):  # A full disk keeps nobody from working.
        write_json(folder / "agent.json", facts)


def write_json(file: Path, body: dict[str, object]) -> None:
    _write(file, json.dumps(body) + "\n")


def _write(file: Path, text: str) -> None:
    """For our own eyes: others may pass through the folder."""
    fresh = file.with_name(file.name + ".new")
    with suppress(FileNotFoundError):
        fresh.unlink()
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as note:
        note.write(text)
    fresh.rename(file)
