"""Why a job waited at some moment in the past: the log is folded up to then and asked again.

Every decision follows from the state, and the state from the log, so the trail of all decisions
need not be written down a second time. It reaches back as far as the log does.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from rota.core.changes.compare import fold
from rota.scheduling.answers.explain import explain
from rota.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.core.changes.events import Recorded
    from rota.core.facts.policy import Policy
    from rota.core.facts.states import JobState
    from rota.scheduling.answers.explain import Explanation
    from rota.scheduling.registry import Catalog


def explain_at(
    log: Iterable[Recorded],
    job_id: int,
    at_s: float,
    load: Callable[[Policy], Catalog] | None = None,
) -> tuple[JobState | None, Explanation | None]:
    """The state that a job was in at a moment and what was to be said about it.

    None and None when it had not been submitted by then. ``load`` brings the plug-ins
    that were in force.
    """
    cluster = fold(takewhile(lambda record: record.at_s <= at_s, log))
    state = cluster.state_of(job_id)
    if state is None:
        return None, None
    scheduler = Scheduler(cluster, load)
    # What could start had started; the pass only finds out again which job waits for what.
    scheduler.run(at_s)
    return state, explain(scheduler, job_id, at_s)
