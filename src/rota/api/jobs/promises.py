"""What is said of a deadline that is to be promised, at a submit and without one."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from rota.api.views.times import Moment, when
from rota.controller.commands.commands import Answered
from rota.controller.commands.pledges import (
    LEAST_CHANCE,
    Overtaken,
    is_in_time,
    refuse_unfit,
    why_not,
)
from rota.scheduling.answers.pledging import place_in_line, weigh

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rota.api.context import Context
    from rota.controller.commands.commands import Submission, Submitted
    from rota.core.facts.job import JobSpec
    from rota.core.facts.tenant import Actor
    from rota.scheduling.answers.pledging import Weighed

    HandIn = Callable[[Submission], Awaitable[Submitted]]

#: Chances are told in steps of this many per cent: more would be said than is known.
STEP = 5
#: How often a promise is worked out while what it rests on changes.
TRIES = 5


class PromiseView(msgspec.Struct):
    """``yes``: room is kept from ``start_at`` on; ``chance``: none is; ``no``: see ``reason``."""

    answer: Literal["yes", "no", "chance"]
    by_at: Moment | None
    #: When it starts at the latest; null where that is not promised.
    start_at: Moment | None = None
    #: How many of a hundred such jobs are done in time.
    percent: int = 0
    reason: str = ""


def promise_view(said: Answered, spec: JobSpec) -> PromiseView:
    by_at = when(spec.deadline_s)
    if said.start_s:
        return PromiseView("yes", by_at, when(said.start_s), 100)
    return PromiseView("chance", by_at, percent=round(100 * said.chance))


async def promised(
    context: Context, actor: Actor, submission: Submission, hand_in: HandIn
) -> Submitted:
    """Hand it in with what can be said of its deadline.

    That is worked out before, for it takes long; where what it rests on has changed by then, again.
    """
    refuse_unfit(submission)
    for left in reversed(range(TRIES)):
        await context.foretelling.look()
        weighed, chance = await context.questions.ask(
            actor, lambda: _weigh(context, submission.spec)
        )
        try:
            return await hand_in(replace(submission, weighed=weighed, chance=chance))
        except Overtaken:
            if not left:
                raise
    raise AssertionError("the last try ends it")


def asked_for(context: Context, submission: Submission) -> PromiseView:
    """The answer without a submit."""
    spec = submission.spec
    (found, _), chance = _weigh(context, spec)
    if found is not None and is_in_time(found, spec):
        return promise_view(Answered(start_s=found.start_s), spec)
    if chance >= LEAST_CHANCE:
        return promise_view(Answered(chance=chance), spec)
    return PromiseView("no", when(spec.deadline_s), reason=why_not(found, spec))


def _weigh(context: Context, spec: JobSpec) -> tuple[Weighed, float]:
    """The room that can be kept, and the chance that the deadline is met where none can."""
    now_s = context.host.clock.now_s()
    found = weigh(context.host.scheduler, spec, now_s)
    if found.pledge is not None and is_in_time(found.pledge, spec):
        return found, 0.0
    return found, _chance(context, spec, now_s)


def _chance(context: Context, spec: JobSpec, now_s: float) -> float:
    """By the plan of the line and what came of such plans; its whole limit counts as its run."""
    within_s = spec.deadline_s - spec.time_limit_s - now_s
    place = place_in_line(context.host.scheduler, spec, now_s)
    if place is None or within_s <= 0:
        return 0.0
    foretelling = context.foretelling
    said = foretelling.of_new(spec, place.ahead, place.part)
    if said is None:
        return 0.0
    exact = foretelling.bands.chance(said.word.planned_s, within_s)
    return floor(100 * exact / STEP) * STEP / 100
