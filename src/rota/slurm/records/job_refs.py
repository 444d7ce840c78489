"""How callers name jobs: ``12``, ``8_3``, ``8_[1-3]``, ``61+1``, ``12.batch``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rota.digits import is_digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rota.slurm.records.records import JobRecord

_REF = re.compile(
    r"([0-9]{1,15})(?:_([0-9]{1,9}|\*|\[[0-9,:%-]+\]))?(?:\+([0-9]{1,6}))?(?:\.([A-Za-z0-9+]{1,20}))?"
)
_WORD = re.compile(r"(?:\[[^\]]*\]?|[^\[,\s])+")
#: More indices than this in one bracket are a typing error.
INDICES_MAX = 10_000


class JobRef(NamedTuple):
    """``indices`` is None where all elements are meant, ``step`` empty for all of the job."""

    id: int
    indices: frozenset[int] | None = None
    offset: int | None = None
    step: str = ""

    def names(self, job: JobRecord) -> bool:
        """Whether a record is meant."""
        if self.indices is not None:
            return job.array_id == self.id and job.array_index in self.indices
        if self.offset is not None:
            return job.het_id == self.id and job.het_offset == self.offset
        return self.id in (job.job_id, job.array_id) or (job.het_id == self.id and job.het_id > 0)


class RefIndex:
    """All references of one command: each job and array once, found without a walk over them."""

    def __init__(self, refs: Iterable[JobRef] = ()) -> None:
        self._whole: set[int] = set()
        self._elements: dict[int, set[int]] = {}
        self._offsets: set[tuple[int, int]] = set()
        for ref in refs:
            if ref.indices is not None:
                self._elements.setdefault(ref.id, set()).update(ref.indices)
            elif ref.offset is not None:
                self._offsets.add((ref.id, ref.offset))
            else:
                self._whole.add(ref.id)

    def __bool__(self) -> bool:
        return bool(self._whole or self._elements or self._offsets)

    def __iter__(self) -> Iterator[JobRef]:
        yield from map(JobRef, self._whole)
        for number, indices in self._elements.items():
            if number not in self._whole:
                yield JobRef(number, frozenset(indices))
        yield from (JobRef(number, None, offset) for number, offset in self._offsets)

    def names(self, job: JobRecord) -> bool:
        """Whether one of them means a record."""
        return (
            not self._whole.isdisjoint((job.job_id, job.array_id))
            or (job.het_id > 0 and job.het_id in self._whole)
            or job.array_index in self._elements.get(job.array_id, ())
            or (job.het_id, job.het_offset) in self._offsets
        )


def parse_ref(text: str) -> JobRef | None:
    """One reference; None for what is none."""
    found = _REF.fullmatch(text.strip())
    if found is None:
        return None
    number, index, offset, step = found.groups()
    indices = None if index in (None, "*") else _indices(index)
    if index not in (None, "*") and indices is None:
        return None
    return JobRef(int(number), indices, int(offset) if offset else None, step or "")


def _indices(text: str) -> frozenset[int] | None:
    body = text.strip("[]").partition("%")[0]
    found: set[int] = set()
    for part in body.split(","):
        span, _, step = part.partition(":")
        first, dash, last = span.partition("-")
        last = last if dash else first
        step = step or "1"
        if not all(map(_is_number, (first, last, step))) or int(step) == 0:
            return None
        low, high = int(first), int(last)
        if high - low > INDICES_MAX or len(found) > INDICES_MAX:
            return None
        found.update(range(low, high + 1, int(step)))
    return frozenset(found)


def _is_number(text: str) -> bool:
    """Of a length that an index may have: Python refuses to read far longer ones."""
    return is_digits(text) and len(text) < 10


def split_refs(text: str) -> Iterable[str]:
    """At commas and blanks outside brackets."""
    return _WORD.findall(text)
