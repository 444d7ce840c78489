"""The few requests that the driver makes of Ray's dashboard, each bounded in time."""

from __future__ import annotations

import logging
import os
import ssl
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import msgspec

from rota.backends.api import EngineAway, EngineRefused, Unsure
from rota.backends.ray.records import RayJob, any_alive, nodes_of, use_of
from rota.core.facts.states import Blame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.backends.ray.records import RayNode, RayUse
    from rota.backends.ray.settings import RaySettings

CONNECT_S = 5.0
TOKEN_VARIABLE = "RAY_AUTH_TOKEN"
#: The state interface shows a hundred rows unless it is asked for more; this is its most.
ROWS_MAX = 10_000
#: The name of the actor that holds a job's process, and of the place where Ray keeps such.
SUPERVISOR = "_ray_internal_job_actor_"
NAMESPACE = "SUPERVISOR_ACTOR_RAY_NAMESPACE"
_NOT_CONNECTED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class RayApi:
    """One dashboard."""

    def __init__(self, settings: RaySettings) -> None:
        self._settings = settings
        context = ssl.create_default_context(cafile=settings.ca_file or None)
        self._http = httpx.AsyncClient(
            base_url=settings.address,
            headers=settings.headers,
            timeout=httpx.Timeout(settings.limit_s, connect=min(CONNECT_S, settings.limit_s)),
            verify=context,
            trust_env=False,
        )

    async def open(self) -> str:
        """The version of Ray."""
        logging.getLogger("httpx").setLevel(logging.WARNING)  # It would log every request.
        with _understood():
            told = msgspec.json.decode(await self._get("/api/version") or b"", type=dict[str, str])
        return told.get("ray_version", "")

    async def close(self) -> None:
        await self._http.aclose()

    async def jobs(self) -> list[RayJob]:
        with _understood():
            return msgspec.json.decode(await self._get("/api/jobs/") or b"", type=list[RayJob])

    async def job(self, number: str) -> RayJob | None:
        body = await self._get(f"/api/jobs/{number}")
        with _understood():
            return msgspec.json.decode(body, type=RayJob) if body is not None else None

    async def upload(self, name: str, body: bytes) -> None:
        """A package for the nodes. Nothing is started by it."""
        answer = await self._send("PUT", f"/api/packages/gcs/{name}", EngineAway, content=body)
        if answer.status_code != httpx.codes.OK:
            raise EngineAway(_words(answer))

    async def submit(self, wish: dict[str, Any]) -> bool:
        """Whether it was not there before."""
        answer = await self._send("POST", "/api/jobs/", Unsure, json=wish)
        code = answer.status_code
        if code == httpx.codes.OK:
            return True
        if "already exists" in answer.text:
            return False
        if code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise EngineAway(_words(answer))
        if code >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise Unsure(_words(answer))
        raise EngineRefused(_words(answer), Blame.NODE)

    async def stop(self, number: str) -> None:
        await self._tell("POST", f"/api/jobs/{number}/stop")

    async def delete(self, number: str) -> None:
        await self._tell("DELETE", f"/api/jobs/{number}")

    async def nodes(self) -> list[RayNode]:
        query = {"detail": "1", "limit": str(ROWS_MAX)}
        with _understood():
            return nodes_of(await self._get("/api/v0/nodes", query) or b"")

    async def use(self) -> RayUse:
        with _understood():
            return use_of(await self._get("/api/cluster_status", {"format": "0"}) or b"")

    async def has_supervisor(self, number: str) -> bool:
        """Whether anything in Ray will ever start this job, or runs it."""
        name = f"{SUPERVISOR}{number}"
        query = {"filter_keys": "name", "filter_predicates": "=", "filter_values": name}
        with _understood():
            return any_alive(await self._get("/api/v0/actors", query) or b"")

    async def file(self, node: str, name: str, most: int = 0) -> bytes | None:
        """Of a node's log folder, its first ``most`` bytes or all; None: there is none."""
        query = {"node_id": node, "filename": name, "lines": "-1"}
        body = b""
        try:
            async with self._http.stream(
                "GET", "/api/v0/logs/file", params=query, headers=self._token()
            ) as answer:
                if answer.status_code != httpx.codes.OK:
                    await answer.aread()
                    if "file is not found" in answer.text:
                        return None
                    raise EngineAway(_words(answer))
                async for part in answer.aiter_bytes():
                    body += part
                    if most and len(body) >= most:
                        return body[:most]
        except httpx.HTTPError as error:
            raise EngineAway(_trouble(error)) from None
        return body

    async def _get(self, path: str, query: dict[str, str] | None = None) -> bytes | None:
        answer = await self._send("GET", path, EngineAway, params=query)
        return self._judged(answer)

    async def _tell(self, method: str, path: str) -> None:
        """What is not there needs no telling."""
        self._judged(await self._send(method, path, EngineAway))

    def _judged(self, answer: httpx.Response) -> bytes | None:
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        if answer.status_code != httpx.codes.OK:
            raise EngineAway(_words(answer))
        return answer.content

    async def _send(
        self, method: str, path: str, lost: type[EngineAway] | type[Unsure], **more: Any
    ) -> httpx.Response:
        try:
            return await self._http.request(method, path, headers=self._token(), **more)
        except _NOT_CONNECTED as error:
            raise EngineAway(_trouble(error)) from None
        except httpx.HTTPError as error:
            raise lost(_trouble(error)) from None

    def _token(self) -> dict[str, str]:
        token = os.environ.get(TOKEN_VARIABLE, "")
        if self._settings.token_file:
            try:
                token = Path(self._settings.token_file).read_text(encoding="ascii")
            except (OSError, ValueError) as error:
                words = (getattr(error, "strerror", None) or "not a token").lower()
                raise EngineAway(f"token_file {self._settings.token_file}: {words}") from None
        return {"Authorization": f"Bearer {token.strip()}"} if token.strip() else {}


@contextmanager
def _understood() -> Iterator[None]:
    """Something else than Ray may stand at the address: a proxy with a page of its own."""
    try:
        yield
    except msgspec.DecodeError as error:
        raise EngineAway(f"the answer is not one of Ray: {error}") from None


def _words(answer: httpx.Response) -> str:
    """The last line: of a traceback, that is the error itself."""
    lines = [line for line in answer.text.splitlines() if len(line.strip()) > 1]
    return f"{answer.status_code}: {lines[-1].strip()[:300]}" if lines else str(answer.status_code)


def _trouble(error: httpx.HTTPError) -> str:
    return str(error) or type(error).__name__
