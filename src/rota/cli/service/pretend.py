"""``rota up --pretend``: made-up nodes in place of this machine, in a state folder of their own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rota.cli.service.logbook import open_logbook
from rota.cli.service.supervise import PidLock, Ward
from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.cli.service.service_options import UpOptions
    from rota.cli.service.state_folder import StateFolder
    from rota.config import Config

#: A state folder with this file holds pretended jobs, and none that were ever run.
MARK = "pretended"


def check(place: StateFolder, settings: Config, options: UpOptions) -> None:
    """Jobs that are to be run are never pretended, and the other way round."""
    marked = (place.folder / MARK).exists()
    if not options.pretend:
        if marked:
            raise Rejected(
                f"{place.folder} holds pretended jobs; start it with --pretend, "
                "or choose another folder with --state-dir"
            )
        return
    if options.standby or settings.server.standby:
        raise Rejected("--pretend: a head that stands by has no nodes; leave out --standby")
    if options.database or settings.server.database:
        raise Rejected("--pretend: its database is in its state folder; leave out --database")
    if not marked and (place.folder / "rota.db").exists():
        raise Rejected(
            f"--pretend: {place.folder} holds jobs that are to be run; "
            "choose another folder with --state-dir"
        )
    (place.folder / MARK).touch(mode=0o600)


def ward(place: StateFolder, settings: Config, options: UpOptions) -> Ward:
    lock = _lock(place)
    return Ward("pretended nodes", partial(_run, place, settings, options, lock), lock.holder)


def is_ready(place: StateFolder) -> bool:
    return _lock(place).holder() > 0


def _lock(place: StateFolder) -> PidLock:
    return PidLock(place.folder / "pretend.lock")


def _run(place: StateFolder, settings: Config, options: UpOptions, lock: PidLock) -> int:
    from rota.agent.pretend import run

    server = settings.server
    file = place.folder / "agent.log"
    open_logbook(file, server.log_level, options.detach, server.log_format)
    ready: Callable[[], int] = lock.take
    run(f"unix://{place.socket}", options.pretend, options.seed, ready)
    return 0
