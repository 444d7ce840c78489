"""What the Slurm commands may know: the controller's state, read only."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from rota.api.views.lookup import find
from rota.core.facts.errors import NotFound, Rejected
from rota.slurm.call.list_turns import long_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.api.context import Context
    from rota.core.cluster import Cluster
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job

R = TypeVar("R")
T = TypeVar("T")

#: After this number of items the gathering of a long list lets others go on.
BREATH = 500
#: So does one that takes this long.
BREATH_S = 0.005
#: No answer is longer: it is in memory as a whole. One beyond this waits for its turn.
TEXT_MAX, LONG = 128 * 1024 * 1024, 256 * 1024


class SlurmView:
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
    total, began_s = 0, perf_counter()
    for item in items:
        found.append(done := work(item))
        total += len(done) if isinstance(done, str) else 0
        if total > TEXT_MAX:
            raise Rejected(f"the answer has more than {TEXT_MAX} characters; ask for less")
        if perf_counter() - began_s > BREATH_S:
            await asyncio.sleep(0)
            if total > LONG:
                await long_list()
            began_s = perf_counter()
    return found
