"""``-p a,b``: of several partitions the one in which the job would start first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.controller.commands.submit import refuse_submission
from rota.core.facts.errors import Busy, Rejected
from rota.scheduling.answers.outlook import outlook

if TYPE_CHECKING:
    from rota.controller.commands.commands import Submission
    from rota.slurm.call.command import Call


async def in_best_partition(call: Call, made: Submission, names: list[str]) -> Submission:
    """As things stand now. Of equal ones the first; where all refuse it, the first one says why."""
    known = call.context.host.cluster.queues
    if len(names) < 2 or any(name not in known for name in names):
        return made
    asked = [_in(made, name) for name in dict.fromkeys(names)]
    taken = [one for one in asked if _takes(call, one)]
    if len(taken) < 2:
        return taken[0] if taken else asked[0]
    try:
        starts_s = await call.context.questions.ask(
            call.actor, lambda: [_start_s(call, one) for one in taken]
        )
    except Busy:
        return taken[0]
    return taken[starts_s.index(min(starts_s))]


def _in(made: Submission, queue: str) -> Submission:
    spec = msgspec.structs.replace(made.spec, queue=queue)
    return msgspec.structs.replace(made, spec=spec)


def _takes(call: Call, made: Submission) -> bool:
    try:
        refuse_submission(call.context.host.cluster, made, call.actor)
    except Rejected:
        return False
    return True


def _start_s(call: Call, made: Submission) -> float:
    host = call.context.host
    now_s = host.clock.now_s()
    found = outlook(host.scheduler, made.spec, now_s, held=made.held, advice=False)
    return now_s if found.starts else found.start_s or float("inf")
