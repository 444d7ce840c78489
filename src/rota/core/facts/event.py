"""What all events have in common. It stands alone so that parts can bring events of their own."""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="kind"):
    """Base of all events."""
