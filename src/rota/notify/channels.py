"""The ways out: a POST to a URL, and notifiers that block, each call in a thread of its own."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import socket
import threading
from functools import cache
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from rota import __version__
from rota.notify.notice import encode_notice
from rota.settings.notify import is_public

if TYPE_CHECKING:
    import ssl

    from rota.notify.notice import Notice

#: The most that is read of an answer: its status and headers.
ANSWER_MAX = 16 * 1024
#: A receiver may ask for patience, up to this.
RETRY_AFTER_MAX_S = 300.0
#: Answers to which another try may help, beside 5xx.
LATER = frozenset({408, 409, 423, 425, 429})


class Unwanted(Exception):
    """The receiver is well and does not want this message: another try would change nothing."""


class NotNow(Exception):
    """It did not work this time."""

    def __init__(self, problem: str, after_s: float = 0.0) -> None:
        super().__init__(problem)
        #: How long the receiver asks us to wait.
        self.after_s = after_s


class Notifier(Protocol):
    """A plug-in for ``rota.notifiers``. It is called in a thread and may block for a while."""

    def send(self, notice: Notice, address: str, timeout_s: float) -> None:
        """Returns when the message is taken; raises anything at all when it was not."""


class Channel(Protocol):
    """A way to one address."""

    async def send(self, notice: Notice, timeout_s: float) -> None:
        """Raises ``Refused`` when no other try could help, anything else when one might."""


class HttpChannel:
    """Posts notices as JSON, signed if there is a secret. Follows no redirects.

    With ``public_only`` it speaks to public addresses alone: a user must not reach through the
    controller what only the controller can reach.
    """

    def __init__(
        self,
        url: str,
        headers: dict[str, str] | None = None,
        secret: str = "",
        *,
        public_only: bool = False,
    ) -> None:
        self._url = url
        self._headers = headers or {}
        self._secret = secret
        self._public_only = public_only

    async def send(self, notice: Notice, timeout_s: float) -> None:
        body = encode_notice(notice)
        try:
            async with asyncio.timeout(timeout_s):
                status, after_s = await self._post(notice, body)
        except TimeoutError:
            raise NotNow(f"no answer within {timeout_s:g} s") from None
        except (OSError, EOFError, ValueError) as error:
            raise NotNow(getattr(error, "strerror", "") or str(error) or "no answer") from error
        if 200 <= status < 300:
            return
        if status >= 500 or status in LATER:
            raise NotNow(f"it answered {status}", after_s)
        raise Unwanted(f"it answered {status}")

    async def _post(self, notice: Notice, body: bytes) -> tuple[int, float]:
        parts = urlsplit(self._url)
        secure = parts.scheme == "https"
        context = await asyncio.to_thread(_trust) if secure else None
        host, port = parts.hostname or "", parts.port or (443 if secure else 80)
        place = await _public_address(host, port) if self._public_only else host
        reader, writer = await asyncio.open_connection(
            place, port, ssl=context, limit=ANSWER_MAX, server_hostname=host if secure else None
        )
        try:
            writer.write(self._head(notice, body) + body)
            await writer.drain()
            return await _answer(reader)
        finally:
            writer.transport.abort()

    def _head(self, notice: Notice, body: bytes) -> bytes:
        parts = urlsplit(self._url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        fields = {
            "Host": parts.netloc,
            "User-Agent": f"rota/{__version__}",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
            "Idempotency-Key": notice.id,
            "X-Rota-Delivery": notice.id,
            "X-Rota-Event": notice.event,
        }
        if self._secret:
            fields["X-Rota-Signature"] = signature(self._secret, body)
        own = {name.lower() for name in self._headers}
        fields = {name: value for name, value in fields.items() if name.lower() not in own}
        lines = [f"{name}: {value}" for name, value in (fields | self._headers).items()]
        return "\r\n".join([f"POST {path} HTTP/1.1", *lines, "", ""]).encode("latin-1")


async def _public_address(host: str, port: int) -> str:
    """The address to connect to. It is the one that was looked at: a name may change its mind."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        if not is_public(address):
            raise Unwanted(f"{host} is at {address}, which is not public (see notify.hosts)")
    return addresses[0]


def signature(secret: str, body: bytes) -> str:
    """``sha256=`` and the HMAC of the body, so that receivers know who sent it."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


@cache
def _trust() -> ssl.SSLContext:
    import ssl

    return ssl.create_default_context()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, float]:
    """The status, and how long to wait if it says so; the body concerns nobody."""
    while True:
        line = (await reader.readline()).split(maxsplit=2)
        if len(line) < 2 or not line[0].startswith(b"HTTP/1.") or not line[1].isdigit():
            raise ValueError("it does not answer like a web server")
        status, after_s = int(line[1]), 0.0
        while field := (await reader.readline()).strip():
            name, _, value = field.partition(b":")
            if name.lower() == b"retry-after" and value.strip().isdigit():
                after_s = min(float(value), RETRY_AFTER_MAX_S)
        if status >= 200:
            return status, after_s


class ThreadChannel:
    """Calls a notifier in a thread. One that never comes back is not called again meanwhile."""

    #: Several steps of a mail may each take their time.
    STEPS_MAX = 6

    def __init__(self, notifier: Notifier, address: str) -> None:
        self._notifier = notifier
        self._address = address
        self._thread: threading.Thread | None = None

    async def send(self, notice: Notice, timeout_s: float) -> None:
        if self._thread is not None and self._thread.is_alive():
            raise NotNow("the last call has not come back yet")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def settle(error: BaseException | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            elif isinstance(error, Exception) and not isinstance(error, StopIteration):
                done.set_exception(error)
            else:
                done.set_exception(NotNow(f"{type(error).__name__}: {error}"))

        def work() -> None:
            error: BaseException | None = None
            try:
                self._notifier.send(notice, self._address, timeout_s)
            except BaseException as caught:
                error = caught
            # The loop may be gone: then nobody waits for the answer any more.
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, error)

        self._thread = threading.Thread(target=work, name="rota-notifier", daemon=True)
        self._thread.start()
        try:
            await asyncio.wait_for(done, timeout_s * self.STEPS_MAX)
        except TimeoutError:
            raise NotNow(f"not done within {timeout_s * self.STEPS_MAX:g} s") from None
