"""A thin client of the REST API: one kept connection, JSON, errors that fit on one line.

Commands are started in loops by scripts, so this file imports ``http.client`` and ``json`` only.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse
from itertools import product
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote, urlencode

from rota import logins, paths
from rota.client.errors import ClientError, NobodyThere, Refused, Unreachable
from rota.client.wire.answers import decode
from rota.client.wire.leading import await_answer
from rota.client.wire.sending import encode, given
from rota.client.wire.ways import KNOCK_S, check_url, connection_to
from rota.heads import LEADER_HEADER, MAX_LAG_HEADER, addresses_of
from rota.pretended import HEADER, REMARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import IO

API = "/api/v1"
#: The next of several heads is tried the sooner.
CONNECT_TIMEOUT_S, HEAD_CONNECT_S = 10.0, 3.0
ANSWER_TIMEOUT_S = 60.0
#: How long a call waits for one of several heads to lead, and between two rounds of asking.
HEADS_PATIENCE_S, HEADS_PAUSE_S = 20.0, 0.2
#: How long a submit waits for room in a full inbox before it gives up.
BUSY_PATIENCE_S = 30.0


class Client:
    """Speaks to one Rota. ``addresses`` are tried in order until one answers."""

    def __init__(self, addresses: list[str], token: str = "", fingerprint: str = "") -> None:
        self.addresses = addresses
        #: Whether they are those of several heads, of which one leads.
        self._has_heads = len(addresses) > 1 and not self.is_local
        #: A token may carry the fingerprint of the server's certificate behind a dot.
        self.token, _, named = token.partition(".")
        self.fingerprint = fingerprint or named
        #: Whether the server was there before: then it is worth waiting for its return.
        self.has_answered = False
        #: Those of the stream that was begun last.
        self.stream_headers = HTTPMessage()
        #: How many seconds behind the answer of a head that stands by may be; empty: none may.
        self.max_lag = ""
        #: Told what people must know of the server, whatever they asked of it.
        self.remark: Callable[[str], object] = lambda _: None
        self._connection: HTTPConnection | None = None
        self._streams: set[socket.socket] = set()
        self._prefix = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Client:
        """``ROTA_URL`` (http, https or unix) and ``ROTA_TOKEN``, else where one is logged in, else
        the local sockets.
        """
        url, token = environment.get("ROTA_URL", ""), environment.get("ROTA_TOKEN", "")
        if url:
            check_url(url)
        elif login := logins.chosen(environment):
            url, token = login.url, token or login.token
        addresses = addresses_of(url) or [f"unix://{path}" for path in paths.sockets(environment)]
        client = cls(addresses, token, environment.get("ROTA_FINGERPRINT", ""))
        client.max_lag = environment.get("ROTA_MAX_LAG", "")
        return client

    @property
    def is_local(self) -> bool:
        """Whether the kernel vouches for who we are: then the login name is our name there."""
        return all(address.startswith("unix:") for address in self.addresses)

    def twin(self) -> Client:
        """Another client of the same server, for another thread: this one is for one at a time."""
        twin = Client(list(self.addresses), self.token, self.fingerprint)
        twin.max_lag, twin.remark = self.max_lag, self.remark
        return twin

    def own_host(self) -> str:
        """Our address on the way to the server, where its jobs can reach us; empty: same box."""
        if self.is_local:
            return ""
        connection = self._connect(CONNECT_TIMEOUT_S)
        try:
            host: str = connection.sock.getsockname()[0]
            return host
        finally:
            connection.close()

    def secure_socket(self, host: str, port: int | None) -> socket.socket:
        """An encrypted connection for a caller that speaks something else than HTTP on it."""
        from rota.client.wire.pinned import PinnedConnection

        connection = PinnedConnection(host, port, CONNECT_TIMEOUT_S, self.fingerprint)
        connection.connect()
        connection.sock.settimeout(None)
        return connection.sock

    def knock(self) -> None:
        """Open the connection now. Of several heads one may be on its way: they are waited for."""
        if not self._has_heads:
            self._connection = self._connect(CONNECT_TIMEOUT_S)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def hang_up(self) -> None:
        """End every stream that is being read, from another thread than the reader's."""
        for sock in list(self._streams):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def get(self, path: str, **parameters: object) -> Any:  # noqa: ANN401 - JSON
        return self.call("GET", path, parameters=parameters)

    def post(self, path: str, body: object = None, *, key: str = "") -> Any:  # noqa: ANN401 - JSON
        """With ``key`` (an Idempotency-Key) the call is repeated safely when the line breaks."""
        return self.call("POST", path, body=body, key=key)

    def put(self, path: str, body: object) -> Any:  # noqa: ANN401 - JSON
        return self.call("PUT", path, body=body)

    def patch(self, path: str, body: object) -> Any:  # noqa: ANN401 - JSON
        return self.call("PATCH", path, body=body)

    def delete(self, path: str) -> Any:  # noqa: ANN401 - JSON
        return self.call("DELETE", path)

    def upload(self, path: str, file: IO[bytes], size: int) -> Any:  # noqa: ANN401 - JSON
        """Put a file, on a connection of its own, without ever holding it in memory."""
        headers = self._headers("application/json")
        headers |= {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        connection = self._connect(ANSWER_TIMEOUT_S)
        try:
            connection.request("PUT", self._target(path, None), file, headers)
            return decode(connection.getresponse())
        except (OSError, HTTPException) as error:
            self._broken(error)
        finally:
            connection.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        parameters: Mapping[str, object] | None = None,
        key: str = "",
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> Any:  # noqa: ANN401 - JSON
        """One call and its decoded answer. A full inbox (429) is waited out for a while."""
        give_up_s = time.monotonic() + BUSY_PATIENCE_S
        while True:
            response = self._exchange(method, path, body, parameters, key, timeout_s)
            try:
                return decode(response)
            except Refused as refusal:
                pause_s = max(refusal.retry_after_s, 0.05)
                if refusal.status != 429 or time.monotonic() + pause_s > give_up_s:
                    raise
                time.sleep(pause_s)

    def read(self, path: str, **parameters: object) -> tuple[bytes, HTTPMessage]:
        """The body of an answer that is no JSON, and its headers."""
        response = self._exchange("GET", path, None, parameters, "", ANSWER_TIMEOUT_S)
        if response.status >= 400:
            decode(response)
        return response.read(), response.headers

    def stream(self, path: str, **parameters: object) -> Iterator[bytes]:
        """The body of a streamed answer as it arrives, on a connection of its own."""
        return self.listen(path, parameters, None)

    def left_by(self, job: int, task: int = 0, part: str = "result") -> bytes | None:
        """What a task left on its node; None where it left nothing, or that is gone."""
        try:
            return b"".join(self.stream(f"/jobs/{job}/result", task=task, part=part))
        except Refused as refusal:
            if refusal.status != 404:
                raise
            return None

    def listen(
        self, path: str, parameters: Mapping[str, object], silence_s: float | None
    ) -> Iterator[bytes]:
        """As ``stream``; where the server is known to say something now and then, a longer
        silence means that the line is dead.
        """
        connection, response = self._listen_to_leader(path, parameters, silence_s)
        sock = connection.sock
        try:
            if response.status >= 400:
                decode(response)
            self.stream_headers = response.headers
            while part := response.read1(65536):
                yield part
        except (OSError, HTTPException) as error:
            self._broken(error)
        finally:
            self._streams.discard(sock)
            response.close()
            connection.close()

    def _listen_to_leader(
        self, path: str, parameters: Mapping[str, object], silence_s: float | None
    ) -> tuple[HTTPConnection, HTTPResponse]:
        give_up_s = time.monotonic() + HEADS_PATIENCE_S
        while True:
            connection = self._connect(ANSWER_TIMEOUT_S)
            connection.sock.settimeout(silence_s)
            self._streams.add(sock := connection.sock)
            try:
                target = self._target(path, parameters)
                connection.request("GET", target, headers=self._headers("*/*"))
                response = self._heard(connection.getresponse())
            except (OSError, HTTPException) as error:
                self._streams.discard(sock)
                connection.close()
                self._broken(error)
            if not self._stands_by(response) or not self._next_head(give_up_s):
                return connection, response
            self._streams.discard(sock)
            response.close()
            connection.close()

    def _exchange(
        self,
        method: str,
        path: str,
        body: object,
        parameters: Mapping[str, object] | None,
        key: str,
        timeout_s: float,
    ) -> HTTPResponse:
        """One exchange with the head that leads; while none does, a little patience."""
        give_up_s = time.monotonic() + HEADS_PATIENCE_S
        repeatable = method in {"GET", "PUT", "DELETE"} or bool(key)
        while True:
            try:
                response = self._exchange_once(method, path, body, parameters, key, timeout_s)
            except Unreachable as error:
                heard = not isinstance(error, NobodyThere)
                if (heard and not repeatable) or not self._next_head(give_up_s):
                    raise
                continue
            # A leader that lost its database says 503, too: under a key it is safe to ask the next.
            elsewhere = self._stands_by(response) or (response.status == 503 and bool(key))
            if not elsewhere or not self._next_head(give_up_s):
                return response
            response.close()

    def _stands_by(self, response: HTTPResponse) -> bool:
        """Whether this head does not lead. The one that does may be a new one to us."""
        leader = response.headers.get(LEADER_HEADER, "") if response.status == 503 else ""
        if leader.startswith("http") and self.token and leader not in self.addresses:
            self.addresses.append(leader)
            self._has_heads = True
        return bool(leader)

    def _next_head(self, give_up_s: float) -> bool:
        """Turn to the next address; False where there is none, or patience is at its end."""
        if not self._has_heads or time.monotonic() > give_up_s:
            return False
        self.close()
        self.addresses = [*self.addresses[1:], self.addresses[0]]
        time.sleep(HEADS_PAUSE_S)
        return True

    def _exchange_once(
        self,
        method: str,
        path: str,
        body: object,
        parameters: Mapping[str, object] | None,
        key: str,
        timeout_s: float,
    ) -> HTTPResponse:
        """Send and read the head of the answer; a connection that went stale is opened anew once.

        A call that changes something is repeated only under a key: it might have been done.
        """
        payload = None if body is None else encode(body)
        headers = self._headers("application/json")
        if payload is not None:
            headers["Content-Type"] = "application/json"
        if key:
            headers["Idempotency-Key"] = key
        repeatable = method in {"GET", "PUT", "DELETE"} or bool(key)
        while True:
            fresh = self._connection is None
            connection = self._connection or self._connect(timeout_s)
            self._connection = connection
            if connection.sock is not None:
                connection.sock.settimeout(timeout_s)
            try:
                connection.request(method, self._target(path, parameters), payload, headers)
                others = self.addresses[1:] if self._has_heads else ()
                if others:
                    await_answer(connection.sock, others, self.fingerprint, timeout_s)
                response = self._heard(connection.getresponse())
                self.has_answered = True
                return response
            except TimeoutError:
                self.close()
                raise Unreachable(
                    f"no answer from {self.addresses[0]} in {timeout_s:g} s"
                ) from None
            except (OSError, HTTPException) as error:
                self.close()
                if fresh or not repeatable:
                    self._broken(error)

    def _heard(self, response: HTTPResponse) -> HTTPResponse:
        if response.headers.get(HEADER):
            self.remark(REMARK)
        return response

    def _target(self, path: str, parameters: Mapping[str, object] | None) -> str:
        query = given(parameters or {})
        return self._prefix + API + path + (f"?{urlencode(query)}" if query else "")

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {"Accept": accept}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.max_lag:
            headers[MAX_LAG_HEADER] = self.max_lag
        return headers

    def _connect(self, timeout_s: float) -> HTTPConnection:
        failures: list[OSError] = []
        patience_s = min(timeout_s, HEAD_CONNECT_S if self._has_heads else CONNECT_TIMEOUT_S)
        # A machine that is gone does not even refuse: another head may be there the sooner.
        knocks = (KNOCK_S, None) if self._has_heads else (None,)
        for knock_s, address in product(knocks, self.addresses):
            connection, self._prefix = connection_to(address, patience_s, self.fingerprint, knock_s)
            try:
                connection.connect()
            except PermissionError:
                connection.close()
                raise Unreachable(
                    f"no permission to use {address}; is it another user's?"
                ) from None
            except OSError as error:
                connection.close()
                failures.append(error)
                continue
            others = [one for one in self.addresses if one != address] if self._has_heads else []
            self.addresses = [address, *others]
            return connection
        looked = ", ".join(address.removeprefix("unix://") for address in self.addresses)
        if self.is_local:
            raise NobodyThere(
                f"rota is not running here: start it with 'rota up --detach' (looked at {looked})"
            )
        raise NobodyThere(f"nothing answers at {looked}: {failures[-1].strerror or failures[-1]}")

    def _broken(self, error: Exception) -> NoReturn:
        what = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Unreachable(
            f"the connection to {self.addresses[0]} broke: {what}; is rota still running?"
        ) from None


def new_key() -> str:
    """A fresh Idempotency-Key. It is kept with the job: long enough, and no longer."""
    return os.urandom(12).hex()


def segment(text: object) -> str:
    """One segment of a path, whatever characters it has. Without any it would name them all."""
    name = str(text)
    if not name or "/" in name:
        raise ClientError(f"name: {name!r} is not valid; expected at least one character and no /")
    return quote(name, safe="")
