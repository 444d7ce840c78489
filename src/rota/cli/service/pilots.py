"""The process of pilots on this machine: there is one while there is something for it to keep."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from functools import partial
from typing import TYPE_CHECKING

from rota.cli.service.logbook import open_logbook
from rota.cli.service.supervise import PidLock, Ward
from rota.core.facts.errors import Conflict

if TYPE_CHECKING:
    from pathlib import Path

    from rota.cli.service.state_folder import StateFolder
    from rota.config import Config

#: The controller makes it while there are pilots.
WANTED = "pilots.wanted"


def home_of(place: StateFolder) -> Path:
    return place.folder / "pilots"


def ward(place: StateFolder, settings: Config, detached: bool) -> Ward:
    """What keeps them kept, as long as there are any, or some to let go of."""
    return Ward(
        "keeper of pilots",
        partial(_in_background, place, settings, detached),
        PidLock(home_of(place) / "keeper.lock").holder,
        wanted=partial(_wanted, place),
    )


def _wanted(place: StateFolder) -> bool:
    return (place.folder / WANTED).exists() or any(home_of(place).glob("*/journal.db"))


def _in_background(place: StateFolder, settings: Config, detached: bool) -> int:
    server = settings.server
    open_logbook(place.folder / "pilots.log", server.log_level, detached, server.log_format)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    serve(place)
    return 0


def serve(place: StateFolder) -> None:
    """Until TERM, or until there is nothing to keep. One process per state folder."""
    from rota.pilots.keeper import run

    home = home_of(place)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = PidLock(home / "keeper.lock")
    if holder := lock.take():
        raise Conflict(f"pilots are kept already, by process {holder}", field="pilot")
    run(place.client(), home)


def nudge(place: StateFolder) -> None:
    """The supervisor looks whether there is something new to keep; else it does so by itself."""
    holder = place.supervisor.holder()
    if holder > 0:
        with contextlib.suppress(OSError):
            os.kill(holder, signal.SIGHUP)
