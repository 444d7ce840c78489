"""Where jobs say how far they are: a folder for each user, which is the user's own.

It is made when the user's first job starts here, so a job that says nothing costs nothing. What
lies in it is read as the user, as all that a user may have put there: see ``as_user``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from rota.as_user.owners import look

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

FOLDER = "progress"
#: A job finds the path of its own file there.
VARIABLE = "ROTA_PROGRESS_FILE"


def place_of(folder: str, user: str, uid: str) -> str:
    """The file of an attempt, below the agent's folder."""
    return f"{folder}/{FOLDER}/of-{quote(user, safe='')}/{os.path.basename(uid)}"


class ReportFolders:
    """Makes them, each once."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._made: set[str] = set()

    def variables(self, user: str, owner: tuple[int, int] | None, uid: str) -> dict[str, str]:
        """What a job finds; nothing where there can be no place: it runs all the same."""
        path = place_of(self._folder, user, uid)
        place = os.path.dirname(path)
        if place not in self._made:
            try:
                _make(place, owner)
            except OSError:
                return {}
            self._made.add(place)
        return {VARIABLE: path}


def _make(place: str, owner: tuple[int, int] | None) -> None:
    """Only the agent writes in the folder above: what is there already, it has made."""
    os.makedirs(os.path.dirname(place), mode=0o711, exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(place, 0o700)
    # Where its user has mounted something it is left, unasked.
    found = look(place)
    if owner is not None and (found.uid, found.gid) != owner:
        os.chown(place, *owner, follow_symlinks=False)


def drop_old_reports(folder: Path, before_s: float, alive: frozenset[str]) -> int:
    """Remove what was last written before a time, by name: nothing is opened. How many."""
    dropped = 0
    with suppress(FileNotFoundError), os.scandir(folder / FOLDER) as users:
        for user in users:
            dropped += _drop(user.path, before_s, alive)
    return dropped


def _drop(place: str, before_s: float, alive: frozenset[str]) -> int:
    """A folder that its user has put there is left; one with something mounted on it, too."""
    dropped = 0
    with suppress(OSError), _unmounted(place) as entries:
        for entry in entries:
            with suppress(OSError):
                # Of the times of a file the one that its owner cannot choose.
                touched_s = look(entry.path).changed_s
                if touched_s < before_s and entry.name not in alive:
                    os.unlink(entry.path)
                    dropped += 1
    return dropped


def _unmounted(place: str) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
    """What is in a folder of ours, unless its user has mounted something: that may never answer."""
    look(place)
    return os.scandir(place)
