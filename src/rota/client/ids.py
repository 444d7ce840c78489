"""Which job a program means: the one reader of ids, for every verb and every dependency."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rota.client.handle import JobReference

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    AnyJob = int | str | JobReference

#: The digits of an id, which is less than 2**53.
_NUMBER = re.compile(r"[0-9]{1,16}")
_EXPECTED = "expected its handle or its number, such as 12"


def id_of(job: object, home: str) -> int:
    """The number of a job of the cluster at ``home``: of its handle, a whole number or its text.

    ``int()`` would read "1_3", an element of array 1, as job 13.
    """
    if isinstance(job, JobReference):
        if job.home != home:
            raise ValueError(
                f"job {job.id} belongs to the cluster at {job.home}, and this one is at {home}; "
                f"where both are the same, give its number {job.id}"
            )
        return job.id
    if isinstance(job, str) and _NUMBER.fullmatch(job):
        return int(job)
    if isinstance(job, str) and re.fullmatch(r"[0-9]+_[0-9]+", job):
        raise ValueError(f"job: {job!r} is an element of an array; {_EXPECTED}")
    # NumPy's whole numbers are numbers, too.
    if not hasattr(job, "__index__") or isinstance(job, bool):
        raise TypeError(f"job: {job!r} is not an id; {_EXPECTED}")
    number = job.__index__()
    if number < 1:
        raise ValueError(f"job: {number} is not an id; {_EXPECTED}")
    return int(number)


def in_numbers(entries: Iterable[Any], home: str) -> list[Any]:
    """Entries of ``depends_on`` with numbers for handles; all else the server judges."""
    return [
        {**entry, "job": id_of(entry["job"], home)}
        if isinstance(entry, dict) and isinstance(entry.get("job"), JobReference)
        else entry
        for entry in entries
    ]
