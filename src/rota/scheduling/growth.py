"""Elastic gangs grow: room that no waiting job could use goes to running jobs that want more.

A promise keeps room free for the first job that waits. Where the policy promises nothing, a gang
does not grow on any node that a waiting job could ever use: it would pass that job.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Protocol

import msgspec

from rota.core.derived.holdings import amount_of, amount_of_all
from rota.core.derived.lanes import key_with, shape_of
from rota.core.facts.placing import ground_of
from rota.core.facts.states import Cause, JobState
from rota.scheduling.api import Entry, Start
from rota.scheduling.order.lengths import stay_s_of
from rota.scheduling.place.gang import Placed, place

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.core.facts.job import Job, Role
    from rota.scheduling.api import PassResult
    from rota.scheduling.limits.quota import Quotas
    from rota.scheduling.place.gang import Asker
    from rota.scheduling.place.node_index import Space


class Growing(Protocol):
    """What growth needs of the pass that it belongs to."""

    cluster: Cluster
    quotas: Quotas
    plan: PassResult

    @property
    def now_s(self) -> float: ...

    @property
    def space(self) -> Space: ...

    def asker(self, entry: Entry) -> Asker: ...

    def take(self, job: int, end_s: float, placed: list[Placed]) -> None:
        """Attempts of a job that do not exist yet have this room until then."""

    def unprotected(self) -> list[int]:
        """The shapes that wait for room and that no promise keeps it free for."""


def grow(this: Growing) -> None:
    """Give running elastic jobs the tasks that they lack, in order of their ids."""
    lacking = {
        job_id: missing
        for job_id in sorted(this.cluster.census.elastic)
        if (missing := missing_tasks(this.cluster.jobs[job_id]))
    }
    if not lacking:
        return
    kept_out = _wanted_nodes(this)
    for job_id, missing in lacking.items():
        _grow_one(this, this.cluster.jobs[job_id], missing, kept_out)


def _wanted_nodes(this: Growing) -> set[str]:
    """Nodes that a waiting job without a promise could ever use."""
    shapes = this.cluster.lanes.shapes
    wants = [
        want for number in this.unprotected() for want in this.space.wants(number, shapes[number])
    ]
    may_ever_fit = this.space.may_ever_fit
    return {name for name in this.space.rooms if any(may_ever_fit(want, name) for want in wants)}


def within_quota(quotas: Quotas, space: Space, entry: Entry, placed: list[Placed]) -> list[Placed]:
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
    for one in reversed(placed):
        amount = amount_of_all([allocation for _, allocation in left])
        if quotas.short(entry.key, amount) is None:
            break
        role = role_of[one.task]
        if spare[role]:
            spare[role] -= 1
            left.remove(one)
            space.give_back(one.allocation.node, one.allocation)
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


def _grow_one(this: Growing, job: Job, missing: list[int], kept_out: set[str]) -> None:
    """One task after the other, as long as there is room and a quota allows it."""
    spec = job.spec
    roles = [role for role in spec.roles for _ in range(role.count)]
    began_s = job.started_s + job.paused_s
    # What is left of its limit: a node that is reserved from the end of the gang on may be had.
    left_s = spec.time_limit_s and max(1, ceil(began_s + spec.time_limit_s - this.now_s))
    key = key_with(-job.id, spec)._replace(time_limit_s=left_s)
    end_s = began_s + stay_s_of(this.cluster, spec, this.now_s - began_s)
    placed: list[Placed] = []
    for index in missing:
        one = msgspec.structs.replace(roles[index], count=1, min_count=0)
        lanes = this.cluster.lanes
        whole = shape_of(spec, personal=lanes.personal, clustered=lanes.clustered)
        shape = whole._replace(roles=(one,))
        task_key = key._replace(shape=-(job.id << 16) - spec.roles.index(roles[index]))
        run_s = max(1.0, end_s - this.now_s)
        entry = Entry(job.id, task_key, shape, job.submitted_s, job.eligible_s, run_s)
        asker = this.asker(entry)
        if shape.placement.topology:
            node = this.cluster.nodes[job.live_attempts[0].allocation.node]
            asker.group = ground_of(node.all_labels, shape.placement.topology)
        found = place(asker)
        if found is None:
            continue
        allocation = found[0].allocation
        if allocation.node in kept_out:
            # Integers chose the node, and they know nothing of jobs that wait for it.
            this.space.give_back(allocation.node, allocation)
            continue
        amount = amount_of(allocation)
        if this.quotas.short(task_key, amount, 0) is not None:
            this.space.give_back(allocation.node, allocation)
            break
        this.quotas.take(task_key, amount, 0)
        placed.append(Placed(index, allocation))
        this.take(job.id, end_s, placed[-1:])
    if placed:
        allocations = tuple(allocation for _, allocation in placed)
        tasks = tuple(task for task, _ in placed)
        this.plan.starts.append(Start(job.id, allocations, tasks=tasks))
