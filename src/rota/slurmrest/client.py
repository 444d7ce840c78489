"""Calls to slurmrestd as any user, each bounded in time.

A service token (of root or SlurmUser) acts for everybody: the header with the user's name says for
whom. The versions of the interface differ from release to release; ``open`` chooses one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import httpx
import msgspec

from rota.slurmrest.values import plain
from rota.slurmrest.verdicts import (
    NOTHING_FOUND,
    SlurmAway,
    SlurmError,
    SlurmFull,
    SlurmRefused,
    SlurmUnsure,
    verdict,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Oldest and newest that we know. A service may offer newer ones alone: each is much like the one
#: before it, so that the oldest of those is spoken then.
OLDEST, NEWEST = 36, 44
#: slurmrestd itself waits nine seconds for a slurmctld that is gone.
LIMIT_S = 20.0
CONNECT_S = 5.0
_PATH = re.compile(r"/(slurm|slurmdb)/(v0\.0\.\d+)/")
_DESCRIPTIONS = ("/openapi", "/openapi/v3")
#: With this, also, Slurm's own commands find a token.
TOKEN_VARIABLE = "SLURM_JWT"
Part = Literal["slurm", "slurmdb"]


class SlurmRest:
    """One slurmrestd: ``http://HOST:PORT`` or ``unix:/PATH``."""

    def __init__(
        self,
        url: str,
        *,
        user: str = "",
        token: str = "",
        token_file: str = "",
        limit_s: float = LIMIT_S,
    ) -> None:
        """``token`` is one for as long as it is good; one in a file may be renewed."""
        self._user = user
        self._given = token
        self._token_file = token_file
        self._limit_s = limit_s
        path = url.removeprefix("unix:") if url.startswith("unix:") else None
        self._name = path or url
        self._http = httpx.AsyncClient(
            base_url="http://slurm" if path else url,
            transport=httpx.AsyncHTTPTransport(uds=path) if path else None,
            timeout=httpx.Timeout(limit_s, connect=min(CONNECT_S, limit_s)),
            trust_env=False,
        )
        #: The chosen version of each part; a part that is not offered is not in it.
        self.versions: dict[str, str] = {}

    async def open(self) -> None:
        """Choose the newest versions that both sides know."""
        logging.getLogger("httpx").setLevel(logging.WARNING)  # It would log every request.
        offered = await self._offered()
        spoken = {part: chosen for part, names in offered.items() if (chosen := spoken_of(names))}
        if "slurm" not in spoken:
            there = ", ".join(sorted(offered.get("slurm", ()))) or "none"
            raise SlurmRefused(f"{self._name} speaks {there}; needed is v0.0.{OLDEST} or newer")
        self.versions = spoken

    async def close(self) -> None:
        await self._http.aclose()

    @property
    def number(self) -> int:
        """The last number of the chosen version: 38 of v0.0.38."""
        return number_of(self.versions["slurm"])

    async def ask(self, part: Part, path: str, **query: str) -> dict[str, Any]:
        """Read something."""
        return _judged(*await self._exchange("GET", part, path, query=query), order=False)

    async def ask_for(self, part: Part, path: str, shape: type[Any]) -> dict[str, Any]:
        """Of a long answer those fields alone that ``shape`` names, a dictionary with types."""
        exchanged = await self._exchange("GET", part, path, shape=shape)
        return _judged(*exchanged, order=False)

    async def tell(
        self,
        method: Literal["POST", "DELETE"],
        part: Part,
        path: str,
        body: object = None,
        *,
        user: str = "",
        **query: str,
    ) -> dict[str, Any]:
        """Have something done, for ``user`` or for the token's own."""
        exchanged = await self._exchange(method, part, path, body, user, query)
        return _judged(*exchanged, order=True)

    async def submit(self, body: object, *, user: str = "") -> int:
        """The number of a new job. It may carry an error and be taken all the same."""
        status, answer = await self._exchange("POST", "slurm", "job/submit", body, user)
        result = answer.get("result")
        number = plain(answer.get("job_id"))
        if not number and isinstance(result, dict):
            number = plain(result.get("job_id"))
        if status == httpx.codes.OK and number > 0:
            return number
        _judged(status, answer, order=True)
        raise SlurmUnsure(f"{self._name} answers a submit without the number of a job")

    async def _offered(self) -> dict[str, set[str]]:
        for path in _DESCRIPTIONS:
            status, answer = await self._send("GET", path, None, "", {})
            if status == httpx.codes.OK:
                offered: dict[str, set[str]] = {}
                for name in answer.get("paths") or {}:
                    if found := _PATH.match(name):
                        offered.setdefault(found[1], set()).add(found[2])
                return offered
        raise SlurmAway(f"{self._name} answers {status} to {path}")

    async def _exchange(
        self,
        method: str,
        part: Part,
        path: str,
        body: object = None,
        user: str = "",
        query: dict[str, str] | None = None,
        shape: type[Any] = dict,
    ) -> tuple[int, dict[str, Any]]:
        if part not in self.versions:
            raise SlurmAway(f"{self._name} does not offer {part}")
        spoken = self.versions[part]
        address = f"/{part}/{spoken}/{quote(path)}"
        status, answer = await self._send(method, address, body, user, query or {}, shape)
        if status != httpx.codes.NOT_FOUND or answer.get("errors"):
            return status, answer
        # There is no such path: with an upgrade a version of the interface may have gone.
        try:
            await self.open()
        except SlurmRefused as error:
            raise SlurmAway(str(error)) from None
        raise SlurmAway(f"{self._name} answers 404 to {address}")

    async def _send(
        self,
        method: str,
        address: str,
        body: object,
        user: str,
        query: dict[str, str],
        shape: type[Any] = dict,
    ) -> tuple[int, dict[str, Any]]:
        headers = {"X-SLURM-USER-TOKEN": self._token(), "Accept": "application/json"}
        if user or self._user:
            headers["X-SLURM-USER-NAME"] = user or self._user
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = msgspec.json.encode(body)
        lost: type[SlurmError] = SlurmAway if method == "GET" else SlurmUnsure
        try:
            async with asyncio.timeout(self._limit_s):
                response = await self._http.request(
                    method, address, params=query, headers=headers, content=content
                )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise SlurmAway(f"{self._name}: {str(error).lower() or 'no connection'}") from None
        except (httpx.TimeoutException, TimeoutError):
            raise lost(f"{self._name}: no answer in time") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise lost(f"{self._name}: {str(error).lower()}") from None
        return self._understood(response, lost, shape)

    def _understood(
        self, response: httpx.Response, lost: type[SlurmError], shape: type[Any]
    ) -> tuple[int, dict[str, Any]]:
        """Whatever body a service, or what stands before it, has put to its status."""
        status = response.status_code
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise SlurmAway(f"{self._name} does not accept the token")
        if status == httpx.codes.TOO_MANY_REQUESTS:
            raise SlurmFull(f"{self._name} is asked too often")
        if status == httpx.codes.NO_CONTENT:
            return httpx.codes.OK, {}  # So newer ones say that nothing was found.
        for kind in (shape, dict):
            with suppress(msgspec.DecodeError):
                return status, msgspec.json.decode(response.content, type=kind)
        if status == httpx.codes.NOT_FOUND:
            return status, {}
        raise lost(f"{self._name} answers {status} without sense")

    def _token(self) -> str:
        """Read each time: tokens are short-lived, and others renew them."""
        if not self._token_file:
            return self._given or os.environ.get(TOKEN_VARIABLE, "")
        try:
            text = Path(self._token_file).read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "not a token"
            raise SlurmAway(f"{self._token_file}: {why.lower()}") from None
        # As `scontrol token` prints it.
        return text.removeprefix(f"{TOKEN_VARIABLE}=")


def _judged(status: int, answer: dict[str, Any], *, order: bool) -> dict[str, Any]:
    """The answer, if it is a good one: 200 alone does not say so."""
    errors = answer.get("errors") or []
    if isinstance(errors, list) and errors:
        if not order and _number_of_error(errors[0]) == NOTHING_FOUND:
            return {}
        raise _first(errors, order=order)
    if status == httpx.codes.OK:
        return answer
    if status >= httpx.codes.INTERNAL_SERVER_ERROR:
        raise (SlurmUnsure if order else SlurmAway)(f"slurmrestd answers {status}")
    raise SlurmRefused(f"slurmrestd answers {status}", status)


def _number_of_error(entry: object) -> int:
    if not isinstance(entry, dict):
        return 0
    return plain(entry.get("error_number", entry.get("error_code", 0)))


def _first(errors: list[Any], *, order: bool) -> SlurmError:
    entry = errors[0] if isinstance(errors[0], dict) else {}
    code = _number_of_error(entry)
    words = [str(entry.get(key) or "") for key in ("error", "description")]
    text = ": ".join(dict.fromkeys(word for word in words if word)) or "an error without words"
    if code == -1:
        text = "slurmctld does not answer, or does not accept the token"
    return verdict(code, text, order=order)


def number_of(version: str) -> int:
    """38 of ``v0.0.38``."""
    return int(version.rpartition(".")[2])


def spoken_of(names: Iterable[str]) -> str:
    """Of the versions that are offered, the one to speak; empty: none of them can be spoken."""
    offered = sorted(names, key=number_of)
    known = [name for name in offered if OLDEST <= number_of(name) <= NEWEST]
    newer = [name for name in offered if number_of(name) > NEWEST]
    return known[-1] if known else newer[0] if newer else ""
