"""What the Slurm commands may know: the controller's state, read only."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from rota.api.views.lookup import find
from rota.core.facts.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.api.context import Context
    from rota.core.cluster import Cluster
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job

R = TypeVar("R")
T = TypeVar("T")

#: After so many items whoever formats a long list lets others go on.
BREATH = 500


class View:
    """One look at the state; made anew for each command."""

    def __init__(self, context: Context) -> None:
        self._host = context.host
        self.now_s = context.host.clock.now_s()
        self.started_s = context.host.started_s

    @property
    def cluster(self) -> Cluster:
        return self._host.cluster

    @property
    def cluster_name(self) -> str:
        return "rota"

    def unfinished(self) -> list[Job]:
        """Jobs with a record of their own; elements of arrays that nothing touched are not."""
        return list(self.cluster.jobs.values())

    def arrays(self) -> list[Array]:
        return list(self.cluster.arrays.values())

    async def find(self, ref: int | str) -> Job | Array | None:
        """The job or array behind an id or ``5_3``, also if it has ended."""
        try:
            return await find(self._host, ref)
        except NotFound:
            return None

    async def read(self, question: Callable[[Any], T]) -> T:
        """Ask the store, which knows the jobs that have ended."""
        return await self._host.read(question)


async def each(items: Iterable[T], work: Callable[[T], R]) -> list[R]:
    """Do something with many items without holding up the controller."""
    found: list[R] = []
    for number, item in enumerate(items, 1):
        found.append(work(item))
        if number % BREATH == 0:
            await asyncio.sleep(0)
    return found
