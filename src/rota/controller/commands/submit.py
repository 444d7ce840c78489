"""Submitting: every check first, then the events, so that a batch is taken whole or not at all."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rota.controller.commands import pledges
from rota.controller.commands.clusters import refuse_place
from rota.controller.commands.commands import Submission, Submit, Submitted
from rota.controller.commands.possible import refuse_impossible
from rota.controller.tick import lifecycle
from rota.core.changes import events as ev
from rota.core.changes.dependencies import refuse_unknown, with_runs
from rota.core.derived.ids import kept_key
from rota.core.facts.errors import Conflict, Forbidden, KeyReused, Rejected
from rota.core.facts.states import QueueState
from rota.core.facts.tenant import Access, Actor, Group
from rota.core.words.kin import PARENT_LABEL
from rota.core.words.units import counted
from rota.scheduling.limits.refusals import refuse_over_quota
from rota.scheduling.place.tariff import refuse_cost

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.controller.tick.forecast import Forecast
    from rota.controller.tick.scribe import Scribe
    from rota.core.cluster import Cluster
    from rota.core.facts.array import Array
    from rota.core.facts.job import JobSpec
    from rota.scheduling.scheduler import Scheduler

#: The highest priority that somebody without an operator's role may ask for: ``high``.
USER_PRIORITY_MAX = 75


def submit(
    scribe: Scribe,
    command: Submit,
    new_uid: Callable[[], str],
    read_array: Callable[[int], Array | None],
    forecast: Forecast,
    scheduler: Scheduler,
) -> Submitted:
    """Take a batch, or raise ``Rejected`` with nothing changed."""
    cluster, actor = scribe.cluster, command.actor
    if actor.access in (Access.VIEWER, Access.AGENT):
        raise Forbidden(f"{actor.user} has the role {actor.access} and may not submit jobs")
    if command.key and (known := cluster.ids.keys.get((actor.user, command.key))) is not None:
        # An older version kept more of the same digest.
        if known.digest and not known.digest.startswith(command.digest):
            raise KeyReused.of(command.key, f"job {known.first}")
        return Submitted(_ids_from(known.first, command.submissions), repeated=True)
    refuse_too_many(cluster, command)
    brought: dict[str, int] = {}
    for number, submission in enumerate(command.submissions):
        project = submission.spec.project
        brought[project] = brought.get(project, 0) + (sum(map(len, submission.runs)) or 1)
        named = number if len(command.submissions) > 1 else None
        _check(cluster, submission, actor, named, brought[project])
    taken = [_child_of(actor, submission) for submission in command.submissions]
    taken = [_tied(cluster, submission, read_array) for submission in taken]
    pledge, answer = pledges.answer(scribe, scheduler, command, taken)
    if pledge is not None:
        taken = [pledges.marked(scribe.cluster, taken[0])]
    key = kept_key(command.key, command.digest)
    ids_uids = [
        _take(scribe, submission, new_uid(), "" if number else key, forecast)
        for number, submission in enumerate(taken)
    ]
    if pledge is not None:
        pledges.keep(scribe, ids_uids[0][0], pledge)
    return Submitted(tuple(i for i, _ in ids_uids), tuple(u for _, u in ids_uids), promise=answer)


def refuse_too_many(cluster: Cluster, command: Submit) -> None:
    """What the site lets any user have waiting, where no quota of the user's own says more."""
    user, most = command.actor.user, command.most_waiting
    if not most or cluster.accounts.quota_of(user).hard.queued is not None:
        return
    more = sum(sum(map(len, submission.runs)) or 1 for submission in command.submissions)
    waiting = cluster.accounts.waiting.get(("user", user))
    if waiting + more > most:
        may = f"user {user} may have {counted(most, 'jobs')} waiting (limits.queued)"
        allowed = f"{may} and has {waiting}"
        text = f"queued: {more} more is not allowed; {allowed}"
        raise Conflict(text, field="queued", value=more, allowed=allowed)


def refuse_other_project(actor: Actor, spec: JobSpec) -> None:
    """A token of a project spends what that project may, and nothing else."""
    if actor.project and spec.project != actor.project:
        why = f"this token is for jobs of project {actor.project}"
        raise Forbidden(f"project: {spec.project!r}: {why}", field="project", value=spec.project)


def _child_of(actor: Actor, submission: Submission) -> Submission:
    """What a job submits carries its mark, so that the job may change it later."""
    if not actor.job:
        return submission
    labels = {**submission.spec.labels, PARENT_LABEL: str(actor.job)}
    return replace(submission, spec=replace(submission.spec, labels=labels))


def _tied(
    cluster: Cluster, submission: Submission, read_array: Callable[[int], Array | None]
) -> Submission:
    parents = with_runs(cluster, submission.spec.dependencies, read_array)
    if parents == submission.spec.dependencies:
        return submission
    return replace(submission, spec=replace(submission.spec, dependencies=parents))


def _ids_from(first: int, submissions: tuple[Submission, ...]) -> tuple[int, ...]:
    """Ids of one batch are consecutive blocks, so the first id gives the others."""
    ids: list[int] = []
    for submission in submissions:
        ids.append(first)
        first += 1 + sum(map(len, submission.runs))
    return tuple(ids)


def _check(
    cluster: Cluster, submission: Submission, actor: Actor, number: int | None, count: int
) -> None:
    """``count`` is how many jobs its project has with it and those before it in the batch."""
    try:
        refuse_escalation(actor, submission.spec.priority)
        refuse_other_project(actor, submission.spec)
        _check_one(cluster, submission)
        refuse_non_member(cluster, submission.spec, actor)
        refuse_over_quota(cluster, submission.spec, count)
        refuse_cost(cluster, submission.spec)
    except Rejected as error:
        if number is not None:
            error.field = f"jobs[{number}].{error.field}"
            error.detail = f"jobs[{number}].{error.detail}"
            error.args = (error.detail,)
        raise


def refuse_submission(cluster: Cluster, submission: Submission, actor: Actor) -> None:
    """Refuse what a submit would refuse, and change nothing."""
    _check(cluster, submission, actor, None, sum(map(len, submission.runs)) or 1)


def _check_one(cluster: Cluster, submission: Submission) -> None:
    spec = submission.spec
    refuse_queue(cluster, spec)
    refuse_group(cluster, spec)
    refuse_project(cluster, spec)
    refuse_nodes(cluster, spec)
    refuse_place(cluster, spec)
    refuse_unknown(cluster, spec.dependencies)
    refuse_nameless_share(spec)
    refuse_long_grace(cluster, spec)
    if not spec.scheduling_timeout_s:
        refuse_impossible(cluster, spec)


def refuse_queue(cluster: Cluster, spec: JobSpec) -> None:
    """A queue must exist and take jobs."""
    queue = cluster.queues.get(spec.queue)
    if queue is None:
        known = ", ".join(sorted(cluster.queues))
        why = f"there is no queue {spec.queue!r}; known queues: {known}"
        raise Rejected.because("queue", spec.queue, why)
    if queue.state in (QueueState.DRAINING, QueueState.CLOSED):
        raise Conflict(
            f"queue: {spec.queue} is {queue.state} and takes no jobs",
            field="queue",
            value=spec.queue,
            allowed="an active or paused queue",
        )


def refuse_group(cluster: Cluster, spec: JobSpec) -> None:
    """A group belongs to the one who made it."""
    group = cluster.groups.get(spec.group)
    if group is not None and group.owner != spec.user:
        raise Forbidden(
            f"group: {spec.group} belongs to {group.owner}",
            field="group",
            value=spec.group,
            allowed="a group of your own",
        )


def refuse_long_grace(cluster: Cluster, spec: JobSpec) -> None:
    """Work on a node that fell silent is started elsewhere only after its grace."""
    most_s = cluster.policy.grace_max_s
    if most_s and spec.grace_s > most_s:
        raise Rejected.bad("grace_s", spec.grace_s, f"0 to {most_s} (grace_max_s of this site)")


def refuse_project(cluster: Cluster, spec: JobSpec) -> None:
    """A project must be on record as soon as any is; where the rules say so, a job needs one."""
    projects, required = cluster.accounts.projects, cluster.policy.known_projects
    free = not projects if spec.project else True
    if spec.project in projects or (free and not required):
        return
    known = ", ".join(sorted(projects)) or "none yet; an operator makes one"
    if spec.project:
        close = get_close_matches(spec.project, projects, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise Rejected.because(
            "project",
            spec.project,
            f"there is no project {spec.project}; {hint}(known projects: {known})",
        )
    raise Rejected(
        f"project: is required here; known projects: {known}", field="project", allowed=known
    )


def refuse_non_member(cluster: Cluster, spec: JobSpec, actor: Actor) -> None:
    """A project with members takes their jobs only; operators may let any job count for it."""
    members = cluster.accounts.members_of(spec.project)
    if not members or spec.user in members or actor.access in (Access.ADMIN, Access.OPERATOR):
        return
    raise Forbidden(
        f"project: {spec.user} is not a member of {spec.project}; an operator can change that",
        field="project",
        value=spec.project,
        allowed="a project that you are a member of",
    )


def refuse_nodes(cluster: Cluster, spec: JobSpec) -> None:
    """Nodes that a job wants must be on record; a job with a timeout may wait for one to come."""
    if spec.scheduling_timeout_s or not cluster.nodes:
        return
    for name in spec.placement.nodes:
        if name not in cluster.nodes:
            known = ", ".join(sorted(cluster.nodes)[:20])
            raise Rejected.unknown("node_list", name, "node", f"known nodes: {known}")


def refuse_nameless_share(spec: JobSpec) -> None:
    """Who shares a device says how much of it: otherwise the sum means nothing."""
    for role in spec.roles:
        request = role.request
        named = request.device_memory_mib or request.device_milli
        if request.shared and request.device_count and not named:
            raise Rejected.bad(
                "resources.gpu_memory_mb", 0, "a shared GPU is handed out by memory: name how much"
            )


def refuse_escalation(actor: Actor, priority: int) -> None:
    """The top of the scale is for operators, so that nobody can jump everybody's queue."""
    if actor.access is Access.USER and priority > USER_PRIORITY_MAX:
        raise Forbidden(
            f"priority: {priority} is for operators; a user may ask for 0 to {USER_PRIORITY_MAX}",
            field="priority",
            value=priority,
            allowed=f"0 to {USER_PRIORITY_MAX}",
        )


def _take(
    scribe: Scribe, submission: Submission, uid: str, key: str, forecast: Forecast
) -> tuple[int, str]:
    cluster = scribe.cluster
    alone = 0 if submission.runs else cluster.ids.next
    spec = forecast.tell(alone, submission.spec, cluster.policy)
    for digest, body in submission.blobs.items():
        if digest not in cluster.dirty.blobs:
            scribe.emit(ev.BlobStored(digest=digest, body=body))
    if spec.group and (submission.group_cap is not None or spec.group not in cluster.groups):
        cap = submission.group_cap or 0
        scribe.emit(ev.GroupSet(group=Group(spec.group, spec.user, cap)))
    not_before_s = spec.begin_s if spec.begin_s > scribe.now_s else 0.0
    eligible = not submission.held and not not_before_s and not spec.dependencies
    item = cluster.ids.next
    if submission.runs:
        scribe.emit(
            ev.ArraySubmitted(
                array=item,
                uid=uid,
                spec=spec,
                runs=submission.runs,
                count=sum(map(len, submission.runs)),
                cap=submission.cap,
                rows=submission.rows,
                held=submission.held,
                eligible=eligible,
                not_before_s=not_before_s,
                key=key,
            )
        )
        _expand_tied(scribe, item, spec)
    else:
        scribe.emit(
            ev.JobSubmitted(
                job=item,
                uid=uid,
                spec=spec,
                held=submission.held,
                eligible=eligible,
                not_before_s=not_before_s,
                key=key,
            )
        )
    if not eligible:
        lifecycle.consider(scribe, item)
    return item, uid


def _expand_tied(scribe: Scribe, array_id: int, spec: JobSpec) -> None:
    """Elements that wait for elements of another array wait one by one."""
    if any(dependency.element for dependency in spec.dependencies):
        array = scribe.cluster.arrays[array_id]
        for position in range(array.count):
            scribe.emit(ev.ElementExpanded(array=array_id, position=position))
            lifecycle.consider(scribe, array.element_id(position))
