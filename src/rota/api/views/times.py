"""Moments as the API shows them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from rota.core.words.units import format_when

#: RFC 3339 in UTC.
Moment = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]


def when(moment_s: float) -> Moment | None:
    """None for what has not happened."""
    return format_when(moment_s) if moment_s else None
