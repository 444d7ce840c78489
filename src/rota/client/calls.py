"""Python functions as jobs: how a call travels to the job.

Function and arguments are pickled by value where they must be (what is defined in ``__main__``, a
lambda, a closure) and by reference where the job can import them. The call is the job's standard
input, so it goes wherever the job goes. One that is too large for that is left in a folder that
job and submitter must share.
"""

from __future__ import annotations

import os
import pickle
import sys
from binascii import b2a_base64
from typing import TYPE_CHECKING, Any

import cloudpickle

from rota.client.runner import IN_FILE, ITEM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

#: A call above this goes into a file. The server takes 8 MiB of standard input, as text.
CALL_BYTES_MAX = 5 * 1024 * 1024
#: An item travels as a variable, of which the kernel takes 128 KiB.
ITEM_CHARS_MAX = 96 * 1024
#: So much text goes into one request for a family of jobs.
ROWS_CHARS_MAX = 12 * 1024 * 1024
#: The name of the parameter behind ``ITEM``.
PARAMETER = ITEM.removeprefix("ROTA_PARAM_")

COMMAND = ("-c", "from rota.client.runner import main; main()")


class CallFolder:
    """Where large calls wait for their job, and where results are left."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._count = 0

    def make(self) -> Path:
        """The folder itself; it is nobody else's to read."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.path

    def pack(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> str:
        """One call, as the text of a standard input."""
        _check(function)
        body = cloudpickle.dumps((function, args, dict(kwargs)), pickle.HIGHEST_PROTOCOL)
        search = [os.path.abspath(entry) for entry in sys.path]
        return self._text((sys.version_info[:2], search, body), CALL_BYTES_MAX)

    def rows(self, items: Iterable[tuple[Any, ...]]) -> list[str]:
        """One text for the arguments of each element of a map."""
        most = ITEM_CHARS_MAX * 3 // 4
        return [self._text(item, most) for item in items]

    def _text(self, value: object, bytes_max: int) -> str:
        body = cloudpickle.dumps(value, protocol=4)
        if len(body) <= bytes_max:
            return b2a_base64(body, newline=False).decode()
        self._count += 1
        file = self.make() / f"call-{os.getpid()}-{self._count}"
        file.write_bytes(body)
        return f"{IN_FILE}{file}"


def _check(function: object) -> None:
    if not callable(function):
        raise TypeError(f"submit: {function!r} is not a function; expected something to call")


def portions(rows: list[str]) -> list[list[str]]:
    """The rows in requests of a size that the server takes."""
    made: list[list[str]] = []
    size = ROWS_CHARS_MAX
    for row in rows:
        if size + len(row) > ROWS_CHARS_MAX:
            made.append([])
            size = 0
        made[-1].append(row)
        size += len(row)
    return made
