"""Families: arrays with their elements, parents with the jobs that wait for them."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from rota.core.facts.indices import position_of
from rota.core.facts.job import Job

if TYPE_CHECKING:
    from rota.core.facts.array import Array
    from rota.core.facts.parents import Dependency


class Families:
    """Found by id."""

    def __init__(self) -> None:
        #: Those with unfinished elements, and those that are the only record of some.
        self.arrays: dict[int, Array] = {}
        #: In order: a block of ids belongs to each.
        self.array_ids: list[int] = []
        #: By array: the elements that are unfinished jobs of their own.
        self.unfinished: dict[int, dict[int, None]] = {}
        #: By parent: the jobs and arrays that wait for it.
        self.children: dict[int, dict[int, None]] = {}

    def family_of(self, job_id: int) -> Array | None:
        """The array whose block of ids this id lies in, touched or not."""
        at = bisect_left(self.array_ids, job_id) - 1
        if at < 0:
            return None
        array = self.arrays[self.array_ids[at]]
        return array if job_id <= array.id + array.count else None

    def enter(self, job: Job) -> None:
        """A job is there: it may be an element of an array, and wait for others."""
        if job.array_id:
            self.unfinished.setdefault(job.array_id, {})[job.id] = None
        if job.spec.dependencies:
            self.link(job)

    def leave(self, job: Job) -> None:
        if job.array_id in self.unfinished:
            self.unfinished[job.array_id].pop(job.id, None)

    def link(self, job: Job | Array) -> None:
        """A job waits for its parents, unless they were met before."""
        if not job.parents_met:
            for dependency in job.spec.dependencies:
                parent = parent_id(dependency, job)
                self.children.setdefault(parent, {})[job.id] = None

    def unlink(self, job: Job | Array) -> None:
        """A job waits for its parents no longer."""
        for dependency in job.spec.dependencies:
            parent = parent_id(dependency, job)
            waiting = self.children.get(parent)
            if waiting is not None:
                waiting.pop(job.id, None)
                if not waiting:
                    del self.children[parent]

    def forget(self, array_id: int) -> None:
        """The array has ended, and all of its elements have."""
        del self.arrays[array_id]
        self.unfinished.pop(array_id, None)
        del self.array_ids[bisect_left(self.array_ids, array_id)]


def parent_id(dependency: Dependency, job: Job | Array) -> int:
    """The job that is waited for: with ``element``, the one of equal index in the other array."""
    if dependency.element and isinstance(job, Job) and job.array_id:
        position = position_of(dependency.runs, job.array_index)
        if position is not None:
            return dependency.parent + 1 + position
    return dependency.parent
