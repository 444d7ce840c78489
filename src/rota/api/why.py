"""Why a job waits, or how it ended, and what would help."""

from __future__ import annotations

import msgspec
from litestar import get

from rota.api import params
from rota.api.context import Asking, actor_of, context_of
from rota.api.lookup import find
from rota.controller.submit import USER_PRIORITY_MAX
from rota.core.job import Job
from rota.core.states import FINAL, JobState
from rota.core.tenant import Access, Actor
from rota.scheduling.advice import Asker, explain_and_advise
from rota.scheduling.explain import describe_end
from rota.scheduling.reasons import Tree


class WhyView(msgspec.Struct):
    """A line, the whole story, what would start it now, and the reasons as data.

    ``tree`` is null for a job that has ended; its times are seconds since 1970.
    """

    id: int
    state: str
    reason: str
    lines: list[str]
    help: list[str]
    tree: Tree | None = None


def asker_of(actor: Actor) -> Asker:
    """What advice depends on: whether the caller is an operator."""
    operator = actor.access in (Access.ADMIN, Access.OPERATOR)
    return Asker(operator, 100 if operator else USER_PRIORITY_MAX)


@get(
    "/jobs/{job_id:str}/why",
    summary="Why a job waits, or how it ended",
    opt={"right": "read", "errors": (404,)},
)
async def why(request: Asking, job_id: params.JobPath) -> WhyView:
    """`reason` in one line, `lines` with the story, `help` with changes that start it now."""
    host = context_of(request).host
    found = await find(host, job_id)
    if isinstance(found, Job) and found.outcome is not None:
        end = found.outcome
        line = describe_end(end.state, end.cause, end.detail)
        return WhyView(found.id, end.state, line, [line], [])
    state = host.cluster.state_of(found.id)
    if state is None or state in FINAL:
        line = f"it has ended: {state or JobState.COMPLETED}"
        return WhyView(found.id, state or JobState.COMPLETED, line, [line], [])
    told = explain_and_advise(
        host.scheduler, found.id, host.clock.now_s(), asker_of(actor_of(request))
    )
    return WhyView(found.id, state, told.reason, told.lines, told.help, told.tree)


ROUTES = [why]
