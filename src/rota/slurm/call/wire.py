"""What goes over the line between a relay and the server: frames inside one HTTP exchange.

A frame is a letter, the length of its body in four bytes (big endian), and the body. The first
one from the relay is ``R``, the request: texts with NUL between them. The body of the HTTP
request stays open while the answer is being read, so that both ends can speak.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from rota.api.errors import Malformed, TooLarge

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping
    from typing import Any

    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

HEAD = struct.Struct(">cI")
#: The most that one frame may weigh: an environment and its arguments, a script.
FRAME_MAX = 32 * 1024 * 1024

#: No kernel hands a longer argument or variable to a program.
WORD_MAX = 128 * 1024

#: From the relay.
REQUEST, FILE, INPUT, EVENT = b"R", b"F", b"I", b"E"
#: From the server; ``GET`` asks for a file, ``PUT`` for one to be written, ``INPUT`` for all of
#: standard input, ``LINE`` for a line of it, ``ORDER`` for something that only srun and salloc do.
STDOUT, STDERR, EXIT, GET, PUT, LINE, ORDER = b"o", b"e", b"x", b"g", b"p", b"l", b"d"
#: Both ways, for steps: what a task printed; a copy of that for others; input for one task.
OUTPUT, COPY, INPUT_OF_ONE = b"O", b"T", b"J"


class Frame(NamedTuple):
    kind: bytes
    body: bytes


class RelayRequest(NamedTuple):
    """The request as the relay wrote it."""

    program: str
    cwd: str
    umask: int
    columns: int
    host: str
    argv: tuple[str, ...]
    env: dict[str, str]


def decode_request(body: bytes) -> RelayRequest:
    """``1``, program, cwd, umask, columns, host, number of arguments, arguments, variables."""
    # Rota's records are text: what is not UTF-8 is shown as such, and never breaks a command.
    words = body.decode(errors="replace").split("\0")
    try:
        version, program, cwd, umask, columns, host, count = words[:7]
        if version != "1":
            raise Malformed(f"the relay speaks version {version[:20]}; this server speaks 1")
        last = 7 + int(count)
        argv = tuple(words[7:last])
        if any(len(word) > WORD_MAX for word in words):
            raise TooLarge(f"an argument or a variable has more than {WORD_MAX} characters")
        if int(count) < 0 or len(argv) != int(count):
            raise ValueError
        pairs = (word.partition("=") for word in words[last:])
        env = {name: value for name, mark, value in pairs if name and mark}
        return RelayRequest(program, cwd, int(umask, 8) & 0o777, int(columns), host, argv, env)
    except ValueError:
        raise Malformed("the relay's request is not complete") from None


class Stream:
    """The frames of one exchange, both ways."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._buffer = bytearray()
        self._over = False
        self._begun = False

    async def read(self) -> Frame | None:
        """The next frame; None when the relay has gone or has no more to say."""
        while True:
            if len(self._buffer) >= HEAD.size:
                kind, length = HEAD.unpack_from(self._buffer)
                if length > FRAME_MAX:
                    raise TooLarge(f"a frame has {length} bytes; at most {FRAME_MAX} are taken")
                end = HEAD.size + length
                if len(self._buffer) >= end:
                    body = bytes(self._buffer[HEAD.size : end])
                    del self._buffer[:end]
                    return Frame(kind, body)
            if self._over:
                return None
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._over = True
                return None
            self._buffer += message.get("body", b"")
            self._over = not message.get("more_body", False)

    async def write(self, *frames: tuple[bytes, bytes], last: bool = False) -> None:
        """Send frames; with ``last`` the exchange is over."""
        if not self._begun:
            self._begun = True
            await self._send(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [(b"content-type", b"application/x-rota-frames")],
                }
            )
        body = b"".join(HEAD.pack(kind, len(part)) + part for kind, part in frames)
        await self._send({"type": "http.response.body", "body": body, "more_body": not last})

    async def hang_up(self) -> None:
        """End the exchange without an exit code: the other side knows that more was to come."""
        await self.write(last=True)
