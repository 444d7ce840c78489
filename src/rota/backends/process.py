"""The process of one engine: its folder, its journal, its driver, and the host that joins them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rota.backends import registry
from rota.backends.host import Engine
from rota.backends.journal import EngineJournal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def run(name: str, table: Mapping[str, Any], home: Path, url: str, token: str) -> None:
    """Until TERM."""
    common, driver = registry.make(name, table)

    async def serve() -> None:
        journal = EngineJournal(home / "journal.db")
        await Engine(name, driver, journal, home, url, token, common).run()

    asyncio.run(serve())
