"""Where Rota keeps its state and its settings: one rule for server, agent and command line.

Imported by every command, so it knows the standard library only.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET_NAME = "rota.sock"
CONFIG_NAME = "rota.toml"
#: Where logs lie some time after their attempts ended, in a folder for each day.
ENDED_LOGS = "ended"
#: Where a Rota of root listens for every user of its machine.
SYSTEM_SOCKET = Path("/run/rota") / SOCKET_NAME
#: State and settings of a Rota that ``rota service install`` has set up for the whole machine.
SYSTEM_STATE_DIR = Path("/var/lib/rota")
SYSTEM_CONFIG = Path("/etc/rota") / CONFIG_NAME


def state_dir(environment: Mapping[str, str]) -> Path:
    """``ROTA_STATE_DIR``; for root that of the service, where one is installed; else ``rota`` in
    the XDG state folder.
    """
    if given := environment.get("ROTA_STATE_DIR"):
        return Path(given).absolute()
    if os.geteuid() == 0 and SYSTEM_CONFIG.exists():
        return SYSTEM_STATE_DIR
    return _xdg(environment, "XDG_STATE_HOME", ".local/state") / "rota"


def pretended_dir(environment: Mapping[str, str]) -> Path:
    """Of ``rota up --pretend``: beside the one of jobs that are run, unless a folder was named."""
    if environment.get("ROTA_STATE_DIR"):
        return state_dir(environment)
    return _xdg(environment, "XDG_STATE_HOME", ".local/state") / "rota-pretended"


def config_files(environment: Mapping[str, str]) -> list[Path]:
    """Where ``rota.toml`` may be, the first one that exists counts. ``ROTA_CONFIG`` is the only
    one when it is set. What lies in /etc is for the service of the whole machine alone.
    """
    if given := environment.get("ROTA_CONFIG"):
        return [Path(given).absolute()]
    folder = state_dir(environment)
    if folder == SYSTEM_STATE_DIR:
        return [SYSTEM_CONFIG, folder / CONFIG_NAME]
    personal = personal_folder(environment) / CONFIG_NAME
    return [folder / CONFIG_NAME, *([] if _is_anothers(personal) else [personal])]


def _is_anothers(file: Path) -> bool:
    """Root goes by no settings of a user, whose home some programs keep when they become root."""
    if os.geteuid() != 0:
        return False
    return any(place.exists() and place.stat().st_uid != 0 for place in (file, file.parent))


def log_file(logs: Path, name: str) -> Path:
    """Where the agent has a log: among those of living attempts, or in the folder of a day."""
    path = logs / name
    if os.path.lexists(path):
        return path
    try:
        days = sorted(os.listdir(logs / ENDED_LOGS), reverse=True)
    except FileNotFoundError:
        return path
    found = (logs / ENDED_LOGS / day / name for day in days)
    return next(filter(os.path.lexists, found), path)


def personal_folder(environment: Mapping[str, str]) -> Path:
    """Settings of one person."""
    return _xdg(environment, "XDG_CONFIG_HOME", ".config") / "rota"


def sockets(environment: Mapping[str, str]) -> list[Path]:
    """Where the API's socket may be, in the order to try them: machines that are made up come
    last, and are named only where there are some.
    """
    own = state_dir(environment) / SOCKET_NAME
    if environment.get("ROTA_STATE_DIR"):
        return [own]
    pretended = pretended_dir(environment) / SOCKET_NAME
    return [own, SYSTEM_SOCKET, *([pretended] if os.path.exists(pretended) else [])]


def system_socket(asked: str) -> str:
    """The socket for every user of this machine, by the setting ``server.socket``; empty: none."""
    if asked == "auto":
        return str(SYSTEM_SOCKET) if os.geteuid() == 0 else ""
    if asked == "none":
        return ""
    if not asked.startswith("/"):
        raise ValueError(f"{asked!r} is not valid; expected auto, none or an absolute path")
    return asked


def _xdg(environment: Mapping[str, str], variable: str, below_home: str) -> Path:
    """The XDG rule: a relative path in the variable does not count."""
    given = environment.get(variable, "")
    if given.startswith("/"):
        return Path(given)
    return Path(environment.get("HOME") or _home_on_record()) / below_home


def _home_on_record() -> str:
    """Where the account lives: the variable is missing where the environment was emptied."""
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir or "/"
    except KeyError:
        return "/"
