"""The value that a pass filed a job's lane under, as an answer names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.scheduling.answers.reasons import Waiting, WaitKind
from rota.scheduling.outcomes import Barred, Behind, Capped, ClaimedRoom, Vetoed

if TYPE_CHECKING:
    from rota.core.derived.lanes import Counter
    from rota.scheduling.outcomes import Wait
    from rota.scheduling.scheduler import Scheduler

#: Counters that are told by two names: how.
_WORDS = {
    "queue user": "{1} in queue {0}",
    "queue project": "project {1} in queue {0}",
    "user type": "user {0} for {1}",
    "type": "project {0} for {1}",
}


def waiting_of(scheduler: Scheduler, item: int, wait: Wait | None) -> Waiting | None:
    """What a job or array waits for, by what its lane is filed under."""
    lane = scheduler.cluster.lanes.where.get(item)
    if wait is None or lane is None:
        return None
    again_s = scheduler.waits.again_s(lane.number)
    shape = scheduler.cluster.lanes.shapes[lane.key.shape]
    match wait:
        case Capped():
            names = tuple(map(_named, wait.counters))
            return Waiting(kind="limit", counters=names, again_s=again_s)
        case Barred():
            return Waiting(kind="share", again_s=again_s)
        case Behind():
            return Waiting(kind="turn")
        case Vetoed():
            return Waiting(kind="neighbours")
        case ClaimedRoom():
            may_fit, claims = scheduler.promises.may_fit, scheduler.timeline.claims
            found = [n for n in claims if may_fit(lane.key.shape, (n,))]
            return _for_room("claim", [n for n in found if shape.placement.admits(n)])
        case _:
            return _for_room("room", scheduler.space.suited(lane.key.shape, shape))


def _for_room(kind: WaitKind, names: list[str]) -> Waiting:
    return Waiting(kind=kind, nodes=len(names), node=min(names, default=""))


def _named(counter: Counter) -> str:
    kind, name = counter
    return _WORDS.get(kind, kind + " {0}").format(*str(name).split("\n"))
