"""The processes of engines on this machine: one for each table [engines.NAME] of the settings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rota.cli.service.logbook import open_logbook
from rota.cli.service.supervise import PidLock, Ward
from rota.core.facts.errors import Conflict, Rejected

if TYPE_CHECKING:
    from pathlib import Path

    from rota.cli.service.state_folder import StateFolder
    from rota.config import Config


def home_of(place: StateFolder, name: str) -> Path:
    return place.folder / "engines" / name


def check(settings: Config) -> None:
    """Refuse a bad table before anything is started."""
    if settings.engines or settings.pilots:
        from rota.backends.pilot_tables import check_table
        from rota.backends.registry import make

        for name, table in settings.engines.items():
            make(name, table)
        for pilot in settings.pilots:
            check_table(pilot)


def wards(place: StateFolder, settings: Config, detached: bool) -> list[Ward]:
    """What keeps each engine served."""
    return [
        Ward(
            f"engine {name}",
            partial(_in_background, place, settings, name, detached),
            PidLock(home_of(place, name) / "engine.lock").holder,
        )
        for name in settings.engines
    ]


def _in_background(place: StateFolder, settings: Config, name: str, detached: bool) -> int:
    server = settings.server
    file = place.folder / f"engine-{name}.log"
    open_logbook(file, server.log_level, detached, server.log_format)
    serve(place, settings, name, f"unix://{place.socket}", "")
    return 0


def serve(place: StateFolder, settings: Config, name: str, url: str, token: str) -> None:
    """Until TERM. One process per engine and folder."""
    from rota.backends import process

    table = settings.engines.get(name)
    if table is None:
        known = ", ".join(sorted(settings.engines)) or "none"
        raise Rejected(f"engine: {name!r} is not in rota.toml; it has these: {known}")
    home = home_of(place, name)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = PidLock(home / "engine.lock")
    if holder := lock.take():
        raise Conflict(f"engine {name} is served already, by process {holder}", field="engine")
    process.run(name, table, home, url, token, settings.server.retention_days)
