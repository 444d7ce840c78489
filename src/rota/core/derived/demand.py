"""What unfinished jobs ask of devices: how many tasks of each sort wait or run.

A start moves a job from those that wait to those that run, so it changes nothing here: the sorts
that come are those that came and have not left yet.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import itemgetter
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from rota.core.facts.job import JobSpec
    from rota.core.facts.resources import Request


def grade(tasks: int) -> int:
    """A number of tasks by powers of four: one more seldom makes another one."""
    return 1 << (tasks.bit_length() & ~1) if tasks else 0


def rank(request: Request) -> tuple[object, ...]:
    """Among equally frequent sorts the largest comes first, so no order of sets gets in."""
    milli = request.device_milli if request.shared else 1000
    return (
        request.cpu_milli,
        milli if request.device_count else 0,
        request.device_count,
        request.device_type,
        request.device,
        request.device_memory_mib,
        request.shared,
    )


#: How often a sort comes, its rank among equals, and the sort.
Ranked = tuple[int, tuple[object, ...], "Request"]
BY_RANK = itemgetter(0, 1)


class Demand:
    """Tasks of unfinished jobs by their request, for those that want devices."""

    def __init__(self) -> None:
        #: Requests are told apart by CPUs and devices; a sort that nobody asks for is not there.
        self.tasks: dict[Request, int] = {}
        #: The grade of each of them, the least first, and what changes with any.
        self.ranked: list[Ranked] = []
        self.version = 0
        self._of: dict[int, tuple[JobSpec, int]] = {}

    def put(self, item: int, spec: JobSpec, jobs: int) -> tuple[JobSpec, int] | None:
        """How many jobs a job or an array stands for now, and stood for before."""
        known = self._of.get(item)
        if known is None:
            if not jobs or not any([role.request.device_count for role in spec.roles]):
                return None
        elif known[0] is spec and known[1] == jobs:
            return known
        else:
            self._add(*known, -1)
            del self._of[item]
        if jobs:
            self._of[item] = (spec, jobs)
            self._add(spec, jobs, 1)
        return known

    def _add(self, spec: JobSpec, jobs: int, sign: int) -> None:
        for role in spec.roles:
            if not role.request.device_count:
                continue
            sort = replace(role.request, memory_mib=0, disk_mib=0, device_indices=())
            tasks = self.tasks.get(sort, 0)
            before, after = grade(tasks), grade(tasks := tasks + sign * jobs * role.count)
            if tasks:
                self.tasks[sort] = tasks
            else:
                del self.tasks[sort]
            if before != after:
                self.version += 1
                self._rank(sort, before, after)

    def _rank(self, sort: Request, before: int, after: int) -> None:
        ranked, own = self.ranked, rank(sort)
        if before:
            at = bisect_left(ranked, (before, own), key=BY_RANK)
            while ranked[at][2] != sort:
                at += 1
            del ranked[at]
        if after:
            insort(ranked, (after, own, sort), key=BY_RANK)
