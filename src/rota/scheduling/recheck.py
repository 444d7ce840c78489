"""When those that a claim keeps out are looked at again.

As long as the same claims stand, a node that changes helps only shapes that it has room for. When
somebody comes before one who was promised a start, he who is first now gets the promise, and what
the old one kept waiting may fit beside the new one; without a look it would wait for the next job
that ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.scheduling.passes import Pass


def look_again(this: Pass, promised: list[int]) -> None:
    """Before a pass: take in those kept out by claims, if these may be others now."""
    scheduler = this.scheduler
    stirred, scheduler.stirred = scheduler.stirred, False
    if not scheduler.hindered:
        return
    if this.promises.all_stand:
        this.left_out = True
    elif stirred or _is_overtaken(this, promised):
        scheduler.open_hindered()


def _is_overtaken(this: Pass, promised: list[int]) -> bool:
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
    if this.left_out and this.promises.withdrawn and scheduler.hindered:
        # A claim that stood when the pass began stands no more.
        scheduler.open_hindered()
        this.plan.more = True
        return
    if not scheduler.hindered or this.promises.depth != 1 or scheduler.behind == [*kept]:
        return
    if any(job not in kept and job in where for job in promised):
        scheduler.behind = [*kept]
        scheduler.open_hindered()
        this.plan.more = True
