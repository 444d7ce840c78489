"""What a provider of quotas says comes into force when it is asked."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING

from rota.controller.chores.quota_sync import QuotaSync
from rota.core.facts.resources import NOTHING
from rota.core.facts.tenant import Limits
from rota.quotas.api import SeenProject, SourceAnswer
from rota.testing.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any


class Bank:
    """A provider that has limits, and lets nobody write them."""

    name = "slurm"
    nested = False
    writes = "only the bank sets limits"

    def __init__(self) -> None:
        self.cpus = 1

    def read(self, projects: Collection[str]) -> SourceAnswer:
        told = SeenProject(Limits(cpu_milli=1000 * self.cpus), NOTHING, load=0.25)
        return SourceAnswer(dict.fromkeys(projects, told), {})

    def is_held(self, detail: str) -> bool:
        return False


def sync_of(scene: Scene, bank: Bank) -> QuotaSync:
    async def ask(command: Any) -> object:
        return scene.ask(command)

    clock = SimpleNamespace(now_s=lambda: scene.now_s)
    host: Any = SimpleNamespace(cluster=scene.cluster, clock=clock, ask=ask)
    source: Any = bank
    return QuotaSync(host, source, 15.0)


def test_a_project_may_start_as_much_as_its_provider_said_last():
    scene, bank = Scene(cpus=4), Bank()
    sync = sync_of(scene, bank)
    asyncio.run(sync.begin())
    jobs = [scene.submit(name, cpus=1, project="vision") for name in ("first", "second")]
    scene.pass_time(1)
    assert scene.states(*jobs) == ["queued", "queued"], "nothing was ever told"

    asyncio.run(sync.look())
    scene.pass_time(1)
    assert scene.states(*jobs) == ["running", "queued"]
    assert sync.synced_s("vision") > 0

    bank.cpus = 2
    asyncio.run(sync.look())
    scene.pass_time(1)
    assert scene.states(*jobs) == ["running", "running"]
