"""People and projects: who used what, waited how long, and is entitled to what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota.web.views.asked import Asked

TEMPLATE, RIGHT = "people", "read"


async def words(asked: Asked) -> dict[str, Any]:
    return {}
