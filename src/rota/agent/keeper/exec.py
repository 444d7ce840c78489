"""Executing a command as a shell would: where it looks, which error says most, what it exits with.

The keeper runs this file without the package around it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from errno import ENOENT, ENOTDIR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

NOT_FOUND, NOT_EXECUTABLE = 127, 126
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


class SpawnFailed(Exception):
    """No process: in words, with the exit code that a shell would give where it has one."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


def candidates_of(command: str, environment: list[str]) -> tuple[bytes, ...]:
    """Where a shell would look for the command."""
    name = os.fsencode(command)
    if b"/" in name:
        return (name,)
    listed = next((entry[5:] for entry in environment if entry.startswith("PATH=")), "")
    folders = (listed or _DEFAULT_PATH).split(":")
    return tuple(os.fsencode(folder or ".") + b"/" + name for folder in folders)


def _execute(candidates: tuple[bytes, ...], argv: list[bytes], environment: list[bytes]) -> int:
    """Replace this process, or give the error that says most, as a shell would choose it."""
    table = dict(entry.split(b"=", 1) for entry in environment)
    saved = ENOENT
    for candidate in candidates:
        try:
            os.execve(candidate, argv, table)
        except OSError as error:
            if error.errno not in (ENOENT, ENOTDIR):
                saved = error.errno or saved
    return saved


def execute_or_fail(
    order: dict[str, Any], candidates: tuple[bytes, ...], argv: list[bytes], env: list[bytes]
) -> NoReturn:
    number = _execute(candidates, argv, env)
    raise not_executed(order, candidates, number, 2)


def not_executed(
    order: dict[str, Any], candidates: tuple[bytes, ...], number: int, stderr: int
) -> SpawnFailed:
    """What a shell would say and exit with; said in the job's error output, too."""
    command = order["argv"][0]
    folder = os.fsencode(order["cwd"])
    exists = any(os.path.exists(os.path.join(folder, path)) for path in candidates)
    if not exists:
        failure = SpawnFailed(f"command not found: {command}", NOT_FOUND)
    elif number == ENOENT:
        failure = SpawnFailed(f"command not found: the interpreter that {command} names", NOT_FOUND)
    else:
        reason = os.strerror(number).lower()
        failure = SpawnFailed(f"cannot execute {command}: {reason}", NOT_EXECUTABLE)
    with suppress(OSError):
        os.write(stderr, f"rota: {failure.message}\n".encode("utf-8", "replace"))
    return failure
