"""Changing jobs that exist: cancel, hold, suspend, requeue, update. Checks who may."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from rota.controller.commands.clusters import refuse_place
from rota.controller.commands.commands import (
    Cancel,
    ChangedJobs,
    Hold,
    Refusal,
    Release,
    Requeue,
    Resume,
    Select,
    Suspend,
    Update,
)
from rota.controller.commands.possible import refuse_impossible
from rota.controller.commands.submit import (
    refuse_escalation,
    refuse_group,
    refuse_long_grace,
    refuse_nameless_share,
    refuse_nodes,
    refuse_non_member,
    refuse_other_project,
    refuse_project,
    refuse_queue,
)
from rota.controller.tick import lifecycle, promised
from rota.core.changes import events as ev
from rota.core.changes.dependencies import refuse_cycle, refuse_unknown, with_runs
from rota.core.facts.errors import Conflict, Forbidden, NotFound, Rejected
from rota.core.facts.features import WITHOUT, Feature, can
from rota.core.facts.job import Job, JobSpec, Outcome
from rota.core.facts.states import ACTIVE, WAITING, Cause, JobState
from rota.core.facts.tenant import Access, Actor
from rota.core.words.kin import is_kin
from rota.scheduling.limits.refusals import refuse_over_quota
from rota.scheduling.place.tariff import refuse_cost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.controller.tick.scribe import Scribe
    from rota.core.cluster import Cluster
    from rota.core.facts.array import Array

#: What may be changed while a job holds room.
RUNNING_FIELDS = frozenset(
    {
        *("time_limit_s", "priority", "grace_s", "labels", "name", "retries"),
        *("estimate_s", "deadline_s", "preemptible", "preempt_mode", "restart_cost_s"),
        *("preempt_retries", "save_signal", "save_every_s"),
    }
)
#: Of these a promise does not depend.
HARMLESS = frozenset({"priority", "labels", "name"})


def may_change(actor: Actor, owner: str) -> bool:
    if actor.access in (Access.ADMIN, Access.OPERATOR):
        return True
    return actor.access is Access.USER and actor.user == owner


def change_selected(scribe: Scribe, command: Select) -> ChangedJobs:
    """Carry out one of the commands on several jobs; each job succeeds or is refused by itself."""
    cluster = scribe.cluster
    changed: dict[int, None] = {}
    refused: list[Refusal] = []
    ids = command.ids if command.ids else named_ids(cluster, command)
    ended_before = {item for item in ids if cluster.ids.ended.get(item) is not None}
    for item in ids:
        if item in changed:
            continue
        if isinstance(command, Cancel) and item not in ended_before and cluster.ids.ended.get(item):
            # It waited for a job of the same command, whose end was its own.
            changed[item] = None
            continue
        try:
            changed.update(dict.fromkeys(_change_one(scribe, command, item)))
        except Rejected as error:
            refused.append(Refusal(item, error.detail))
    return ChangedJobs(tuple(changed), tuple(refused))


def named_ids(cluster: Cluster, command: Select) -> tuple[int, ...]:
    user = command.of_user
    if user not in ("", command.actor.user) and command.actor.access in (
        Access.USER,
        Access.VIEWER,
    ):
        raise Forbidden(f"user: {command.actor.user} may not change the jobs of others")
    items: Iterable[Job | Array] = (
        chain(cluster.arrays.values(), cluster.jobs.values())
        if user == "*"
        else cluster.items_of(user)
    )
    return tuple(sorted(item.id for item in items if _is_meant(command, item)))


def _is_meant(command: Select, item: Job | Array) -> bool:
    if isinstance(item, Job):
        return concerns(command, item)
    # Of elements that wait and are not held some commands say nothing.
    silent = isinstance(command, Release | Requeue | Suspend | Resume)
    return bool(item.waiting) and (item.held or not silent)


def _change_one(scribe: Scribe, command: Select, item: int) -> list[int]:
    cluster = scribe.cluster
    array = cluster.arrays.get(item)
    if array is not None:
        refuse_stranger(command.actor, array.spec, item)
        return _change_array(scribe, command, array)
    change_job(scribe, command, own_job(scribe, command.actor, item))
    return [item]


def change_job(scribe: Scribe, command: Select, job: Job) -> None:
    """Carry out a command on one job, or refuse it before anything is written."""
    if isinstance(command, Cancel):
        cancel_job(scribe, job, f"by {command.actor.user}")
    elif isinstance(command, Hold):
        _hold_job(scribe, job)
    elif isinstance(command, Release):
        _release_job(scribe, job)
    elif isinstance(command, Requeue):
        _requeue_job(scribe, job, command.hold)
    elif isinstance(command, Suspend):
        _suspend_job(scribe, job, command.actor.user)
    elif isinstance(command, Resume):
        _resume_job(scribe, job)


def own_job(scribe: Scribe, actor: Actor, item: int) -> Job:
    """The unfinished job with this id, taken out of its array if need be, if the actor may."""
    cluster = scribe.cluster
    array = cluster.array_of(item)
    if array is not None:
        refuse_stranger(actor, array.spec, item)
        scribe.emit(ev.ElementExpanded(array=array.id, position=array.position(item)))
    job = cluster.jobs.get(item)
    if job is None:
        ended = cluster.ids.ended.get(item)
        if ended is not None:
            raise Conflict(f"job {item} is {ended} already", field="id", value=item)
        raise NotFound(f"there is no job {item}", field="id", value=item)
    refuse_stranger(actor, job.spec, item)
    return job


def may_change_job(actor: Actor, spec: JobSpec, item: int) -> bool:
    """Whether the actor may change this very job or array."""
    return may_change(actor, spec.user) and is_kin(actor, item, spec)


def refuse_stranger(actor: Actor, spec: JobSpec, item: int) -> None:
    if not may_change(actor, spec.user):
        raise Forbidden(
            f"job {item} belongs to {spec.user}; {actor.user} may not change it",
            field="id",
            value=item,
        )
    if actor.project and spec.project != actor.project:
        raise Forbidden(
            f"job {item} is not of project {actor.project}, which this token is for",
            field="id",
            value=item,
        )
    if not is_kin(actor, item, spec):
        raise Forbidden(
            f"job {actor.job} may change itself and jobs that it submitted, not job {item}",
            field="id",
            value=item,
        )


def _change_array(scribe: Scribe, command: Select, array: Array) -> list[int]:
    touched = sorted(scribe.cluster.families.unfinished.get(array.id, ()))
    refuse_ended(scribe.cluster, array)
    if array.waiting:
        if isinstance(command, Cancel):
            detail = f"by {command.actor.user}"
            lifecycle.cut_array(scribe, array, Outcome(JobState.CANCELLED, Cause.CANCELLED, detail))
        elif isinstance(command, Hold):
            scribe.emit(ev.ArrayChanged(array=array.id, held=True, eligible=False))
        elif isinstance(command, Release):
            scribe.emit(ev.ArrayChanged(array=array.id, held=False))
            lifecycle.consider(scribe, array.id)
    changed = [array.id]
    if isinstance(command, Cancel) and command.untouched:
        return changed
    for job_id in touched:
        job = scribe.cluster.jobs.get(job_id)
        if job is not None and concerns(command, job):
            changed.extend(_change_one(scribe, command, job_id))
    return changed


def refuse_ended(cluster: Cluster, array: Array) -> None:
    if not array.waiting and not cluster.families.unfinished.get(array.id):
        state = cluster.array_state(array.id)
        raise Conflict(f"job {array.id} is {state} already", field="id", value=array.id)


def concerns(command: Select, job: Job) -> bool:
    """Whether a command on the whole array says anything about this element of it."""
    if isinstance(command, Hold):
        return (job.state in WAITING and not job.held) or _is_early(job)
    if isinstance(command, Release):
        return job.held
    if isinstance(command, Requeue):
        return job.state in ACTIVE
    if isinstance(command, Suspend):
        return job.state is JobState.RUNNING and (not job.suspended_s or bool(job.yields_to))
    if isinstance(command, Resume):
        return bool(job.suspended_s) and not job.yields_to
    return True


def cancel_job(scribe: Scribe, job: Job, detail: str) -> None:
    if job.state in ACTIVE:
        if any(attempt.stop_cause is not None or not attempt.live for attempt in job.round):
            # It is on its way out for another cause, and must not come back from there.
            scribe.emit(ev.StopPlanned(job=job.id, then="cancel"))
        lifecycle.stop_attempts(scribe, job, Cause.CANCELLED, detail)
        return
    lifecycle.settle(scribe, job, Outcome(JobState.CANCELLED, Cause.CANCELLED, detail))


def _is_early(job: Job) -> bool:
    """Whether it waits inside an engine before there is room for it."""
    live = job.live_attempts
    return bool(live) and all(attempt.allocation.early for attempt in live)


def _hold_job(scribe: Scribe, job: Job) -> None:
    if _is_early(job):
        # It comes back, and is held then.
        _requeue_job(scribe, job, hold=True)
        return
    if job.state not in WAITING:
        raise Conflict(
            f"job {job.id} is {job.state}; only a waiting job can be held (requeue it "
            "with --hold to stop it first)",
            field="id",
            value=job.id,
        )
    if not job.held:
        promised.let_off(scribe, job)
        scribe.emit(ev.JobHeld(job=job.id))


def _release_job(scribe: Scribe, job: Job) -> None:
    if not job.held:
        raise Conflict(f"job {job.id} is not held", field="id", value=job.id)
    scribe.emit(ev.JobReleased(job=job.id))
    lifecycle.consider(scribe, job.id)


def _requeue_job(scribe: Scribe, job: Job, hold: bool) -> None:
    if job.state not in ACTIVE:
        raise Conflict(
            f"job {job.id} is {job.state}; only a running job can be requeued",
            field="id",
            value=job.id,
        )
    cancelled = any(attempt.stop_cause is Cause.CANCELLED for attempt in job.live_attempts)
    if cancelled or job.after_stop == "cancel":
        raise Conflict(f"job {job.id} is being cancelled", field="id", value=job.id)
    promised.let_off(scribe, job)
    scribe.emit(ev.StopPlanned(job=job.id, then="hold" if hold else "requeue"))
    lifecycle.stop_attempts(scribe, job, Cause.REQUEUED, "")


def _suspend_job(scribe: Scribe, job: Job, by: str) -> None:
    if job.state is not JobState.RUNNING:
        raise Conflict(
            f"job {job.id} is {job.state}; only a running job can be suspended "
            "(hold one that waits)",
            field="id",
            value=job.id,
        )
    if any(attempt.stop_cause is not None for attempt in job.live_attempts):
        raise Conflict(f"job {job.id} is being stopped", field="id", value=job.id)
    for attempt in job.live_attempts:
        node = scribe.cluster.nodes.get(attempt.allocation.node)
        if node is not None and not can(node.spec, Feature.SUSPEND):
            words = f"engine {node.spec.engine} {WITHOUT[Feature.SUSPEND]}"
            raise Conflict(f"job {job.id}: {words}", field="id", value=job.id)
    if not job.suspended_s or job.yields_to:
        scribe.emit(ev.JobSuspended(job=job.id, by=by))


def _resume_job(scribe: Scribe, job: Job) -> None:
    if not job.suspended_s:
        raise Conflict(f"job {job.id} is not suspended", field="id", value=job.id)
    if job.yields_to:
        raise Conflict(
            f"job {job.id} lends its CPUs to job {job.yields_to}, and goes on by itself when "
            "that one is gone",
            field="id",
            value=job.id,
        )
    if borrower := scribe.cluster.live.borrower_of(job):
        # Nothing holds it back any more but the jobs that have its CPUs.
        lifecycle.yield_to(scribe, job, borrower)
        return
    scribe.emit(ev.JobResumed(job=job.id))


def update(
    scribe: Scribe, command: Update, read_array: Callable[[int], Array | None]
) -> ChangedJobs:
    """Replace parts of a spec. For an array: of its untouched elements."""
    cluster = scribe.cluster
    command = with_known_parents(cluster, command, read_array)
    array = cluster.arrays.get(command.job)
    if array is not None:
        refuse_stranger(command.actor, array.spec, array.id)
        spec = changed_spec(cluster, array, command)
        scribe.emit(ev.ArrayChanged(array=array.id, spec=spec, cap=command.array_cap))
        lifecycle.consider(scribe, array.id)
        return ChangedJobs((array.id,))
    job = own_job(scribe, command.actor, command.job)
    spec = changed_spec(cluster, job, command)
    harmless = command.dependencies is None and set(command.changes) <= HARMLESS
    if job.promise == "open" and not harmless:
        lifecycle.let_go(scribe, job.id)
        spec = promised.unpromised(spec)
    scribe.emit(ev.JobUpdated(job=job.id, spec=spec))
    lifecycle.consider(scribe, job.id)
    return ChangedJobs((job.id,))


def with_known_parents(
    cluster: Cluster, command: Update, read_array: Callable[[int], Array | None]
) -> Update:
    """The command with what its dependencies need to know of their arrays."""
    if command.dependencies is None:
        return command
    parents = with_runs(cluster, command.dependencies, read_array)
    return msgspec.structs.replace(command, dependencies=parents)


def changed_spec(cluster: Cluster, item: Job | Array, command: Update) -> JobSpec:
    """The spec after the change, or the refusal; nothing is written."""
    if not isinstance(item, Job):
        refuse_ended(cluster, item)
    elif item.state in ACTIVE and (
        command.dependencies is not None or not set(command.changes) <= RUNNING_FIELDS
    ):
        raise Conflict(
            f"job {item.id} is {item.state}: of a running job only "
            f"{', '.join(sorted(RUNNING_FIELDS))} can be changed",
            field="id",
            value=item.id,
        )
    return _new_spec(cluster, item.spec, command, item.id)


def _new_spec(cluster: Cluster, old: JobSpec, command: Update, item: int) -> JobSpec:
    spec: JobSpec = msgspec.structs.replace(old, **command.changes)
    if spec.priority != old.priority:
        refuse_escalation(command.actor, spec.priority)
    if command.dependencies is not None:
        refuse_unknown(cluster, command.dependencies)
        refuse_cycle(cluster, item, command.dependencies)
        spec = msgspec.structs.replace(spec, dependencies=command.dependencies)
    if spec.grace_s != old.grace_s:
        refuse_long_grace(cluster, spec)
    if spec.queue != old.queue:
        refuse_queue(cluster, spec)
    if spec.group != old.group:
        refuse_group(cluster, spec)
    if spec.project != old.project:
        refuse_other_project(command.actor, spec)
        refuse_project(cluster, spec)
        refuse_non_member(cluster, spec, command.actor)
    counted = (old.project, old.type, old.roles, old.licenses)
    if (spec.project, spec.type, spec.roles, spec.licenses) != counted:
        refuse_over_quota(cluster, spec, int(spec.project != old.project))
        refuse_cost(cluster, spec)
    refuse_nameless_share(spec)
    moved = spec.roles != old.roles or spec.placement != old.placement
    if moved:
        refuse_nodes(cluster, spec)
        refuse_place(cluster, spec)
    if not spec.scheduling_timeout_s and (moved or old.scheduling_timeout_s):
        refuse_impossible(cluster, spec)
    return spec
