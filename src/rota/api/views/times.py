"""Moments as the API shows them."""

from __future__ import annotations

from rota.core.words.units import format_when


def when(moment_s: float) -> str | None:
    """RFC 3339 in UTC; None for what has not happened."""
    return format_when(moment_s) if moment_s else None
