"""Why there is no process: from what a child reported to one line in words.

A start fails for the job's sake (its command, folder, files, limits, user) or for the node's (no
process to be had, a file system that is away, no room for a log). The keeper runs this file without
the package around it.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Whose sake it is for.
JOB, NODE = "job", "node"
NOT_FOUND, NOT_EXECUTABLE = 127, 126
#: Where a child was when it failed.
(
    *(USER, NOT_ROOT, CPUS, CGROUP, LIMIT, CWD, STDIN, STDOUT, STDERR, EXEC, BECOME),
    TERMINAL,
) = range(1, 13)
#: How executing failed: there is no such file, or not its interpreter, or it is no program.
NO_FILE, NO_INTERPRETER, CANNOT = range(3)
#: The machine's momentary state, or a file system that does not answer.
PASSING = (
    *(errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE),
    *(errno.ENOTCONN, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ETIMEDOUT, errno.EREMOTEIO),
)
#: Of a file that the agent has made for a job: its disk, and not what the job put there.
OF_DISK = (*PASSING, errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_FILES = {STDIN: "input", STDOUT: "output", STDERR: "error output"}
_PATHS = {STDIN: "stdin", STDOUT: "stdout", STDERR: "stderr"}
#: Flags of an order for files of the agent.
OWN_IN, OWN_OUT, OWN_ERR = 2, 4, 8
_OWN = {STDIN: OWN_IN, STDOUT: OWN_OUT, STDERR: OWN_ERR}


class NotReady(Exception):
    """What a start needs cannot be had. Without a fault the text says for whose sake."""

    def __init__(self, message: str, fault: str = "") -> None:
        super().__init__(message)
        self.fault = fault


class SpawnFailed(Exception):
    """No process: in words, with the exit code that a shell would give where it has one."""

    def __init__(self, message: str, code: int | None = None, fault: str = JOB) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.fault = fault


def failure_of(order: dict[str, Any], stage: int, number: int, extra: int, own: int) -> SpawnFailed:
    """What a child could not do. The flags of ``own`` say which files are the agent's."""
    if stage == EXEC:
        return not_executed(order["argv"][0], number, extra)
    reason = os.strerror(number).lower()
    fault = NODE if number in PASSING else JOB
    if stage in _FILES:
        path = order[_PATHS[stage]]
        fault = NODE if own & _OWN[stage] else fault
        return SpawnFailed(f"{_FILES[stage]} file {path}: {reason}", None, fault)
    if stage == CWD:
        if number == errno.ENOENT:
            reason = "no such directory"
        return SpawnFailed(f"working folder {order['cwd']}: {reason}", None, fault)
    if stage == LIMIT:
        name, value = list(order["ulimits"].items())[extra]
        return SpawnFailed(f"ulimit {name}={value}: above the hard limit")
    if stage == USER:
        reason = "no such user on this node" if not number else reason
        return SpawnFailed(f"user {order['user']}: {reason}", None, fault)
    if stage == NOT_ROOT:
        user = order["user"]
        return SpawnFailed(f"user {user}: the agent is not root and cannot start their jobs")
    return SpawnFailed(_of_node(order, stage, reason), None, NODE)


def _of_node(order: dict[str, Any], stage: int, reason: str) -> str:
    if stage == CPUS:
        return f"CPUs {sorted(order['cpus'])}: not available on this node"
    if stage == CGROUP:
        return f"cgroup {order['cgroup']}: {reason}"
    return f"terminal: {reason}" if stage == TERMINAL else f"user {order['user']}: {reason}"


def not_executed(command: str, number: int, how: int) -> SpawnFailed:
    """What a shell would say and exit with."""
    if how == NO_FILE:
        return SpawnFailed(f"command not found: {command}", NOT_FOUND)
    if how == NO_INTERPRETER:
        return SpawnFailed(f"command not found: the interpreter that {command} names", NOT_FOUND)
    reason = os.strerror(number).lower()
    return SpawnFailed(f"cannot execute {command}: {reason}", NOT_EXECUTABLE)


def no_process(number: int, tried_s: float) -> SpawnFailed:
    reason = os.strerror(number).lower()
    return SpawnFailed(f"no process to be had for {tried_s:.0f} s: {reason}", None, NODE)


def too_late(state: str, waited_s: float) -> SpawnFailed:
    """A child that did not come to its program; what it does says what holds it up.

    One that sleeps without hearing signals waits for a disk or a server of this node. Everything
    else is in the hands of the job's user: it was stopped, or waits for one of the user's files.
    """
    began = f"the program did not begin within {waited_s:g} s"
    if state == "D":
        return SpawnFailed(f"{began}: a file system of this node does not answer", None, NODE)
    if state in "Tt":
        return SpawnFailed(f"{began}: its process was stopped")
    return SpawnFailed(f"{began}: its folder, its files or its program do not answer")
