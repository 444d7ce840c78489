"""What an installation recorded, as a workload that can be played under other rules.

A job is played with what it asked for, when it was submitted, and for as long as it really ran.
Parents are waited for as their children did; begin times and holds last until they were over; a
job that was cancelled while it waited leaves at that moment. What cannot be played as it was is
left out, counted and told (``SiteHistory.notes``).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import msgspec

from rota.controller.past import Past, read_arrays, read_jobs, site_of
from rota.controller.recover import recover
from rota.core.changes import events as ev
from rota.core.facts.parents import Dependency, DependencyKind
from rota.core.facts.states import FINAL, Cause, JobState
from rota.core.facts.tenant import Group
from rota.sim.cluster.cast import Particulars
from rota.sim.past_runs import has_started, ran_once, run_length_s
from rota.sim.trace import BadTrace, Trace, TraceJob
from rota.store.readonly import open_readonly

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from rota.controller.past import SiteNow
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job, JobSpec
    from rota.core.facts.node import NodeSpec

#: A job that waits for a larger array is let go when it was, instead of when that is over.
ELEMENTS_MAX = 1000


class SiteHistory(Trace, kw_only=True):
    """A trace with everything that a file of lines cannot say. Ids are those of the jobs."""

    #: What goes with the jobs, and facts of the site, for ``cluster.run.play``.
    particulars: dict[int, Particulars] = msgspec.field(default_factory=dict)
    site: list[ev.AnyEvent] = msgspec.field(default_factory=list)
    #: When the first moment of the trace really was.
    begin_s: float = 0.0
    #: What each job really waited until its first start, by its id; not of those that never did.
    waited_s: dict[int, float] = msgspec.field(default_factory=dict)
    notes: list[str] = msgspec.field(default_factory=list)

    def told(self, jobs: Iterable[TraceJob], *, exact: bool) -> dict[int, Particulars]:
        """The particulars of these jobs; ``exact``: passes know how long each one runs."""
        if not exact:
            return self.particulars
        return {
            job.id: msgspec.structs.replace(
                known,
                spec=msgspec.structs.replace(
                    known.spec, estimate_s=ceil(job.run_s), time_limit_s=0
                ),
            )
            for job in jobs
            if (known := self.particulars.get(job.id)) is not None
        }


def read_history(place: str | Path) -> SiteHistory:
    """All jobs of a state folder, a database file or a URL, while a controller may be writing."""
    store = open_readonly(str(place))
    try:
        jobs, _ = read_jobs(store)
        arrays = read_arrays(store, jobs)
        site = site_of(recover(store.load()))
    finally:
        store.close()
    history = history_of(Past(site, jobs, arrays))
    if not history.jobs:
        raise BadTrace(f"{store.name}: no finished job on record, so there is nothing to play")
    history.name = store.name
    return history


def history_of(past: Past) -> SiteHistory:
    """The workload that a past amounts to."""
    return _Writer(past).write()


class _Writer:
    def __init__(self, past: Past) -> None:
        self._past = past
        self._jobs = {job.id: job for job in past.jobs}
        self._arrays = {array.id: array for array in past.arrays}
        self._begin_s = min((job.submitted_s for job in past.jobs), default=0.0)
        self._nodes = _nodes(past)
        self._gpus = any(node.devices for node in self._nodes) and any(
            role.request.device_count for job in past.jobs for role in job.spec.roles
        )
        self._left_out: dict[str, int] = {}
        self._again = 0
        self._capped: dict[int, Group] = {}

    def write(self) -> SiteHistory:
        trace: list[TraceJob] = []
        particulars: dict[int, Particulars] = {}
        waited_s: dict[int, float] = {}
        for job in self._past.jobs:
            reason = _unplayable(job)
            if reason:
                self._left_out[reason] = self._left_out.get(reason, 0) + 1
                continue
            particulars[job.id] = known = self._particulars(job)
            trace.append(self._line(job, known))
            if has_started(job):
                waited_s[job.id] = max(_first_start_s(job) - job.submitted_s, 0.0)
        return SiteHistory(
            name="history",
            jobs=trace,
            nodes=self._nodes,
            unit="GPUs" if self._gpus else "processors",
            left_out=self._left_out,
            particulars=particulars,
            site=[*_facts(self._past.site), *self._group_facts()],
            begin_s=self._begin_s,
            waited_s=waited_s,
            notes=self._notes(),
        )

    def _line(self, job: Job, known: Particulars) -> TraceJob:
        spec = job.spec
        submit_s = job.submitted_s - self._begin_s
        started = has_started(job)
        return TraceJob(
            id=job.id,
            submit_s=submit_s,
            run_s=run_length_s(job) if started else max(known.cancel_s - submit_s, 0.0),
            procs=self._procs(spec),
            estimate_s=spec.time_limit_s or spec.estimate_s,
            user=spec.user,
            group=spec.project,
            name=spec.name,
            queue=spec.queue,
            priority=spec.priority,
            request=spec.request,
            tasks=spec.task_count,
        )

    def _procs(self, spec: JobSpec) -> int:
        if self._gpus:
            return sum(role.count * role.request.device_count for role in spec.roles)
        milli = sum(role.count * role.request.cpu_milli for role in spec.roles)
        return max(1, -(-milli // 1000))

    def _particulars(self, job: Job) -> Particulars:
        parents = self._parents(job)
        once = ran_once(job)
        self._again += not once
        not_before_s = job.spec.begin_s
        if once and not parents and job.eligible_s > job.submitted_s:
            not_before_s = job.eligible_s
        waited_in_vain = not has_started(job)
        return Particulars(
            spec=self._spec(job, parents),
            eligible_s=max(not_before_s - self._begin_s, 0.0),
            cancel_s=job.ended_s - self._begin_s if waited_in_vain else -1.0,
            ends=job.state,
        )

    def _spec(self, job: Job, parents: tuple[Dependency, ...]) -> JobSpec:
        spec = job.spec
        return msgspec.structs.replace(
            spec,
            dependencies=parents,
            begin_s=0.0,
            scheduling_timeout_s=0,
            dependency_timeout_s=0,
            retries=0,
            group=spec.group or self._array_group(job),
        )

    def _array_group(self, job: Job) -> str:
        """The cap of an array, as that of a group which nobody can have named so."""
        array = self._arrays.get(job.array_id)
        if array is None or not array.cap:
            return ""
        name = f"array {array.id}"
        self._capped[array.id] = Group(name, job.spec.user, array.cap)
        return name

    def _group_facts(self) -> list[ev.AnyEvent]:
        return [ev.GroupSet(group=group) for group in self._capped.values()]

    def _parents(self, job: Job) -> tuple[Dependency, ...]:
        """The parents that are played too; a whole array is waited for element by element."""
        found: list[Dependency] = []
        for dependency in job.spec.dependencies:
            array = self._arrays.get(dependency.parent)
            ids = self._elements(array, job, dependency) if array else [dependency.parent]
            found += [
                Dependency(dependency.kind, parent)
                for parent in ids
                if parent in self._jobs and not _unplayable(self._jobs[parent])
            ]
        # What waits for a start alone, or for any one of several, is let go when it was.
        simple = all(parent.kind is not DependencyKind.AFTER for parent in found)
        return tuple(found) if simple and not job.spec.any_dependency else ()

    def _elements(self, array: Array, job: Job, dependency: Dependency) -> list[int]:
        if array.count > ELEMENTS_MAX:
            return []
        ids = range(array.id + 1, array.id + array.count + 1)
        if not dependency.element:
            return [*ids]
        return [i for i in ids if i in self._jobs and self._jobs[i].array_index == job.array_index]

    def _notes(self) -> list[str]:
        notes = [f"{count} left out: {reason}" for reason, count in self._left_out.items()]
        if self._past.cut:
            notes.append(f"only the newest {len(self._past.jobs)} jobs were taken")
        if self._again:
            notes.append(
                f"{self._again} ran more than once (retries, requeues, lost nodes); each is played"
                " in one piece, as long as its useful attempts together"
            )
        notes.append(
            "nodes, queues, shares and quotas are taken to have been as they are now, nodes up all"
            " the time, and nothing to have run before the first job"
        )
        return notes


def _unplayable(job: Job) -> str:
    """Why a job cannot be played; empty: it can."""
    if job.state not in FINAL:
        return "not finished yet"
    if has_started(job):
        return ""
    cause = job.outcome.cause if job.outcome is not None else None
    if cause is Cause.DEPENDENCY:
        return "never started, because a parent failed"
    if job.state in (JobState.CANCELLED, JobState.UNSCHEDULABLE):
        return ""
    return "could not be started"


def _first_start_s(job: Job) -> float:
    starts = (a.started_s for task in job.tasks for a in task.attempts if a.started_s)
    return min(starts)


def _nodes(past: Past) -> tuple[NodeSpec, ...]:
    """Those that take work, or did so for one of these jobs."""
    used = {
        attempt.allocation.node
        for job in past.jobs
        for task in job.tasks
        for attempt in task.attempts
    }
    return tuple(
        node.spec
        for node in sorted(past.site.nodes, key=lambda node: node.name)
        if not node.drained or node.name in used
    )


def _facts(site: SiteNow) -> Iterator[ev.AnyEvent]:
    """What holds beside the nodes themselves, as events."""
    yield from (ev.QueueSet(queue=queue) for queue in site.queues)
    yield from (ev.GroupSet(group=group) for group in site.groups)
    yield from (ev.ProjectSet(project=project) for project in site.projects)
    yield from (ev.UserSet(user=user) for user in site.users)
    yield from (ev.ReservationSet(reservation=one) for one in site.reservations)
