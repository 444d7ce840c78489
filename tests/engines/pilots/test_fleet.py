"""The allocations of a pilot while a part of its engine is down, without a controller."""

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from rota.backends.api import EngineJob
from rota.backends.journal import EngineEntry, EngineJournal, Stance
from rota.core.facts.site.pilot import Pilot
from rota.pilots.fleet import Fleet
from rota.pilots.shapes import PilotShape, new_uid, node_of
from tests.engines.folder_engine import FolderEngine, FolderSettings, write

PILOT = Pilot(name="hpc", kind="slurm", cpu_milli=1000, memory_mib=100)


class Asked(FolderEngine):
    """Counts how often its accounting was asked."""

    asked = 0

    async def find(self, uids: Iterable[str]) -> list[EngineJob]:
        self.asked += 1
        return await super().find(uids)


class Desk:
    """Writes down what the controller is told."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    async def remove_node(self, node: str) -> None:
        self.removed.append(node)

    async def revoke(self, token: str) -> None:
        raise AssertionError(f"there is no token {token}")


def test_an_accounting_that_is_down_holds_up_no_other_allocation(tmp_path: Path):
    """One has vanished, and nobody can say where to; the other one has ended."""
    lost, over = (new_uid("hpc", PilotShape(1000, 100)) for _ in range(2))
    job = tmp_path / "jobs" / "1"
    job.mkdir(parents=True)
    (job / "order.json").write_text(
        json.dumps({"key": f"rota:c1:{over}", "node": "f1", "submitted_s": 1.0})
    )
    write(job / "start.json", {"at_s": 2.0, "pid": 0})
    journal = EngineJournal(tmp_path / "journal.db")
    asked = [(uid, node_of("hpc", uid)) for uid in (lost, over)]
    journal.put(EngineEntry(uid=uid, node=node, state=Stance.SUBMITTED) for uid, node in asked)
    for uid in (lost, over):
        journal.note(f"joined {uid}", "yes")
    desk = Desk()
    engine = Asked(FolderSettings(folder=str(tmp_path)))
    fleet = Fleet(PILOT, engine, journal, desk)

    async def look_until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await fleet.look("c1", set())
                await asyncio.sleep(0.05)

    async def story() -> None:
        (tmp_path / "fault").write_text("forgetful")
        await look_until(lambda: engine.asked > 0)
        write(job / "end.json", {"at_s": 3.0, "code": 0})
        await look_until(lambda: desk.removed == [node_of("hpc", over)])
        assert set(journal.entries) == {lost}
        (tmp_path / "fault").unlink()
        await look_until(lambda: desk.removed[1:] == [node_of("hpc", lost)])
        await fleet.close()

    asyncio.run(story())
