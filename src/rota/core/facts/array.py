"""Arrays: families of jobs from one submission."""

from __future__ import annotations

import msgspec

from rota.core.facts.indices import IndexRun, IndexSet, index_at
from rota.core.facts.job import Job, JobSpec, Outcome


class Array(msgspec.Struct, omit_defaults=True):
    """A family of jobs from one submission. Elements become jobs of their own when touched.

    Element at position *p* has job id ``id + 1 + p``; ``waiting`` are the positions that nothing
    has touched yet, as spans.
    """

    id: int
    uid: str
    spec: JobSpec
    submitted_s: float
    runs: tuple[IndexRun, ...]
    count: int
    cap: int = 0
    held: bool = False
    held_note: str = ""
    eligible_s: float = 0.0
    not_before_s: float = 0.0
    parents_met: bool = False
    #: The rows of a sweep, by position: values for ``spec.parameters``.
    rows: tuple[tuple[str, ...], ...] = ()
    waiting: list[list[int]] = []
    #: Positions that were settled before anything touched them, and how.
    cut: list[list[int]] = []
    cut_outcome: Outcome | None = None
    cut_s: float = 0.0
    key: str = ""

    def element_id(self, position: int) -> int:
        return self.id + 1 + position

    def position(self, job_id: int) -> int:
        return job_id - self.id - 1

    def pending(self) -> IndexSet:
        """A view on ``waiting``: changing it changes the array."""
        return IndexSet(self.waiting)

    def expand(self, position: int) -> Job:
        """The job that an untouched element is."""
        index = index_at(self.runs, position)
        values = self.rows[position] if self.rows else ()
        return Job(
            id=self.element_id(position),
            uid=f"{self.uid}.{index}",
            spec=self.spec,
            submitted_s=self.submitted_s,
            array_id=self.id,
            array_index=index,
            parameters=dict(zip(self.spec.parameters, values, strict=True)),
            held=self.held,
            eligible_s=self.eligible_s,
            not_before_s=self.not_before_s,
            parents_met=self.parents_met,
        )
