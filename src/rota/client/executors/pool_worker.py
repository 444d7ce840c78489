"""Inside a worker of a pool: run the calls that come over one line, until the line ends."""

from __future__ import annotations

import pickle
import socket
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

from rota.client import outcomes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

Address = str | tuple[str, int]


def open_line(sock: socket.socket, key: bytes, *, first: bool) -> Connection:
    """A line whose two ends have shown each other that they know the key.

    Nothing is unpickled before that. ``first`` is the end that asks first.
    """
    line = Connection(sock.detach())
    steps = [deliver_challenge, answer_challenge]
    try:
        for step in steps if first else reversed(steps):
            step(line, key)
    except BaseException:
        line.close()
        raise
    return line


def serve(address: Address, key: bytes) -> int:
    """Work for the pool at an address until it says goodbye; how many calls that were.

    A pool that is gone has no work: that is no failure.
    """
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.connect(address)
    except OSError:
        sock.close()
        return 0
    count = 0
    functions: dict[int, Callable[..., Any]] = {}
    try:
        with open_line(sock, key, first=False) as line:
            while message := line.recv_bytes():
                line.send_bytes(_answer(message, functions))
                count += 1
    except (EOFError, OSError):
        return count  # The program is gone, without a goodbye.
    return count


def _answer(message: bytes, functions: dict[int, Callable[..., Any]]) -> bytes:
    """Run one call. A function comes with its first call and is known by number afterwards."""
    try:
        number, body, arguments = pickle.loads(message)
        if body is not None:
            functions.clear()
            functions[number] = pickle.loads(body)
        args, kwargs = pickle.loads(arguments)
        return outcomes.returned(functions[number](*args, **kwargs))
    except SystemExit as leaving:
        return outcomes.raised(outcomes.JobError(f"the function called sys.exit({leaving.code!r})"))
    except Exception as error:
        return outcomes.raised(error)
