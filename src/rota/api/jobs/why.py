"""Why a job waits, or how it ended, and what would help."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec
from litestar import get
from litestar.params import QueryParameter

from rota.api import params
from rota.api.auth import may_look_into
from rota.api.bodies.submission import moment
from rota.api.context import Asking, actor_of, context_of
from rota.api.jobs.basis import with_basis
from rota.api.jobs.endings import FailureView, failures, last_words
from rota.api.views.attempt_views import told_detail
from rota.api.views.foretold import ForetoldView, foretold_view
from rota.api.views.lookup import find
from rota.api.views.refs import with_refs
from rota.api.views.views import ref_of, worst
from rota.controller.commands.submit import USER_PRIORITY_MAX
from rota.controller.tick.endings import words_for
from rota.core.facts.array import Array
from rota.core.facts.errors import Busy, Conflict, IllegalMove, Rejected
from rota.core.facts.job import Job
from rota.core.facts.states import ACTIVE, FINAL, Cause, JobState
from rota.core.facts.tenant import Access, Actor
from rota.core.words.units import format_indices
from rota.scheduling.answers.advice import AskerRights, explain_and_advise
from rota.scheduling.answers.explain import describe_end, explain
from rota.scheduling.answers.explain_past import explain_at
from rota.scheduling.answers.reasons import Tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.api.context import Context
    from rota.controller.loop import Host
    from rota.scheduling.answers.explain import Explanation
    from rota.store.api import Store

#: The most nodes that a line names.
NODES_NAMED = 5
#: A longer log is not folded for one question.
LOG_MAX = 200_000
At = Annotated[
    str,
    QueryParameter(
        description="As it was at this moment: seconds since 1970, or 2026-11-15T18:00:00Z",
        max_length=64,
    ),
]


class WhyView(msgspec.Struct):
    """A line, the whole story, what would start it now, and the reasons as data.

    ``tree`` is null for a job that has ended; its times are seconds since 1970.
    """

    id: int
    #: Null: it had not been submitted then.
    state: JobState | None
    reason: str
    lines: list[str]
    help: list[str]
    tree: Tree | None = None
    #: How people name it: 12, or 15_3 for an element of an array.
    ref: str = ""
    #: Of a job that failed: what it ran, the exception of a Python program, the last lines of its
    #: standard error (or of its standard output, where that is empty).
    command: str = ""
    error: str = ""
    last_lines: list[str] = []
    #: Of a job that waits for room: when it will probably start. Null: nobody can say.
    foretold: ForetoldView | None = None
    #: Of an array that has not ended: how many elements are in which state.
    elements: dict[str, int] = {}
    #: Of an array: its elements that failed, by what ended them.
    failures: list[FailureView] = []


def asker_of(actor: Actor) -> AskerRights:
    """What advice depends on: whether the caller is an operator."""
    operator = actor.access in (Access.ADMIN, Access.OPERATOR)
    return AskerRights(operator, 100 if operator else USER_PRIORITY_MAX)


@get(
    "/jobs/{job_id:str}/why",
    summary="Why a job waits, or how it ended",
    opt={"right": "read", "errors": (404,)},
)
async def why(request: Asking, job_id: params.JobPath, at: At = "") -> WhyView:
    """`reason` in one line, `lines` with the story, `help` with changes that start it now."""
    context, actor = context_of(request), actor_of(request)
    host = context.host
    found = await find(host, job_id)
    if at:
        at_s = moment("at", _number(at), context.desk)
        async with context.questions.turn(actor):
            answer = await _why_then(host, found.id, at_s)
    elif isinstance(found, Job) and found.outcome is not None:
        answer = await _why_ended(context, actor, found)
    else:
        answer = await _why_now(context, actor, found)
        if isinstance(found, Job):
            answer.lines += _of_last_try(actor, found)
    if not at:
        answer.lines = await with_basis(host, answer.lines, answer.tree)
        await context.foretelling.look()
        expected = answer.tree.expected if answer.tree is not None else None
        said = context.foretelling.of_item(found)
        if expected is not None and expected.victims:
            said = context.foretelling.by(expected)
        answer.foretold = foretold_view(said, host.clock.now_s(), context.foretelling.bands)
    answer.ref = ref_of(found) if isinstance(found, Job) else str(found.id)
    answer.reason = with_refs(host.cluster, answer.reason)
    answer.lines = [with_refs(host.cluster, line) for line in answer.lines]
    answer.help = [with_refs(host.cluster, line) for line in answer.help]
    if isinstance(found, Array) and not at:
        answer.failures = await failures(context, actor, found)
    return answer


async def _why_ended(context: Context, actor: Actor, job: Job) -> WhyView:
    end = job.outcome
    assert end is not None
    open_ = may_look_into(actor, job.spec.user)
    line = describe_end(end.state, end.cause, told_detail(end, open_=open_))
    words = await last_words(context, actor, job)
    return WhyView(
        job.id,
        end.state,
        line,
        [line],
        [],
        command=words.command,
        error=words.error,
        last_lines=words.last_lines,
    )


#: Causes of ends of which the words say all.
_SAID_BY_THEMSELVES = (Cause.EXIT, Cause.SIGNAL, Cause.TIME_LIMIT, Cause.START_FAILED)


def _of_last_try(actor: Actor, job: Job) -> list[str]:
    """Of a job that waits once more: what its last try came to."""
    tries = job.round
    if not tries or job.live_attempts:
        return []
    last = next((one for one in tries if one.cause is not Cause.PEER_FAILED), tries[0])
    cause = last.cause or Cause.EXIT
    what = told_detail(last, open_=may_look_into(actor, job.spec.user))
    if not last.detail:
        what = words_for(job, last, cause)
    verb = "could not start" if cause is Cause.START_FAILED else "ended"
    named = "" if cause in _SAID_BY_THEMSELVES and what else cause.replace("_", " ")
    said = ": ".join(filter(None, (named, what)))
    return [f"its try {last.number} on {last.allocation.node} {verb}: {said}"]


async def _why_now(context: Context, actor: Actor, found: Job | Array) -> WhyView:
    try:
        return await context.questions.ask(actor, lambda: _tried(context, actor, found))
    except Busy as busy:
        # What it waits for needs no trial. What would help is not known then.
        view = _told(context, found, partial(explain, context.host.scheduler))
        view.lines.append(f"what would help was not tried: {busy}")
        return view


def _tried(context: Context, actor: Actor, found: Job | Array) -> WhyView:
    advise = partial(explain_and_advise, context.host.scheduler, rights=asker_of(actor))
    return _told(context, found, advise)


def _told(context: Context, found: Job | Array, say: Callable[..., Explanation]) -> WhyView:
    host = context.host
    state = host.cluster.state_of(found.id)
    if isinstance(found, Array) and (state is None or state in FINAL):
        counts = host.cluster.count_elements(found)
        told_counts = ", ".join(f"{count} {one}" for one, count in counts.items() if count)
        line = f"its {found.count} elements have ended: {told_counts}"
        return WhyView(found.id, state or worst(counts), line, [line], [])
    if state is None or state in FINAL:
        line = f"it has ended: {state or JobState.COMPLETED}"
        return WhyView(found.id, state or JobState.COMPLETED, line, [line], [])
    if isinstance(found, Array):
        return _array_told(context, found, state, say)
    told = say(found.id, host.clock.now_s())
    lines = [*told.lines, *_of_pilots(context, found.id)]
    return WhyView(found.id, state, told.reason, lines, told.help, told.tree)


def _array_told(
    context: Context, array: Array, state: JobState, say: Callable[..., Explanation]
) -> WhyView:
    """What runs of it, and why the others wait: those that nothing has touched, or else the first
    of them that waits again."""
    host = context.host
    cluster = host.cluster
    open_ = [cluster.jobs[item] for item in sorted(cluster.families.unfinished.get(array.id, ()))]
    running = [job for job in open_ if job.state in ACTIVE]
    counts = {str(one): count for one, count in cluster.count_elements(array).items() if count}
    waiting = (
        array.id
        if len(array.pending())
        else next((job.id for job in open_ if job.state not in ACTIVE), 0)
    )
    lines = [_running_line(running)] if running else []
    if not waiting:
        return WhyView(array.id, state, lines[0], lines, [], elements=counts)
    told = say(waiting, host.clock.now_s())
    lines += [*told.lines, *_of_pilots(context, array.id)]
    return WhyView(array.id, state, told.reason, lines, told.help, told.tree, elements=counts)


def _running_line(running: list[Job]) -> str:
    """``running: elements 0-1,4 on a, b``."""
    nodes = sorted({one.allocation.node for job in running for one in job.live_attempts})
    shown = ", ".join(nodes[:NODES_NAMED]) + (", …" if len(nodes) > NODES_NAMED else "")
    indices = format_indices(sorted(job.array_index for job in running))
    which = "element" if len(running) == 1 else "elements"
    return f"running: {which} {indices}" + (f" on {shown}" if shown else "")


def _of_pilots(context: Context, item: int) -> list[str]:
    """What a job that waits for room may hope for: allocations that wait themselves, and why."""
    cluster = context.host.cluster
    if item not in cluster.lanes.where and cluster.array_of(item) is None:
        return []
    lines = []
    for name in sorted(cluster.pilots.keys() & context.pilots.keys()):
        told, kind = context.pilots[name], cluster.pilots[name].kind.capitalize()
        reasons = {one.reason for one in told.allocations if one.state == "waiting"}
        lines += [f"a pilot of {name} waits in {kind}: {r or 'no reason'}" for r in sorted(reasons)]
        if any(one.state == "starting" for one in told.allocations):
            lines.append(f"a pilot of {name} is starting")
        if told.problem:
            lines.append(f"no pilot of {name}: {told.problem}")
    return lines


def _number(text: str) -> float | str:
    """Seconds since 1970 come as text in a query."""
    try:
        return float(text)
    except ValueError:
        return text


async def _why_then(host: Host, job_id: int, at_s: float) -> WhyView:
    if not at_s <= host.clock.now_s():
        raise Rejected.because("at", at_s, f"{at_s} is in the future; give a past time")

    def look_back(store: Store) -> tuple[JobState | None, Explanation | None]:
        if len(store.events(after=LOG_MAX, limit=1)):
            raise Conflict(
                f"at: the log has more than {LOG_MAX} events, too many to look back in",
                field="at",
            )
        return explain_at(store.all_events(), job_id, at_s)

    try:
        state, told = await host.read(look_back)
    except (KeyError, AssertionError, IllegalMove):
        raise Conflict(
            "at: the log does not reach back that far: old jobs were removed from it", field="at"
        ) from None
    if state is None or told is None:
        line = "it had not been submitted then"
        return WhyView(job_id, None, line, [line], [])
    return WhyView(job_id, state, told.reason, told.lines, told.help, told.tree)


ROUTES = [why]
