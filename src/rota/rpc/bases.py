"""The two bases of all messages: what agents send, and what the controller sends."""

from __future__ import annotations

import msgspec


class FromAgent(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type"):
    """Base of what agents send."""


class ToAgent(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type"):
    """Base of what the controller sends."""
