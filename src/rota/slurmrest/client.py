"""Calls to slurmrestd as any user, each bounded in time.

A service token (of root or SlurmUser) acts for everybody: the header with the user's name says for
whom. The versions of the interface differ from release to release; ``open`` chooses one.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import httpx
import msgspec

from rota.slurmrest.verdicts import SlurmAway, SlurmError, SlurmRefused, SlurmUnsure, verdict

#: Newest first.
VERSIONS = tuple(f"v0.0.{number}" for number in range(40, 35, -1))
#: slurmrestd itself waits nine seconds for a slurmctld that is gone.
LIMIT_S = 20.0
CONNECT_S = 5.0
_PATH = re.compile(r"/(slurm|slurmdb)/(v\d+\.\d+\.\d+)/")
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
        self.versions = {
            part: known[0]
            for part, names in offered.items()
            if (known := [name for name in VERSIONS if name in names])
        }
        if "slurm" not in self.versions:
            there = ", ".join(sorted(offered.get("slurm", ()))) or "none"
            raise SlurmRefused(
                f"{self._name} speaks {there}; known are {VERSIONS[-1]} to {VERSIONS[0]}"
            )

    async def close(self) -> None:
        await self._http.aclose()

    @property
    def number(self) -> int:
        """The last number of the chosen version: 38 of v0.0.38."""
        return int(self.versions["slurm"].rpartition(".")[2])

    async def ask(self, part: Part, path: str, **query: str) -> dict[str, Any]:
        """Read something."""
        return _judged(*await self._exchange("GET", part, path, query=query), order=False)

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
        number = answer.get("job_id") or (answer.get("result") or {}).get("job_id")
        if status == httpx.codes.OK and isinstance(number, int) and number > 0:
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
    ) -> tuple[int, dict[str, Any]]:
        if part not in self.versions:
            raise SlurmAway(f"{self._name} does not offer {part}")
        address = f"/{part}/{self.versions[part]}/{quote(path)}"
        return await self._send(method, address, body, user, query or {})

    async def _send(
        self, method: str, address: str, body: object, user: str, query: dict[str, str]
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
            response = await self._http.request(
                method, address, params=query, headers=headers, content=content
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise SlurmAway(f"{self._name}: {str(error).lower() or 'no connection'}") from None
        except httpx.TimeoutException:
            raise lost(f"{self._name}: no answer in time") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise lost(f"{self._name}: {str(error).lower()}") from None
        try:
            answer = msgspec.json.decode(response.content)
        except msgspec.DecodeError:
            answer = None
        if isinstance(answer, dict):
            return response.status_code, answer
        if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise SlurmAway(f"{self._name} does not accept the token")
        if response.status_code == httpx.codes.NOT_FOUND:
            return response.status_code, {}
        raise lost(f"{self._name} answers {response.status_code} without sense")

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
    if not errors and status == httpx.codes.OK:
        return answer
    if not errors:
        if status == httpx.codes.UNAUTHORIZED:
            raise SlurmAway("slurmrestd does not accept the token")
        raise SlurmRefused(f"slurmrestd answers {status}", status)
    raise _first(errors, order=order)


def _first(errors: list[Any], *, order: bool) -> SlurmError:
    entry = errors[0] if isinstance(errors[0], dict) else {}
    code = entry.get("error_number", entry.get("error_code", 0))
    words = [str(entry.get(key) or "") for key in ("error", "description")]
    text = ": ".join(dict.fromkeys(word for word in words if word)) or "an error without words"
    if code == -1:
        text = "slurmctld does not answer, or does not accept the token"
    return verdict(code if isinstance(code, int) else 0, text, order=order)
