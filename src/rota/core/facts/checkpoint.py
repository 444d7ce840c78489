"""What a job said about work that it saved."""

from __future__ import annotations

import msgspec

#: More are never remembered, whatever a site keeps: a job may report one each second.
RECORDS_MAX = 20


class Checkpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """One report. ``path`` is below the job's checkpoint folder; empty: the folder as a whole."""

    saved_s: float
    #: The number of the try that saved it.
    attempt: int = 0
    step: int | None = None
    note: str = ""
    size_bytes: int = 0
    path: str = ""


def remembered(
    known: tuple[Checkpoint, ...], fresh: Checkpoint, keep: int
) -> tuple[Checkpoint, ...]:
    """The records after a further report: the latest ``keep`` of them, each path once."""
    others = [record for record in known if not fresh.path or record.path != fresh.path]
    most = min(keep, RECORDS_MAX) if keep else RECORDS_MAX
    return (*others, fresh)[-most:]
