"""Folders for saved work that nobody saved anything in, used again for the next job.

Most jobs save nothing, and each has a folder all the same. To make one and to remove one costs far
more than to give it another name, so a few empty ones are kept for each user. They lie beside
those in use, in a root that only we may write to, under names that no job has.
"""

from __future__ import annotations

import itertools
import os
import stat
from contextlib import suppress

from rota.as_user.owners import look

#: The user's id follows, and a number.
SPARE = ".spare-"
#: More than this many of one user are not worth keeping.
SPARES_MAX = 8
PRIVATE = 0o700


class SpareFolders:
    """Empty folders by root and owner."""

    def __init__(self) -> None:
        self._spare: dict[tuple[str, int], list[str]] = {}
        self._numbers = itertools.count(1)

    def take(self, path: str, owner: tuple[int, int] | None) -> bool:
        """Make one of them the folder of a job that has none yet; False: there is none."""
        root = os.path.dirname(path)
        spare = self._of(root, os.geteuid() if owner is None else owner[0])
        if not spare or os.path.lexists(path):
            return False
        try:
            os.rename(spare.pop(), path)
        except OSError:
            return False
        return True

    def keep_if_empty(self, path: str) -> None:
        """A job is over: unless something is in its folder, that is free."""
        with suppress(OSError):
            # Something that a user has mounted there is not ours to look into.
            found = look(path)
            if os.listdir(path):
                return
            spare = self._of(os.path.dirname(path), found.uid)
            if len(spare) >= SPARES_MAX:
                os.rmdir(path)
                return
            name = f"{os.path.dirname(path)}/{SPARE}{found.uid}-{next(self._numbers)}"
            os.rename(path, name)
            if stat.S_IMODE(found.mode) != PRIVATE:
                os.chmod(name, PRIVATE)
            spare.append(name)

    def _of(self, root: str, uid: int) -> list[str]:
        """The spare folders of a user. Those of an earlier agent go: it may still be there."""
        known = self._spare.get((root, uid))
        if known is None:
            known = self._spare[root, uid] = []
            prefix = f"{SPARE}{uid}-"
            with suppress(OSError), os.scandir(root) as entries:
                for entry in entries:
                    if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False):
                        with suppress(OSError):
                            os.rmdir(entry.path)
        return known
