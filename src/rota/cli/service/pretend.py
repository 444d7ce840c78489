"""``rota up --pretend``: made-up nodes in place of this machine, in a state folder of their own."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from rota import paths
from rota.cli.service.logbook import open_logbook
from rota.cli.service.state_folder import StateFolder
from rota.cli.service.supervise import PidLock, Ward
from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rota.cli.service.service_options import UpOptions
    from rota.config import Config

#: A state folder with this file holds pretended jobs, and none that were ever run.
MARK = "pretended"


def folder(options: UpOptions) -> str:
    """Where made-up nodes are if nobody named a folder; empty for real ones."""
    return str(paths.pretended_dir(os.environ)) if options.pretend else ""


def way(place: StateFolder) -> str:
    """How commands find it where they would find another Rota first; empty: by themselves."""
    plain = {name: value for name, value in os.environ.items() if name != "ROTA_STATE_DIR"}
    if place.folder != paths.pretended_dir(plain):
        return ""
    served = [path.parent for path in paths.sockets(plain) if StateFolder(path.parent).status()]
    if served[:1] == [place.folder]:
        return ""
    return f"\nto use it: export ROTA_STATE_DIR={place.folder}"


def check(place: StateFolder, settings: Config, options: UpOptions) -> None:
    """Jobs that are to be run are never pretended, and the other way round."""
    marked = is_marked(place.folder)
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


def is_marked(folder: Path) -> bool:
    """Whether the jobs of a state folder are pretended."""
    return (folder / MARK).exists()


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
