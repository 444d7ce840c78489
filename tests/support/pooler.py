"""A pooler before PostgreSQL that lends its one connection for a transaction, as pgbouncer may.

It speaks just enough of the protocol: clients are let in as they come, and between two of their
transactions the connection to the server goes to who asks next.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

#: Of the first message: that a client would like to encrypt, or to cancel something.
SSL, GSS = 80877103, 80877104
_READY, _IDLE = b"Z", b"I"


def _exactly(sock: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = sock.recv(size - len(found))
        if not part:
            raise ConnectionError("the other end is gone")
        found += part
    return found


def _message(sock: socket.socket) -> tuple[bytes, bytes]:
    """Its kind, and all of it."""
    head = _exactly(sock, 5)
    return head[:1], head + _exactly(sock, struct.unpack("!I", head[1:])[0] - 4)


class Pooler:
    """``port`` is where it lets clients in."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._server: socket.socket | None = None
        #: What the server said at its start: clients hear the same.
        self._welcome = b""
        self._lent = threading.Lock()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._door.getsockname()[1])
        threading.Thread(target=self._let_in, daemon=True).start()

    def close(self) -> None:
        self._door.close()
        if self._server is not None:
            self._server.close()

    def _let_in(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._door.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            start = self._start_of(client)
            with self._lent:
                server = self._server or self._open(start)
            client.sendall(self._welcome)
            while True:
                kind, said = _message(client)
                if kind == b"X":
                    return
                with self._lent:
                    server.sendall(said)
                    self._transaction(client, server)

    def _start_of(self, client: socket.socket) -> bytes:
        while True:
            head = _exactly(client, 8)
            size, code = struct.unpack("!II", head)
            if code not in (SSL, GSS):
                return head + _exactly(client, size - 8)
            client.sendall(b"N")

    def _open(self, start: bytes) -> socket.socket:
        self._server = server = socket.create_connection(self._target)
        server.sendall(start)
        kind = b""
        while kind != _READY:
            kind, said = _message(server)
            # A key of its own: what a client would cancel by it is a matter of the pooler.
            self._welcome += struct.pack("!cIII", b"K", 12, 1, 1) if kind == b"K" else said
        return server

    def _transaction(self, client: socket.socket, server: socket.socket) -> None:
        """Both ways, until the server says that it is between two of them."""
        done = threading.Event()

        def answer() -> None:
            with contextlib.suppress(OSError):
                while not done.is_set():
                    kind, said = _message(server)
                    client.sendall(said)
                    if kind == _READY and said[5:] == _IDLE:
                        done.set()

        answering = threading.Thread(target=answer, daemon=True)
        answering.start()
        client.settimeout(0.01)
        while not done.is_set():
            with contextlib.suppress(TimeoutError):
                # Nothing is lost by a look that finds nothing; a message comes as a whole.
                client.recv(1, socket.MSG_PEEK)
                server.sendall(_message(client)[1])
        answering.join()
        client.settimeout(None)


@contextlib.contextmanager
def pooling(port: int) -> Iterator[int]:
    """The port of a pooler before a server's."""
    pooler = Pooler(port)
    try:
        yield pooler.port
    finally:
        pooler.close()
