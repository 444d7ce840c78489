"""A Rota of one's own: started for a program, gone with it however it ends.

A guard process stands between the program and its Rota. It starts Rota, waits until the program
says goodbye or dies, then stops Rota with all jobs and removes the folder. The program itself
could not do that after a ``kill -9``.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from rota.client.cluster import ClusterContext
from rota.client.http import Client

if TYPE_CHECKING:
    from collections.abc import Mapping

READY = "ready"


def local(
    *,
    cpus: float = 0,
    gpus: int = 0,
    state_dir: str = "",
    settings: Mapping[str, str] | None = None,
) -> ClusterContext:
    """A Rota of one's own, started here and stopped, jobs included, when the context closes.

    ``cpus`` is how many its one node says it has, ``gpus`` how many made-up ones. Without
    ``state_dir`` nothing of it is left afterwards. ``settings`` are ``ROTA_…`` variables for it.
    """
    folder = state_dir or tempfile.mkdtemp(prefix="rota-local-")
    environment = _environment(folder, cpus, gpus, settings or {})
    guard = subprocess.Popen(
        [sys.executable, "-m", "rota.client.local", folder, "" if state_dir else "remove"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert guard.stdout is not None
    word = guard.stdout.readline().strip()
    if word != READY:
        guard.communicate()
        raise RuntimeError(word or "rota did not start")

    def stop() -> None:
        # Said in words: a forked child of this program may hold the pipe open after we close it.
        guard.communicate("stop\n")

    return ClusterContext(Client.from_environment(environment), stop, folder=folder)


def _environment(
    folder: str, cpus: float, gpus: int, settings: Mapping[str, str]
) -> dict[str, str]:
    """Ours, without what would lead to another Rota or describes a job that we are in."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    own = {"ROTA_STATE_DIR": folder, "ROTA_SERVER_LISTEN": "127.0.0.1:0"}
    own["ROTA_SERVER_SOCKET"] = "none"
    own["ROTA_SERVER_CHECKPOINT_PATH"] = os.path.join(folder, "checkpoints")
    if cpus:
        own["ROTA_AGENT_CPUS"] = str(cpus)
    if gpus:
        own["ROTA_AGENT_FAKE_GPUS"] = str(gpus)
    return {**kept, **own, **settings}


def guard(folder: str, remove: bool) -> int:
    """Start Rota, stay until the parent says goodbye or is gone, stop Rota."""
    trouble = _rota("up", "--detach")
    if trouble:
        _clean(folder, remove)
        _tell(trouble)
        return 1
    _tell(READY)
    _await_parent()
    _rota("down", "--stop-jobs", "--yes")
    _clean(folder, remove)
    return 0


def _clean(folder: str, remove: bool) -> None:
    if remove:
        shutil.rmtree(folder, ignore_errors=True)


def _tell(word: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(1, f"{word}\n".encode())


def _await_parent() -> None:
    """Until the parent says something, closes our standard input, or dies. The last counts by
    itself, because a child of the parent's may hold the pipe open.
    """
    watch = select.poll()
    watch.register(0, select.POLLIN | select.POLLHUP)
    with contextlib.suppress(OSError, AttributeError):
        watch.register(os.pidfd_open(os.getppid()), select.POLLIN)
    watch.poll()


def _rota(*args: str) -> str:
    """Run one command; what it complained about if it failed."""
    done = subprocess.run(
        [sys.executable, "-m", "rota.cli.main", *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.returncode:
        return ""
    return done.stderr.strip().rpartition("\n")[2] or f"rota {args[0]} failed"


if __name__ == "__main__":
    sys.exit(guard(sys.argv[1], sys.argv[2] == "remove"))
