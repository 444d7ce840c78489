"""What an inventory outside of Rota says of our devices: those that others have are not used.

It is asked now and then, never within a tick. While it is silent its last answer stands, so that
it can neither stop the scheduling nor hand out what others have. In return it is told which GPUs
our jobs use. A node that it does not know at all is left alone.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from rota.controller.commands.commands import SetElsewhere
from rota.core.facts.errors import RotaError
from rota.core.facts.tenant import Access, Actor
from rota.inventory.client import InventoryError, InventoryRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.controller.loop import Host
    from rota.core.cluster import Cluster
    from rota.core.facts.node import Node
    from rota.inventory.client import Gpu, InventoryClient

log = logging.getLogger("rota.controller")

POLL_S = 15.0
#: How soon a node that comes new is noticed.
GLANCE_S = 0.5
ROTA = Actor("rota", Access.ADMIN, "inventory")
Answer = TypeVar("Answer")


Voice = Literal["waiting", "ok", "silent"]


class InventoryStanding(msgspec.Struct):
    """How things are with the inventory; ``silent``: its last answer stands."""

    url: str
    state: Voice = "waiting"
    #: When it last gave an answer that could be used; 0: never.
    answered_s: float = 0.0
    problem: str = ""
    #: How many of our devices others have.
    elsewhere: int = 0


class Elsewhere:
    """Keeps the state in step with one inventory."""

    def __init__(
        self, host: Host, client: InventoryClient, url: str, poll_s: float = POLL_S
    ) -> None:
        self._host = host
        self._client = client
        self._poll_s = poll_s
        self.standing = InventoryStanding(url)
        #: What it was told: job -> uuids.
        self._told: dict[int, tuple[str, ...]] = {}
        self._tells = True

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            nodes = self._nodes()
            await self.look()
            due_s = time.monotonic() + self._poll_s
            # A glance costs next to nothing, and is needed only where there is an inventory.
            while time.monotonic() < due_s and self._nodes() == nodes:  # noqa: ASYNC110
                await asyncio.sleep(min(self._poll_s, GLANCE_S))

    def _nodes(self) -> frozenset[tuple[str, str]]:
        """Who is there: of a node that comes new, its GPUs must be asked about at once."""
        nodes = self._host.cluster.nodes.values()
        return frozenset((node.name, node.incarnation) for node in nodes)

    async def look(self) -> None:
        """Ask once, and act on the answer."""
        try:
            ours = await self._tell()
            gpus = await in_thread(self._client.gpus)
        except InventoryError as error:
            self._say("silent", str(error))
            return
        found = elsewhere(self._host.cluster, gpus, ours)
        try:
            await self._host.ask(SetElsewhere(actor=ROTA, nodes=found))
        except RotaError as error:
            log.warning("what the inventory says could not be noted: %s", error)
            return
        self.standing.answered_s = self._host.clock.now_s()
        self.standing.elsewhere = sum(map(len, found.values()))
        self._say("ok", "" if self._tells else self.standing.problem)

    def _say(self, state: Voice, problem: str) -> None:
        if (state, problem) != (self.standing.state, self.standing.problem) and state != "ok":
            log.warning("the inventory is %s: %s", state, problem)
        self.standing.state, self.standing.problem = state, problem

    async def _tell(self) -> set[int]:
        """Which GPUs our jobs use now; the jobs that it may still take to be using some."""
        if not self._tells:
            return set()
        used = used_by_jobs(self._host.cluster)
        ours = {*self._told, *used}
        for job in [job for job in self._told if job not in used]:
            if not await self._try(partial(self._client.release, job)):
                return ours
            del self._told[job]
        for job, uuids in used.items():
            if self._told.get(job) == uuids:
                continue
            if not await self._try(partial(self._client.reserve, job, uuids)):
                return ours
            self._told[job] = uuids
        return ours

    async def _try(self, call: Callable[[], None]) -> bool:
        """One that takes no reservations is only listened to."""
        try:
            await in_thread(call)
        except InventoryRefused as error:
            self._tells = False
            self.standing.problem = f"takes no reservations of ours: {error}"
            log.warning("the inventory %s", self.standing.problem)
            return False
        return True


def used_by_jobs(cluster: Cluster) -> dict[int, tuple[str, ...]]:
    """The uuids of the devices that each job holds."""
    used: dict[int, dict[str, None]] = {}
    for node in cluster.nodes.values():
        names = {device.index: device.uuid for device in node.spec.devices}
        for uid, held in node.live.items():
            uuids = [names[index] for index in held.devices if index in names]
            if uuids:
                used.setdefault(cluster.live.where[uid][0], {}).update(dict.fromkeys(uuids))
    return {job: tuple(sorted(uuids)) for job, uuids in used.items()}


def elsewhere(cluster: Cluster, gpus: Iterable[Gpu], ours: set[int]) -> dict[str, tuple[str, ...]]:
    """By node, the uuids of devices that others have or that are gone."""
    by_uuid: dict[str, Gpu] = {}
    by_place: dict[tuple[str, int], Gpu] = {}
    for gpu in gpus:
        by_place[gpu.node, gpu.index] = gpu
        if gpu.uuid:
            by_uuid[gpu.uuid] = gpu
    found: dict[str, tuple[str, ...]] = {}
    for node in cluster.nodes.values():
        told = {
            device.uuid: by_place.get((node.name, device.index)) or by_uuid.get(device.uuid)
            for device in node.spec.devices
        }
        if any(told.values()):
            held = _held_uuids(node)
            found[node.name] = tuple(
                uuid
                for uuid, gpu in told.items()
                if uuid not in held and (gpu is None or _is_taken(gpu, ours))
            )
    return {name: uuids for name, uuids in found.items() if uuids}


def _held_uuids(node: Node) -> set[str]:
    """What our jobs hold is ours, whatever anybody says."""
    indices = {index for held in node.live.values() for index in held.devices}
    return {device.uuid for device in node.spec.devices if device.index in indices}


def _is_taken(gpu: Gpu, ours: set[int]) -> bool:
    """Not by a job of ours of whose end it has not heard."""
    if gpu.available:
        return False
    named = {*gpu.jobs, *([gpu.reserved_for] if gpu.reserved_for is not None else [])}
    return not named or not named <= ours


async def in_thread(call: Callable[[], Answer]) -> Answer:
    """In a thread of its own, which nobody waits for when Rota stops."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def finish(result: object, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    def work() -> None:
        result, error = None, None
        try:
            result = call()
        except Exception as problem:
            error = problem
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, result, error)

    threading.Thread(target=work, name="rota-inventory", daemon=True).start()
    answer: Answer = await done
    return answer
