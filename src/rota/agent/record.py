"""How far the controller's record had come when we last heard of it: an older one is refused.

A database that was cut, emptied or put back to an earlier day does not know what this node has
done since. Its controller would end jobs that run and run jobs again that have ended.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from rota.rpc.messages import Desired, Welcome
from rota.session import folder

if TYPE_CHECKING:
    from pathlib import Path

    from rota.rpc.messages import ControllerMessage

log = logging.getLogger("rota.agent")

FILE = "controller-record.json"
#: So often it is written at the most: a little too old a number only notices less.
SAVE_S = 1.0


def forget(place: Path) -> None:
    """The next controller is obeyed, whatever its database knows."""
    (place / FILE).unlink(missing_ok=True)


class ClusterRecord:
    """The cluster that we belong to, and its newest event that we know of."""

    def __init__(self, place: Path) -> None:
        self._file = place / FILE
        self._cluster, self._run, self._seq = "", 0, 0
        self._timer: asyncio.TimerHandle | None = None
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(self._file.read_text())
            self._cluster, self._seq = str(found["cluster"]), int(found["seq"])
            self._run = int(found["run"])

    def hears(self, message: ControllerMessage) -> str:
        """Why this controller is not obeyed, in one line; empty: it is."""
        if isinstance(message, Welcome):
            why = self.objection(message)
            if not why:
                self._cluster, self._run = message.cluster, message.run
                self.save()
            return why
        if isinstance(message, Desired) and message.seq > self._seq:
            # It was told after its commit.
            self._seq = message.seq
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(SAVE_S, self.save)
        return ""

    def objection(self, welcome: Welcome) -> str:
        """The same of a welcome, from any thread."""
        cluster, seq = welcome.cluster, welcome.seq
        meant = "if that is meant, stop rota on this node and start it once with --accept-database"
        if self._cluster and cluster != self._cluster:
            return (
                f"the controller's database is of cluster {cluster}, and this node belongs to "
                f"cluster {self._cluster}: it was emptied or replaced; {meant}"
            )
        if seq and welcome.run != self._run and seq < self._seq:
            return (
                f"the controller's database ends at event {seq}, and had come to event "
                f"{self._seq} before: it is damaged or an old copy; {meant}"
            )
        return ""

    def save(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            known = {"cluster": self._cluster, "run": self._run, "seq": self._seq}
            folder.write_json(self._file, known)
        except OSError as error:
            log.warning("cannot write %s: %s", self._file, error.strerror)
