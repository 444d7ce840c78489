"""Log files that nobody wrote to, used again for the next attempt.

Most short jobs write nothing, and making a file is the most costly part of starting one: on some
file systems a hundred times the price of renaming an old one. An empty log and a log that does
not exist say the same. The keeper runs this file without the package around it.
"""

from __future__ import annotations

import os

#: More than this many empty files are not worth keeping.
SPARES_MAX = 64
_REOPEN = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class Spares:
    """Empty log files of ended attempts, by the umask they were made with."""

    def __init__(self) -> None:
        self._spare: dict[int, list[str]] = {}
        self._in_use: dict[str, list[tuple[int, str]]] = {}

    def lend(self, uid: str, umask: int, path: str) -> None:
        """This file of the keeper's own belongs to an attempt that now starts."""
        self._in_use.setdefault(uid, []).append((umask, path))

    def give_back(self, uid: str) -> None:
        """Nothing of the attempt is left: what it did not write to is free."""
        for umask, path in self._in_use.pop(uid, ()):
            spare = self._spare.setdefault(umask, [])
            try:
                if len(spare) < SPARES_MAX and os.stat(path).st_size == 0:
                    spare.append(path)
            except OSError:
                continue  # Somebody removed it.

    def open(self, path: str, umask: int) -> int:
        """An empty file under this name, for appending; -1 when there is none to spare."""
        spare = self._spare.get(umask)
        # Nobody else makes files there, so that none can come between this look and the new name.
        if not spare or os.path.lexists(path):
            return -1
        while spare:
            old = spare.pop()
            try:
                os.rename(old, path)
                return os.open(path, _REOPEN)
            except OSError:
                continue
        return -1
