"""A checkpoint as callers see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.api.views.times import Moment, when

if TYPE_CHECKING:
    from rota.core.facts.checkpoint import Checkpoint


class RecordView(msgspec.Struct):
    """One checkpoint as the job reported it; `size` is in bytes."""

    saved_at: Moment | None
    attempt: int
    step: int | None
    note: str
    size: int
    path: str


def record_view(record: Checkpoint) -> RecordView:
    return RecordView(
        when(record.saved_s),
        record.attempt,
        record.step,
        record.note,
        record.size_bytes,
        record.path,
    )
