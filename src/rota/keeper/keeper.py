"""The keeper: the parent of all job processes of a node, and as little else as possible.

    python -I -S keeper.py FOLDER [--idle-s N] [--start-s N] [--hold-s N] [--compact-bytes N]
                                  [--starter PATH]

It outlives agent and controller, so that neither their death nor their update touches running
work or loses an exit code. It speaks JSON lines on FOLDER/keeper.sock and remembers what it did
in FOLDER/journal. One keeper per folder: a lock sees to it. It needs the standard library only
and runs without the package around it, so that it starts fast and stays small.

Commands: see orders.py. Events: all (the first line on each connection), started, ended; see
``rota.session.instructions``.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import time
from contextlib import suppress
from json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from rota.keeper.bond import hurry
    from rota.keeper.build import compiled_starter
    from rota.keeper.journal import Journal, replay
    from rota.keeper.loop import Keeper
    from rota.keeper.means import Means
    from rota.keeper.orders import PROTOCOL
    from rota.keeper.processes import boot_id
    from rota.keeper.reap import REBOOTED
else:
    # Last, so that no file of ours can stand in for one of the standard library.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from keeper.bond import hurry
    from keeper.build import compiled_starter
    from keeper.journal import Journal, replay
    from keeper.loop import Keeper
    from keeper.means import Means
    from keeper.orders import PROTOCOL
    from keeper.processes import boot_id
    from keeper.reap import REBOOTED

PR_SET_CHILD_SUBREAPER = 36
READY = b"ready"


def main(arguments: list[str]) -> int:
    """Start a keeper in the background, and return once it listens (or one already did)."""
    means = Means(arguments)
    # Our parent may wait for the end of something that we inherited.
    os.closerange(3, max(map(int, os.listdir("/proc/self/fd"))) + 1)
    os.makedirs(means.folder, mode=0o711, exist_ok=True)
    means.starter = means.starter or compiled_starter(means.folder)
    ready_read, ready_write = os.pipe()
    if os.fork() == 0:
        os.close(ready_read)
        _detach_and_run(means, ready_write)
    os.close(ready_write)
    os.wait()
    answer = os.read(ready_read, 4096)
    if answer == READY:
        return 0
    message = answer.decode("utf-8", "replace") or "ended while it started, see keeper.log"
    sys.stderr.write(f"keeper: {message}\n")
    return 1


def _detach_and_run(means: Means, ready: int) -> NoReturn:
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    try:
        _run(means, ready)
    except BaseException as error:
        os.write(ready, f"{type(error).__name__}: {error}".encode("utf-8", "replace"))
        _say(f"broke down: {type(error).__name__}: {error}")
        raise
    os._exit(0)


def _run(means: Means, ready: int) -> None:
    folder = means.folder
    lock = os.open(f"{folder}/keeper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.write(ready, READY)
        return
    _redirect(folder)
    _become_subreaper()
    hurry()
    boot = boot_id()
    attempts, older = replay(f"{folder}/journal", boot)
    for uid in older:
        if attempts[uid].ended is None:
            attempts[uid].end(time.time(), error=REBOOTED, lost=True)
            attempts[uid].phase = "ended"
    journal = Journal(f"{folder}/journal")
    try:
        journal.rewrite(boot, attempts.values())
    except OSError as error:
        # Who would end the work when the lease is over, if not we.
        _say(f"goes on with the journal as it is: {error.strerror}")
        journal.go_on(boot)
    listener = _listen(folder)
    means.outlive_jobs()
    keeper = Keeper(listener, journal, attempts, boot, means, _say)
    private = os.open(f"{folder}/keeper.json", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(private, 0o600)
    with suppress(OSError), open(private, "w", encoding="utf-8") as note:
        note.write(dumps({"pid": os.getpid(), "started_s": time.time(), "protocol": PROTOCOL}))
    os.write(ready, READY)
    os.close(ready)
    keeper.run()
    # The lock goes with the process: the socket must be gone before it.
    with suppress(OSError):
        os.unlink(f"{folder}/keeper.sock")


def _redirect(folder: str) -> None:
    log = os.open(f"{folder}/keeper.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for fd in (null, log):
        if fd > 2:
            os.close(fd)
    os.umask(0o022)


def _become_subreaper() -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _listen(folder: str) -> socket.socket:
    """A socket that only our own user may open; the folder's path may be longer than a socket's."""
    os.chdir(folder)
    with suppress(FileNotFoundError):
        os.unlink("keeper.sock")
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    listener.bind("keeper.sock")
    os.umask(before)
    listener.listen(8)
    listener.setblocking(False)
    os.chdir("/")
    return listener


def _say(line: str) -> None:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    with suppress(OSError):
        os.write(2, f"{stamp} {line}\n".encode("utf-8", "replace"))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
