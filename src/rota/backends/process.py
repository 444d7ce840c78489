"""The process of one engine: its folder, its journal, its driver, and the host that joins them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rota.backends import registry
from rota.backends.host import Engine
from rota.backends.journal import EngineJournal
from rota.backends.old_copies import hold_down

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def run(
    name: str, table: Mapping[str, Any], home: Path, url: str, token: str, log_days: int
) -> None:
    """Until TERM. Copies of what jobs printed are kept for ``log_days``; 0: for ever."""
    common, driver = registry.make(name, table)

    async def serve() -> None:
        journal = EngineJournal(home / "journal.db")
        tidying = asyncio.create_task(hold_down(home / "logs", log_days, journal))
        await Engine(name, driver, journal, home, url, token, common).run()
        tidying.cancel()

    asyncio.run(serve())
