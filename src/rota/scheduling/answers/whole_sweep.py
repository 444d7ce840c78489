"""How much of an array that is not submitted would start at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.array import Array
from rota.core.facts.indices import IndexRun
from rota.scheduling.answers.whatif import WhatIf

if TYPE_CHECKING:
    from rota.core.facts.job import JobSpec
    from rota.scheduling.scheduler import Scheduler


class AddedArray(NamedTuple):
    """One more array, as a submit would make it, ready to start. Its id is the next one."""

    spec: JobSpec
    elements: int
    cap: int

    def make(self, world: WhatIf) -> None:
        cluster, now_s = world.cluster, world.now_s
        array = Array(
            id=cluster.ids.next,
            uid="",
            spec=self.spec,
            submitted_s=now_s,
            runs=(IndexRun(0, self.elements - 1),),
            count=self.elements,
            cap=self.cap,
            eligible_s=now_s,
            waiting=[[0, self.elements - 1]],
        )
        world.put_item(cluster.arrays, array.id, array)
        world.enter(array, array.id if array.cap else 0)


def starting_now(scheduler: Scheduler, spec: JobSpec, count: int, cap: int, now_s: float) -> int:
    """Elements that the next pass would start. For one whose first element would start."""
    with WhatIf(scheduler, now_s) as world:
        array = world.cluster.ids.next
        world.make(AddedArray(spec, count, cap))
        return sum(start.array == array for start in world.run().starts)
