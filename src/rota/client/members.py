"""How many tasks a job request asks for, as the server counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def task_count(request: Mapping[str, Any]) -> int:
    """By its roles, by the number of its tasks, or one on each of its nodes."""
    roles = request.get("roles")
    if roles:
        return sum(int(role.get("count", 1)) for role in roles)
    return max(1, int(request.get("tasks") or 1), int(request.get("nodes") or 0))
