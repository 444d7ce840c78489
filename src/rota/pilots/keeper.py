"""The process that keeps all pilots of a Rota: asks when jobs wait, and lets go of what is left."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import logging
import os
import shutil
import signal
import time
from typing import TYPE_CHECKING, Any

import msgspec

from rota.backends import registry
from rota.backends.journal import EngineJournal
from rota.backends.pilot_tables import table_of
from rota.client.errors import ClientError
from rota.core.facts.errors import Rejected
from rota.core.facts.site.pilot import Pilot
from rota.pilots.desk import PilotDesk
from rota.pilots.fleet import Fleet
from rota.pilots.orders import LABEL, usable_s
from rota.pilots.plan import Offer, wanted
from rota.pilots.shapes import size_of

if TYPE_CHECKING:
    from pathlib import Path

    from rota.client.http import Client
    from rota.pilots.desk import WaitingDemand

#: With allocations their engines are asked so often; without any the controller is listened to.
BUSY_S, QUIET_S = 1.0, 30.0
#: However much changes, it is looked at no more often.
TURN_S = 0.25
#: A controller that is away is asked again after so long.
AWAY_S = 1.0
JOURNAL = "journal.db"

log = logging.getLogger("rota.pilots")


class PilotKeeper:
    """``home`` has a folder for each pilot. ``run`` ends when there is none left to keep."""

    def __init__(self, client: Client, home: Path) -> None:
        self._desk = PilotDesk(client)
        self._home = home
        self._fleets: dict[str, Fleet] = {}
        self._version = ""
        self._told: dict[str, object] = {}
        self._stop = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        loop.add_signal_handler(signal.SIGINT, self._stop.set)
        stopped = asyncio.create_task(self._stop.wait())
        working = asyncio.create_task(self._work())
        await asyncio.wait([stopped, working], return_when=asyncio.FIRST_COMPLETED)
        for task in (stopped, working):
            task.cancel()
        done = await asyncio.gather(working, return_exceptions=True)
        for fleet in self._fleets.values():
            await fleet.close()
        for error in done:
            if isinstance(error, Exception):
                raise error

    async def _work(self) -> None:
        while True:
            try:
                began_s = time.monotonic()
                if not await self._turn():
                    return
                await asyncio.sleep(max(0.0, began_s + TURN_S - time.monotonic()))
            except ClientError as error:
                log.info("the controller does not answer: %s", error)
                self._version = ""
                await asyncio.sleep(AWAY_S)

    async def _turn(self) -> bool:
        """One look at everything; whether there is anything to keep."""
        pilots = await self._desk.pilots()
        await self._sync(pilots)
        if not self._fleets:
            return False
        offers = await self._offers()
        demand = await self._listen(offers)
        busy = [fleet for fleet in self._fleets.values() if fleet.entries or fleet.fresh]
        await asyncio.gather(*[fleet.look(demand.cluster, demand.nodes) for fleet in busy])
        if await self._desk.pilots() == pilots:
            # What was set meanwhile counts first.
            await self._follow(offers, demand)
        await self._tell()
        return True

    async def _sync(self, pilots: dict[str, Pilot]) -> None:
        """A fleet for each pilot, and for each that was removed and has not let go of all."""
        left = {path.parent.name: path for path in self._home.glob(f"*/{JOURNAL}")}
        for name in sorted({*pilots, *left}):
            fleet, pilot = self._fleets.get(name), pilots.get(name)
            if fleet is None:
                fleet = self._make(name, pilot)
            if fleet is not None and pilot is not None and fleet.pilot != pilot:
                fleet = await self._changed(fleet, pilot)
            if fleet is not None and pilot is None:
                await fleet.retire()
                if not fleet.entries and not fleet.fresh:
                    await fleet.close()
                    del self._fleets[name]
                    shutil.rmtree(self._home / name, ignore_errors=True)

    async def _changed(self, fleet: Fleet, pilot: Pilot) -> Fleet | None:
        """Other settings count from now on; what is there stays."""
        await fleet.close()
        del self._fleets[pilot.name]
        return self._make(pilot.name, pilot)

    def _make(self, name: str, pilot: Pilot | None) -> Fleet | None:
        home = self._home / name
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        journal = EngineJournal(home / JOURNAL)
        if pilot is None:
            written = journal.fact("pilot")
            if not written:
                return None
            pilot = msgspec.json.decode(written, type=Pilot)
        journal.note("pilot", msgspec.json.encode(pilot).decode())
        try:
            folder = str((home / "shared").absolute())
            _, driver = registry.make(name, table_of(pilot, folder), section="pilots")
        except Rejected as error:
            log.error("pilot %s: %s", name, error)
            journal.close()
            return None
        fleet = self._fleets[name] = Fleet(pilot, driver, journal, self._desk)
        return fleet

    async def _offers(self) -> list[Offer]:
        found = []
        for fleet in self._fleets.values():
            name = fleet.pilot.name
            coming = [size_of(name, uid) for uid in fleet.coming]
            for shape in await fleet.shapes():
                price = fleet.pilot.price_per_hour
                found.append(Offer(name, shape, price, coming.count(shape[:3])))
        return found

    async def _listen(self, offers: list[Offer]) -> WaitingDemand:
        """Until something else waits, or it is time to ask the engines again."""
        busy = any(fleet.entries or fleet.fresh for fleet in self._fleets.values())
        pauses = [fleet.pause_s(time.time()) for fleet in self._fleets.values()]
        wait_s = min([BUSY_S if busy else QUIET_S, *filter(None, pauses)])
        sizes = [self._fleets[offer.pilot].pilot.most * offer.shape.cpu_milli for offer in offers]
        jobs_max = max(1, sum(sizes) // 100)
        demand = await self._desk.demand(
            [self._as_node(offer) for offer in offers], self._version, wait_s, jobs_max
        )
        self._version = demand.version
        return demand

    def _as_node(self, offer: Offer) -> dict[str, Any]:
        pilot, shape = self._fleets[offer.pilot].pilot, offer.shape
        return {
            "cpu_milli": shape.cpu_milli,
            # What is not named is found out there.
            "memory_mib": shape.memory_mib or 1 << 30,
            "gpus": shape.gpus,
            "gpu_type": shape.gpu_type,
            "labels": {**pilot.labels, LABEL: pilot.name},
            "user": "" if os.geteuid() == 0 else getpass.getuser(),
            "time_s": usable_s(pilot),
            "unlimited": pilot.unlimited,
        }

    async def _follow(self, offers: list[Offer], demand: WaitingDemand) -> None:
        now_s = time.time()
        # After the look: some may have come since the offers were made.
        fresh = await self._offers()
        if [offer[:2] for offer in fresh] != [offer[:2] for offer in offers]:
            return
        allowed = {name: fleet.may_ask(now_s) for name, fleet in self._fleets.items()}
        useful = wanted(fresh, demand.needs(), allowed)
        for name, fleet in self._fleets.items():
            counts: dict[tuple[int, int, int], int] = {}
            for offer, count in zip(fresh, useful, strict=True):
                if offer.pilot == name:
                    size = (offer.shape.cpu_milli, offer.shape.memory_mib, offer.shape.gpus)
                    counts[size] = count
                    if count > offer.coming:
                        await fleet.ask(demand.cluster, offer.shape, count - offer.coming)
            await fleet.follow(counts)

    async def _tell(self) -> None:
        """What has changed of what people are shown."""
        now_s = time.time()
        for name, fleet in self._fleets.items():
            if not fleet.retired and (told := fleet.told(now_s)) != self._told.get(name):
                await self._desk.tell(name, *told)
                self._told[name] = told


def run(client: Client, home: Path) -> None:
    """Until TERM, or until there is nothing left to keep."""

    async def serve() -> None:
        await PilotKeeper(client, home).run()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())
