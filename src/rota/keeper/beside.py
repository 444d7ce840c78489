"""One more process in an attempt that runs, for a part that has to start something there later on.

It begins with the environment, the CPUs and the cgroup of the attempt's first process, and bears
its uid: so it gets the attempt's signals, and goes when the attempt ends. The keeper runs this file
without the package around it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rota.keeper.asides import Asides
    from rota.keeper.journal import RUNNING, Attempt
    from rota.keeper.processes import UID_VARIABLE, environ_of, real_user, start_of
    from rota.keeper.starting import Starts
else:
    from keeper.journal import RUNNING
    from keeper.processes import UID_VARIABLE, environ_of, real_user, start_of

NOWHERE = "/dev/null"
SILENT = "its first process does not show its environment"


class Beside:
    """Starts them, once the first process of the attempt has shown its environment."""

    def __init__(self, starts: Starts, asides: Asides, say: Callable[[str], None]) -> None:
        self._starts = starts
        self._asides = asides
        self._say = say

    def start(self, attempts: dict[str, Attempt], orders: list[dict[str, Any]]) -> None:
        for order in orders:
            self._start(attempts.get(order["uid"]), order)

    def _start(self, attempt: Attempt | None, order: dict[str, Any]) -> None:
        if attempt is None or not _runs(attempt):
            self._fail(order, "it does not run")
            return
        pid = attempt.pid

        def heard(body: bytes, hung: bool) -> None:
            if hung or not body or not _runs(attempt):
                self._fail(order, SILENT if hung else "it does not run")
                return
            try:
                self._starts.begin(_order(attempt, order, body), None)
                self._starts.flush()
            except OSError as error:
                self._fail(order, error.strerror or "failed")

        words = (b"\0".join(environ_of(each)) for each in (pid,))
        self._asides.ask(real_user(pid), words, heard)

    def _fail(self, order: dict[str, Any], why: str) -> None:
        self._say(f"nothing beside {order['uid']}: {why}")


def _runs(attempt: Attempt) -> bool:
    """Whether its number is still that of its first process: of a child of ours it is."""
    return attempt.phase == RUNNING and attempt.start in (0, start_of(attempt.pid))


def _order(attempt: Attempt, order: dict[str, Any], body: bytes) -> dict[str, Any]:
    environ = body.decode("utf-8", "replace").split("\0")
    mark = UID_VARIABLE + "="
    return {
        "uid": attempt.uid,
        "argv": order["argv"],
        "env": [entry for entry in environ if "=" in entry and not entry.startswith(mark)],
        "cwd": _folder_of(attempt.pid) if order.get("terminal") else "/",
        "stdout": NOWHERE,
        "stderr": NOWHERE,
        "umask": 0o022,
        "user": order.get("user"),
        "cgroup": attempt.cgroup,
        "cpus": sorted(os.sched_getaffinity(attempt.pid)),
        "terminal": order.get("terminal"),
    }


def _folder_of(pid: int) -> str:
    """Where the first process is now; somewhere, if that is gone."""
    try:
        folder = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return "/"
    return "/" if folder.endswith(" (deleted)") else folder
