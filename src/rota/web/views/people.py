"""People and projects: who used what, waited how long, and is entitled to what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota.web.views.asked import PageRequest

TEMPLATE, RIGHT = "people", "read"


async def words(asked: PageRequest) -> dict[str, Any]:
    return {}
