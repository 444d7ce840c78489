"""Whether a job's parents let it run: met, not yet, or never."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.core.derived.families import parent_id
from rota.core.facts.errors import Rejected
from rota.core.facts.parents import Dependency, DependencyKind
from rota.core.facts.states import FINAL, JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rota.core.cluster import Cluster
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job


class Verdict(msgspec.Struct, frozen=True):
    """``met``, or the parent that is to blame: waited for, or (``never``) past hoping."""

    met: bool
    parent: int = 0
    never: bool = False
    parent_state: JobState | None = None


MET = Verdict(met=True)


def judge(cluster: Cluster, job: Job | Array) -> Verdict:
    """The state of all dependencies of a job, as one verdict; the first culprit is named."""
    if job.parents_met or not job.spec.dependencies:
        return MET
    verdicts = [_judge_one(cluster, d, job) for d in job.spec.dependencies]
    if job.spec.any_dependency:
        waiting = next((v for v in verdicts if not v.met and not v.never), None)
        return next((v for v in verdicts if v.met), waiting or verdicts[0])
    never = next((v for v in verdicts if v.never), None)
    return never or next((v for v in verdicts if not v.met), MET)


def _judge_one(cluster: Cluster, dependency: Dependency, job: Job | Array) -> Verdict:
    parent = parent_id(dependency, job)
    state = cluster.state_of(parent)
    if state is None:
        return Verdict(met=False, parent=parent, never=True)
    if dependency.kind is DependencyKind.AFTER:
        met = state is JobState.RUNNING or state in FINAL
        return Verdict(met=met, parent=parent, parent_state=state)
    if state not in FINAL:
        met = _is_told(cluster.jobs.get(parent), dependency)
        return Verdict(met=met, parent=parent, parent_state=state)
    completed = state is JobState.COMPLETED
    met = (
        dependency.kind is DependencyKind.AFTER_ANY
        or (dependency.kind is not DependencyKind.AFTER_NOT_OK) == completed
    )
    return Verdict(met=met, parent=parent, never=not met, parent_state=state)


def _is_told(parent: Job | None, dependency: Dependency) -> bool:
    """Whether an unfinished parent has said already what is waited for."""
    if parent is None:
        return False
    if dependency.kind is DependencyKind.AFTER_CHECKPOINT:
        return parent.checkpoint_s > 0
    return dependency.kind is DependencyKind.AFTER_DATA and dependency.data in parent.made


def refuse_unknown(cluster: Cluster, dependencies: Iterable[Dependency]) -> None:
    """A parent that never existed is refused at submit, not waited for."""
    for dependency in dependencies:
        if cluster.state_of(dependency.parent) is None:
            why = f"there is no job {dependency.parent}"
            raise Rejected.because("depends_on", dependency.parent, why)


def with_runs(
    cluster: Cluster, dependencies: Iterable[Dependency], find: Callable[[int], Array | None]
) -> tuple[Dependency, ...]:
    """Ties to elements know the indices of the parent, which leaves the Cluster when it ends."""
    return tuple(
        msgspec.structs.replace(dependency, runs=array.runs)
        if dependency.element
        and (array := cluster.arrays.get(dependency.parent) or find(dependency.parent)) is not None
        else dependency
        for dependency in dependencies
    )


def refuse_cycle(cluster: Cluster, job_id: int, dependencies: Iterable[Dependency]) -> None:
    """A job must not wait for itself, directly or through others."""
    path: list[int] = [d.parent for d in dependencies]
    seen: set[int] = set()
    while path:
        item = path.pop()
        if item == job_id or _is_part(cluster, item, job_id):
            raise Rejected.because("depends_on", job_id, f"job {job_id} would wait for itself")
        if item not in seen:
            seen.add(item)
            path.extend(_parents(cluster, item))


def _is_part(cluster: Cluster, item: int, job_id: int) -> bool:
    """Whether one is an array and the other an element that stands or falls with it."""
    array, family = cluster.arrays.get(item), cluster.array_of(item)
    if array is not None and array.id < job_id <= array.id + array.count:
        return True
    return family is not None and family.id == job_id


def _parents(cluster: Cluster, item: int) -> Iterator[int]:
    """The parents of a job. An array waits for whatever one of its elements waits for."""
    waiting: list[Job | Array | None] = [
        cluster.jobs.get(item) or cluster.arrays.get(item) or cluster.array_of(item)
    ]
    waiting += [cluster.jobs[element] for element in cluster.families.unfinished.get(item, ())]
    for job in waiting:
        if job is not None:
            yield from (dependency.parent for dependency in job.spec.dependencies)
