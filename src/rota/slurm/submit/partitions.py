"""``-p a,b``: of several partitions the one in which the job would start first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.api.jobs.why import asker_of
from rota.controller.commands.submit import refuse_submission
from rota.core.facts.errors import Rejected
from rota.scheduling.answers.outlook import outlook

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.controller.commands.commands import Submission
    from rota.slurm.call.command import Call


def in_best_partition(call: Call, made: Submission, names: list[str]) -> Submission:
    """As things stand now. Of equal ones the first; where all refuse it, the first one says why."""
    known = call.context.host.cluster.queues
    if len(names) < 2 or any(name not in known for name in names):
        return made
    asked = [_in(made, name) for name in names]
    return min((one for one in asked if _takes(call, one)), key=_start(call), default=asked[0])


def _in(made: Submission, queue: str) -> Submission:
    spec = msgspec.structs.replace(made.spec, queue=queue)
    return msgspec.structs.replace(made, spec=spec)


def _takes(call: Call, made: Submission) -> bool:
    try:
        refuse_submission(call.context.host.cluster, made, call.actor)
    except Rejected:
        return False
    return True


def _start(call: Call) -> Callable[[Submission], float]:
    host = call.context.host
    now_s = host.clock.now_s()

    def start_s(made: Submission) -> float:
        found = outlook(host.scheduler, made.spec, now_s, asker_of(call.actor), held=made.held)
        return now_s if found.starts else found.start_s or float("inf")

    return start_s
