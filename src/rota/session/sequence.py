"""Whether a desired set is the one that comes next in its session."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.rpc.messages import Desired


def misfit(desired: Desired, session: int, expected: int) -> str:
    """Why it is not; empty: it is. ``expected`` is 0 until the full set has come."""
    if not session:
        return "a desired set before the welcome"
    if desired.session != session:
        return f"session {desired.session}, not {session}"
    if desired.full:
        return "a second full set" if expected else ""
    if not expected:
        return "a change before the full set"
    if desired.number != expected:
        return f"message {desired.number}, expected {expected}"
    return ""
