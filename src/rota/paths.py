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
    return [own, SYSTEM_STATE_DIR / SOCKET_NAME]


def _xdg(environment: Mapping[str, str], variable: str, below_home: str) -> Path:
    """The XDG rule: a relative path in the variable does not count."""
    given = environment.get(variable, "")
    if given.startswith("/"):
        return Path(given)
    return Path(environment.get("HOME") or "/") / below_home
