"""Rotas elsewhere that a person has logged in to: their addresses and tokens, by name.

Read by every command without ROTA_URL, so it knows the standard library only.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

from rota import paths
from rota.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

VARIABLE = "ROTA_SITE"
#: The Rota of this machine, whatever one is logged in to.
HERE = "here"


class Login(NamedTuple):
    url: str
    token: str
    user: str = ""


class Logins:
    """The file of them: for its owner's eyes only."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.path: Path = paths.personal_folder(environment) / "sites.json"
        self.current, self.known = HERE, dict[str, Login]()
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            self.known = {name: Login(**one) for name, one in found["sites"].items()}
            self.current = str(found["current"])
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise ClientError(f"{self.path} cannot be read; remove it and log in again") from None

    def find(self, name: str) -> Login:
        """The login of this name. Raises ``ClientError``."""
        if name not in self.known:
            listed = ", ".join([*sorted(self.known), HERE])
            raise ClientError(f"there is no login {name!r}; known: {listed} (rota login URL)")
        return self.known[name]

    def save(self) -> None:
        """Whole or not at all."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        sites = {name: login._asdict() for name, login in sorted(self.known.items())}
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            json.dump({"current": self.current, "sites": sites}, file, indent=2)
        draft.replace(self.path)


def chosen(environment: Mapping[str, str]) -> Login | None:
    """Where commands go that were told nothing else; None: to the Rota of this machine."""
    name = environment.get(VARIABLE, "")
    if not name and environment.get("ROTA_STATE_DIR"):
        return None
    logins = Logins(environment)
    name = name or logins.current
    return None if name == HERE else logins.find(name)
