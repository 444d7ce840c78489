"""Elastic gangs grow: what nobody who waits can use goes to running jobs that want more tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.core.derived.holdings import amount_of
from rota.core.derived.lanes import Shape, key_with, shape_of
from rota.core.facts.resources import NOTHING
from rota.core.facts.states import Cause, JobState
from rota.scheduling.api import Entry, Start
from rota.scheduling.later.timeline import Leaving, planned_uid
from rota.scheduling.order.heads import run_s_of
from rota.scheduling.place.gang import Asker, Placed, place

if TYPE_CHECKING:
    from rota.core.facts.job import Job, Role
    from rota.scheduling.passes import Pass


def grow(this: Pass) -> None:
    """Give running elastic jobs the tasks that they lack, in order of their ids."""
    for job_id in sorted(this.cluster.elastic):
        job = this.cluster.jobs[job_id]
        missing = missing_tasks(job)
        if missing:
            _grow_one(this, job, missing)


def within_quota(this: Pass, entry: Entry, placed: list[Placed]) -> list[Placed]:
    """Of a gang that may start smaller only as many tasks as its quotas allow.

    Its fewest were held against them before there was a place for it.
    """
    if not any([role.min_count for role in entry.shape.roles]):
        return placed
    role_of = [number for number, role in enumerate(entry.shape.roles) for _ in range(role.count)]
    left = list(placed)
    spare = _spare(entry.shape.roles, [role_of[task] for task, _ in placed])
    if not any(spare):
        return placed
    amount = NOTHING
    for _, allocation in placed:
        amount = amount.plus(amount_of(allocation))
    for one in reversed(placed):
        if this.quotas.short(entry.key, amount) is None:
            break
        role = role_of[one.task]
        if spare[role]:
            spare[role] -= 1
            left.remove(one)
            amount = amount.plus(amount_of(one.allocation), -1)
            this.space.give_back(one.allocation.node, one.allocation)
    return left


def _spare(roles: tuple[Role, ...], placed: list[int]) -> list[int]:
    """How many tasks of each role were placed beyond the fewest."""
    return [
        placed.count(number) - (role.min_count or role.count) for number, role in enumerate(roles)
    ]


def missing_tasks(job: Job) -> list[int]:
    """Tasks that never started in this round, or gave their room back; none once any has ended."""
    current = job.round
    if job.state is not JobState.RUNNING or job.after_stop or job.suspended_s:
        return []
    if any(attempt.stop_cause is not None and attempt.live for attempt in current):
        return []
    if any(not attempt.live and attempt.cause is not Cause.SHRUNK for attempt in current):
        return []
    number = current[0].number
    live = {
        task.index
        for task in job.tasks
        if task.current is not None and task.current.number == number and task.current.live
    }
    return [index for index in range(job.spec.task_count) if index not in live]


def _grow_one(this: Pass, job: Job, missing: list[int]) -> None:
    """One task after the other, as long as there is room, a quota allows it and nobody waits."""
    spec = job.spec
    roles = [role for role in spec.roles for _ in range(role.count)]
    key = key_with(-job.id, spec)
    run_s = run_s_of(spec, spec.roles, this.policy.backfill)
    end_s = job.started_s + run_s + job.paused_s
    placed: list[Placed] = []
    for index in missing:
        one = msgspec.structs.replace(roles[index], count=1, min_count=0)
        shape = Shape((one,), spec.placement, spec.service, shape_of(spec).labels)
        task_key = key._replace(shape=-(job.id << 16) - spec.roles.index(roles[index]))
        left_s = max(1.0, end_s - this.now_s)
        entry = Entry(job.id, task_key, shape, job.submitted_s, job.eligible_s, left_s)
        asker = Asker(this, entry, this.until_s(entry))
        if spec.placement.topology:
            node = this.cluster.nodes[job.live_attempts[0].allocation.node]
            asker.group = node.all_labels.get(spec.placement.topology, "")
        found = place(asker)
        if found is None:
            continue
        allocation = found[0].allocation
        amount = amount_of(allocation)
        if this.quotas.short(task_key, amount, 0) is not None:
            this.space.give_back(allocation.node, allocation)
            break
        this.quotas.take(task_key, amount, 0)
        uid = planned_uid(job.id, index)
        this.timeline.add(Leaving(end_s, uid, allocation.node, allocation))
        this.cluster.touch(allocation.node, uid)
        placed.append(Placed(index, allocation))
    if placed:
        allocations = tuple(allocation for _, allocation in placed)
        tasks = tuple(task for task, _ in placed)
        this.plan.starts.append(Start(job.id, allocations, tasks=tasks))
