"""What would become of a job: the answer to a submit that is not made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from litestar import post

from rota.api.bodies.requests import JobRequest, decode_job
from rota.api.bodies.submission import to_submission
from rota.api.context import Asking, actor_of, context_of
from rota.api.jobs.basis import with_basis
from rota.api.jobs.promises import PromiseView, asked_for
from rota.api.jobs.why import asker_of
from rota.api.views.attempt_views import AllocationView, allocation_view
from rota.api.views.foretold import ForetoldView, foretold_view
from rota.api.views.times import Moment, when
from rota.controller.commands.pledges import refuse_unfit
from rota.controller.commands.submit import refuse_submission
from rota.scheduling.answers.outlook import Outlook, outlook
from rota.scheduling.answers.reasons import Decision, Tree
from rota.scheduling.answers.whole_sweep import starting_now
from rota.scheduling.place.scores import placement_score
from rota.scheduling.place.tariff import estimate

if TYPE_CHECKING:
    from rota.api.context import Context
    from rota.controller.commands.commands import Submission
    from rota.core.cluster import Cluster
    from rota.core.facts.job import JobSpec
    from rota.core.facts.tenant import Actor


class DelayView(msgspec.Struct):
    """A waiting job that would start later."""

    id: int
    start_at: Moment | None
    later_at: Moment | None


class CostView(msgspec.Struct):
    """What a job will probably cost: a price an hour, for a number of hours."""

    per_hour: float
    hours: float
    cost: float
    currency: str


class PlanView(msgspec.Struct):
    """``start_at`` is now, a moment to come, or null when nobody can say.

    ``help`` are options that would start it now; ``evicts`` are running jobs that would give way.
    """

    starts: bool
    decision: Decision
    start_at: Moment | None
    allocations: list[AllocationView]
    #: 100 to 150 on one node, the more the nearer its devices are; 50 on several; 0 on none.
    score: int
    reason: str
    lines: list[str]
    help: list[str]
    evicts: list[int]
    delays: list[DelayView]
    tree: Tree
    #: Null where the site has no prices.
    cost: CostView | None
    #: When it will probably start. Null: it would start now, or nobody can say.
    foretold: ForetoldView | None = None
    #: What would be said of its deadline, where a promise is asked for.
    promise: PromiseView | None = None
    #: Of an array: how many elements it has, and how many of them would start now.
    elements: int | None = None
    elements_starting: int | None = None


@post(
    "/plan",
    summary="What would become of a job, without submitting it",
    opt={"right": "submit", "body": JobRequest, "errors": (409, 413)},
    status_code=200,
)
async def plan(request: Asking) -> PlanView:
    """Takes what POST /jobs takes and refuses what it refuses; nothing is changed.

    Of an array this tells about its first element, and how many of them would start now.
    """
    context, actor = context_of(request), actor_of(request)
    asked = decode_job(await request.body())
    submission = await context.host.parents.at_hand(
        lambda: to_submission(asked, actor, context.desk)
    )
    return await planned(context, actor, submission)


async def planned(context: Context, actor: Actor, submission: Submission) -> PlanView:
    """What would become of it; refused is what a submit would refuse."""
    refuse_submission(context.host.cluster, submission, actor)
    if submission.promise:
        refuse_unfit(submission)
    await context.foretelling.look()
    view = await context.questions.ask(actor, lambda: _tried(context, actor, submission))
    view.lines = await with_basis(context.host, view.lines, view.tree)
    return view


def _tried(context: Context, actor: Actor, submission: Submission) -> PlanView:
    host = context.host
    found = outlook(
        host.scheduler,
        submission.spec,
        host.clock.now_s(),
        asker_of(actor),
        held=submission.held,
    )
    view = plan_view(found, host.cluster, cost_view(host.cluster, submission.spec, found))
    if submission.runs:
        count = sum(map(len, submission.runs))
        view.elements, view.elements_starting = count, 0
        if found.starts:
            view.elements_starting = starting_now(
                host.scheduler, submission.spec, count, submission.cap, host.clock.now_s()
            )
    expected, foretelling, said = view.tree.expected, context.foretelling, None
    if expected is not None and expected.victims:
        said = foretelling.by(expected)
    elif not view.starts and view.tree.ahead is not None:
        said = foretelling.of_new(submission.spec, view.tree.ahead.jobs, found.part)
    view.foretold = foretold_view(said, host.clock.now_s(), foretelling.bands)
    if submission.promise:
        view.promise = asked_for(context, submission)
    return view


@post(
    "/jobs/estimate",
    summary="What a job would cost",
    opt={"right": "submit", "body": JobRequest, "errors": (409, 413)},
    status_code=200,
)
async def estimate_cost(request: Asking) -> CostView:
    """Takes what POST /jobs takes; by the cheapest nodes that suit it. Nothing is changed."""
    context, actor = context_of(request), actor_of(request)
    asked, host = decode_job(await request.body()), context.host
    submission = await host.parents.at_hand(lambda: to_submission(asked, actor, context.desk))
    view = cost_view(host.cluster, submission.spec)
    return view or CostView(0.0, 0.0, 0.0, "")


def cost_view(cluster: Cluster, spec: JobSpec, found: Outlook | None = None) -> CostView | None:
    prices = cluster.policy.prices
    if not prices.rates:
        return None
    guess = estimate(cluster, spec, found.allocations if found is not None else ())
    hourly, hours, cost = (round(n, 4) for n in (guess.hourly, guess.hours, guess.cost))
    return CostView(hourly, hours, cost, prices.currency)


def plan_view(found: Outlook, cluster: Cluster, cost: CostView | None = None) -> PlanView:
    specs = {held.node: cluster.nodes[held.node].spec for held in found.allocations}
    return PlanView(
        starts=found.starts,
        decision=found.decision,
        start_at=when(found.start_s),
        allocations=[allocation_view(task, held) for task, held in enumerate(found.allocations)],
        score=placement_score(found.allocations, specs),
        reason=found.reason,
        lines=found.lines,
        help=found.help,
        evicts=list(found.evicts),
        delays=[DelayView(d.job, when(d.start_s), when(d.later_s)) for d in found.delays],
        tree=found.tree,
        cost=cost,
    )


ROUTES = [plan, estimate_cost]
