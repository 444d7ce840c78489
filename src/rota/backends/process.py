"""The process of one engine: its folder, its journal, its driver, and the host that joins them."""

from __future__ import annotations

import asyncio
import fcntl
import os
from typing import TYPE_CHECKING, Any

from rota.backends import registry
from rota.backends.host import Engine
from rota.backends.journal import Journal
from rota.core.facts.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def run(name: str, table: Mapping[str, Any], home: Path, url: str, token: str) -> None:
    """Until TERM. One process per engine and folder: a second one is refused."""
    common, driver = registry.make(name, table)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(home / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Conflict(f"engine {name} is served already, from {home}", field="engine") from None

    async def serve() -> None:
        journal = Journal(home / "journal.db")
        await Engine(name, driver, journal, home, url, token, common.give_back_s).run()

    asyncio.run(serve())
