"""Where Rota keeps its state and its settings: one rule for server, agent and command line.

Imported by every command, so it knows the standard library only.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET_NAME = "rota.sock"
#: Where a system-wide Rota listens.
SYSTEM_STATE_DIR = Path("/run/rota")


def state_dir(environment: Mapping[str, str]) -> Path:
    """``ROTA_STATE_DIR``, else ``rota`` in the XDG state folder."""
    if given := environment.get("ROTA_STATE_DIR"):
        return Path(given).absolute()
    return _xdg(environment, "XDG_STATE_HOME", ".local/state") / "rota"


def config_files(environment: Mapping[str, str]) -> list[Path]:
    """Where ``rota.toml`` may be, the first one that exists counts. ``ROTA_CONFIG`` is the only
    one when it is set.
    """
    if given := environment.get("ROTA_CONFIG"):
        return [Path(given).absolute()]
    personal = _xdg(environment, "XDG_CONFIG_HOME", ".config") / "rota" / "rota.toml"
    return [state_dir(environment) / "rota.toml", personal]


def sockets(environment: Mapping[str, str]) -> list[Path]:
    """Where the API's socket may be, in the order to try them."""
    own = state_dir(environment) / SOCKET_NAME
    if environment.get("ROTA_STATE_DIR"):
        return [own]
    named = _state_dir_of_settings(environment)
    return [
        *([Path(named).absolute() / SOCKET_NAME] if named else []),
        own,
        SYSTEM_STATE_DIR / SOCKET_NAME,
    ]


def _state_dir_of_settings(environment: Mapping[str, str]) -> str:
    """``server.state_dir`` of the settings, without all the rest of them: commands start fast.

    A file that cannot be read is the server's to complain about.
    """
    if given := environment.get("ROTA_SERVER_STATE_DIR"):
        return given
    for path in config_files(environment):
        if path.is_file():
            import tomllib

            try:
                settings = tomllib.loads(path.read_text(encoding="utf-8"))
                return str(settings["server"]["state_dir"])
            except (OSError, ValueError, LookupError, TypeError):
                return ""
    return ""


def _xdg(environment: Mapping[str, str], variable: str, below_home: str) -> Path:
    """The XDG rule: a relative path in the variable does not count."""
    given = environment.get(variable, "")
    if given.startswith("/"):
        return Path(given)
    return Path(environment.get("HOME") or "/") / below_home
