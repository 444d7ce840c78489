"""Asks an inventory service over HTTP: topology, GPUs, reservations of jobs.

Each call has a number of tries with growing pauses in between, and each try a time limit. A service
that keeps failing is left alone for a while; then callers are told at once.
"""

from __future__ import annotations

import random
import ssl
import threading
import time
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from rota.digits import is_digits
from rota.inventory.breaker import Breaker
from rota.settings.checks import check_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from http.client import HTTPResponse

API = "/api/v1"
TIMEOUT_S, TRIES = 30.0, 3
#: The first pause; each further one is twice as long. Half of it is left to chance, so that many
#: who failed together do not come back together.
PAUSE_S, PAUSE_S_MAX = 0.5, 10.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024


class InventoryError(Exception):
    """In one line, what is the matter with the inventory."""


class InventorySilent(InventoryError):
    """It does not answer, or not with sense: later it may, perhaps after a time that it named."""

    def __init__(self, text: str, retry_after_s: float = 0.0) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class InventoryRefused(InventoryError):
    """It understood, and will not: asking again does not help."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Gpu(msgspec.Struct):
    """A GPU as an inventory tells of it; what else it says is not read."""

    uuid: str = ""
    node: str = ""
    index: int = -1
    available: bool = True
    reserved_for: int | None = None
    jobs: list[int] = []


class _Gpus(msgspec.Struct):
    items: list[Gpu]


_gpus = msgspec.json.Decoder(_Gpus, strict=False).decode


class InventoryClient:
    """One service. Safe to use from several threads."""

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        timeout_s: float = TIMEOUT_S,
        tries: int = TRIES,
        pause_s: float = PAUSE_S,
        breaker: Breaker | None = None,
        sleep: Callable[[float], object] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._parts = urlsplit(check_url(url))
        self._token = token
        self._timeout_s = timeout_s
        self._tries = tries
        self._pause_s = pause_s
        self._breaker = breaker or Breaker()
        self._lock = threading.Lock()
        self._last = ""
        self._sleep, self._chance = sleep, chance

    def topology(self) -> Any:  # noqa: ANN401 - JSON
        """How its devices are connected, as it tells it."""
        return _json(self._call("GET", "/topology"))

    def gpus(
        self, *, available: bool | None = None, kind: str = "", limit: int | None = None
    ) -> list[Gpu]:
        """Its GPUs: all of them, or only the free ones, of a type, the first ``count``."""
        asked: dict[str, object] = {}
        if available is not None:
            asked["available"] = str(available).lower()
        asked |= {"type": kind} if kind else {}
        asked |= {"limit": limit} if limit is not None else {}
        body = self._call("GET", f"/gpus?{urlencode(asked)}" if asked else "/gpus")
        try:
            return _gpus(body).items
        except msgspec.MsgspecError as error:
            raise InventorySilent(f"the inventory's answer makes no sense: {error}") from None

    def reserve(self, job: int, gpu_ids: Iterable[str]) -> None:
        """Tell it that a job uses these GPUs; saying it twice is saying it once."""
        body = msgspec.json.encode({"job_id": job, "gpu_ids": list(gpu_ids)})
        self._call("POST", "/reservations", body)

    def release(self, job: int) -> None:
        """Tell it that a job uses none any more; one that it does not know is as good."""
        try:
            self._call("DELETE", f"/reservations/{quote(str(job))}")
        except InventoryRefused as error:
            if error.status != 404:
                raise

    def _call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """The body of a good answer, after as many tries as that takes."""
        problem = InventorySilent("the inventory was not asked")
        for number in range(self._tries):
            if number:
                self._sleep(self._pause(number, problem))
            self._refuse_while_open()
            try:
                answer = self._exchange(method, path, body)
            except InventorySilent as error:
                problem = error
                with self._lock:
                    self._last = str(error)
                    self._breaker.failed(time.monotonic())
            except InventoryRefused:
                with self._lock:
                    self._breaker.succeeded()
                raise
            else:
                with self._lock:
                    self._breaker.succeeded()
                return answer
        raise problem

    def _refuse_while_open(self) -> None:
        with self._lock:
            wait_s = self._breaker.wait_s(time.monotonic())
        if wait_s:
            raise InventorySilent(f"{self._last}; not asked again for {wait_s:.0f} s")

    def _pause(self, number: int, problem: InventorySilent) -> float:
        pause_s: float = min(self._pause_s * 2 ** (number - 1), PAUSE_S_MAX)
        return max(min(problem.retry_after_s, PAUSE_S_MAX), pause_s * (0.5 + 0.5 * self._chance()))

    def _exchange(self, method: str, path: str, body: bytes | None) -> bytes:
        connection = self._connection()
        headers = {"Accept": "application/json", "Connection": "close"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, f"{self._parts.path.rstrip('/')}{API}{path}", body, headers)
            response = connection.getresponse()
            with response:
                answer = response.read(ANSWER_BYTES_MAX + 1)
                left = response.length
        except TimeoutError:
            raise InventorySilent(f"no answer within {self._timeout_s:g} s") from None
        except (OSError, HTTPException, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise InventorySilent(f"{self._parts.netloc}: {str(why).lower()}") from None
        finally:
            connection.close()
        _judge(response, answer, bool(left))
        return answer

    def _connection(self) -> HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            context = ssl.create_default_context()
            return HTTPSConnection(host, port, timeout=self._timeout_s, context=context)
        return HTTPConnection(host, port, timeout=self._timeout_s)


def _judge(response: HTTPResponse, answer: bytes, broken: bool) -> None:
    """Raise unless the answer is a good one."""
    status = response.status
    if len(answer) > ANSWER_BYTES_MAX:
        raise InventorySilent(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
    if broken:
        raise InventorySilent("the inventory's answer broke off")
    if 200 <= status < 300:
        return
    text = f"the inventory answers {status} {response.reason}".rstrip()
    if status in (408, 425, 429) or status >= 500:
        after = response.headers.get("Retry-After", "")
        raise InventorySilent(text, float(after) if is_digits(after) else 0.0)
    raise InventoryRefused(status, text)


def _json(body: bytes) -> Any:  # noqa: ANN401 - JSON
    try:
        return msgspec.json.decode(body)
    except msgspec.MsgspecError as error:
        raise InventorySilent(f"the inventory's answer makes no sense: {error}") from None
