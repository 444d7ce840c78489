"""Log files that nobody wrote to, used again for the next attempt of the same user.

Most short jobs write nothing, and making a file is the most costly part of starting one: on some
file systems a hundred times the price of renaming an old one. An empty log and a log that does
not exist say the same. Only the same user gets it: that user may have opened or linked it. The
keeper runs this file without the package around it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rota.keeper.failures import OWN_ERR, OWN_OUT
else:
    from keeper.failures import OWN_ERR, OWN_OUT

#: More than this many empty files are not worth keeping.
SPARES_MAX = 64


class Spares:
    """Empty log files of ended attempts, by the user whose they were."""

    def __init__(self) -> None:
        self._spare: dict[str, list[str]] = {}
        self._in_use: dict[str, tuple[str, tuple[str, ...]]] = {}

    def lend(self, order: dict[str, Any], own: int) -> None:
        """Put into the order what may be renamed to its own logs, and remember those."""
        user = order.get("user") or ""
        spare = self._spare.get(user, [])
        paths = []
        for flag, log, name in (
            (OWN_OUT, "stdout", "spare_out"),
            (OWN_ERR, "stderr", "spare_err"),
        ):
            if own & flag and order[log] not in paths:
                paths.append(order[log])
                order[name] = spare.pop() if spare else ""
        self._in_use[order["uid"]] = (user, tuple(paths))

    def give_back(self, uid: str) -> None:
        """Nothing of the attempt is left: what it did not write to is free."""
        user, paths = self._in_use.pop(uid, ("", ()))
        spare = self._spare.setdefault(user, [])
        for path in paths:
            try:
                if len(spare) < SPARES_MAX and os.stat(path).st_size == 0:
                    spare.append(path)
            except OSError:
                continue  # It was never made, or somebody removed it.
