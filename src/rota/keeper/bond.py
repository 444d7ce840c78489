"""What binds a child to its keeper before its program takes over, for the starter in Python.

And what makes both of them quick.
The keeper runs this file without the package around it.
"""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.keeper.processes import UID_VARIABLE, read
else:
    from keeper.processes import UID_VARIABLE, read

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
#: The fields of /proc/PID/stat that say where the environment is in memory.
_ENV_START, _ENV_END = 50, 51


class Bond:
    """A process, and the keeper that it must not outlive."""

    def __init__(self, keeper: int) -> None:
        self._keeper = keeper
        self._prctl = ctypes.CDLL(None).prctl
        fields = read("/proc/self/stat").rpartition(b")")[2].split()
        self._begin, end = int(fields[_ENV_START - 3]), int(fields[_ENV_END - 3])
        self._room = end - self._begin
        self._memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)

    def mark(self, uid: bytes) -> None:
        """What /proc shows as our environment: whose process a child is, from its first moment."""
        text = f"{UID_VARIABLE}=".encode() + uid if uid else b""
        with suppress(OSError):
            if len(text) < self._room:
                os.pwrite(self._memory, text.ljust(self._room, b"\0"), self._begin)

    def await_keeper(self) -> None:
        """Until the keeper is our parent: the process that bore us is on its way out."""
        bearer = os.getppid()
        while (parent := os.getppid()) != self._keeper:
            if parent != bearer and parent in (0, 1):
                os._exit(127)
            bearer = parent
            os.sched_yield()
        self.die_with_keeper()

    def die_with_keeper(self) -> None:
        """A change of rights takes this wish back, so it is made again after each."""
        if os.getuid() != os.geteuid():
            self._prctl(_PR_SET_DUMPABLE, 0)
        self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        self._leave_without_keeper()

    def live_on(self) -> None:
        self._prctl(_PR_SET_PDEATHSIG, 0)
        self._leave_without_keeper()

    def _leave_without_keeper(self) -> None:
        if os.getppid() != self._keeper:
            os._exit(127)


def hurry() -> None:
    """Quick on a busy machine, if we may; jobs start with the ordinary priority all the same.

    It pays most for pinned jobs: keeper and starter are on their CPU when they start, and
    would otherwise wait until they pause before they can go on.
    """
    if os.nice(0) == 0:
        with suppress(OSError):
            reset = os.SCHED_OTHER | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(0, reset, os.sched_param(0))
            os.nice(-10)
