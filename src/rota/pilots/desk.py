"""What the controller is asked and told: a client like any other, off the loop."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec

from rota.client.errors import ClientError, Refused
from rota.client.http import segment
from rota.core.facts.site.pilot import Pilot
from rota.pilots.plan import PilotNeed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rota.client.http import Client

log = logging.getLogger("rota.pilots")


class WaitingDemand(msgspec.Struct):
    """What waits, and which nodes with an end are there."""

    cluster: str
    version: str
    waiting: list[dict[str, Any]]
    nodes: set[str]

    def needs(self) -> list[PilotNeed]:
        return [PilotNeed(**{**need, "fits": tuple(need["fits"])}) for need in self.waiting]


class PilotDesk:
    """Calls raise ``ClientError`` when the controller is not there."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = asyncio.Lock()

    async def _call(self, function: Callable[..., Any], *given: Any, **more: Any) -> Any:  # noqa: ANN401
        async with self._lock:
            return await asyncio.to_thread(function, *given, **more)

    async def pilots(self) -> dict[str, Pilot]:
        answer = await self._call(self._client.get, "/pilots")
        found = {}
        for item in answer["items"]:
            item["cpu_milli"], item["memory_mib"] = round(1000 * item["cpus"]), item["memory_mb"]
            found[item["name"]] = msgspec.convert(item, Pilot)
        return found

    async def demand(
        self, offers: Sequence[dict[str, Any]], version: str, timeout_s: float, jobs_max: int
    ) -> WaitingDemand:
        body = {
            "offers": offers,
            "version": version,
            "timeout_s": timeout_s,
            "jobs_max": jobs_max,
        }
        return msgspec.convert(
            await self._call(self._client.post, "/pilots:demand", body), WaitingDemand
        )

    async def join_token(self, pilot: str, lasts_s: int) -> dict[str, Any]:
        """Good for one node."""
        body = {"access": "agent", "uses": 1, "note": f"pilot {pilot}", "expires_s": lasts_s}
        answer: dict[str, Any] = await self._call(self._client.post, "/tokens", body)
        return answer

    async def revoke(self, token: str) -> None:
        await self._gone(f"/tokens/{segment(token)}")

    async def remove_node(self, node: str) -> None:
        """It stays on record as long as something may be alive there."""
        await self._gone(f"/nodes/{segment(node)}")

    async def drain(self, node: str, note: str) -> None:
        try:
            path = f"/nodes/{segment(node)}/drain"
            await self._call(self._client.post, path, {"note": note})
        except Refused as error:
            log.info("node %s: %s", node, error)

    async def tell(self, pilot: str, allocations: list[dict[str, Any]], problem: str) -> None:
        body = {"allocations": allocations, "problem": problem}
        try:
            await self._call(self._client.put, f"/pilots/{segment(pilot)}/state", body)
        except Refused as error:
            log.info("pilot %s: %s", pilot, error)

    async def _gone(self, path: str) -> None:
        try:
            await self._call(self._client.delete, path)
        except Refused as error:
            if error.status != 404:
                log.info("%s: %s", path, error)


__all__ = ["ClientError", "PilotDesk", "WaitingDemand"]
