"""When somebody comes before one who was promised a start.

He who is first now gets the promise, and what the old one kept waiting may fit beside the new
one. Such lanes are looked at again; without that they would wait for the next job that ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.scheduling.passes import Pass


def is_overtaken(this: Pass, promised: list[int]) -> bool:
    """Whether somebody new comes before one with a promise, as far as own keys say."""
    lanes = this.cluster.lanes
    keys = [this.own_key(lanes.where[job]) for job in promised if job in lanes.where]
    last = max((key for key in keys if key is not None), default=None)
    if last is None:
        return False
    return any((this.own_key(lane) or last) < last for lane in lanes.fresh.values())


def look_behind(this: Pass, promised: list[int]) -> None:
    """After a pass: somebody lost his promise and still waits. Fair share can bring that about.

    Where many have promises, who has one changes all the time and means little.
    """
    kept, where, scheduler = this.promises.kept, this.cluster.lanes.where, this.scheduler
    if not scheduler.hindered or this.promises.depth != 1 or scheduler.behind == [*kept]:
        return
    if any(job not in kept and job in where for job in promised):
        scheduler.behind = [*kept]
        scheduler.open_hindered()
        this.plan.more = True
