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

    from rota.keeper.journal import RUNNING, Attempt
    from rota.keeper.processes import UID_VARIABLE, attempt_uid, read
    from rota.keeper.starting import Starts
else:
    from keeper.journal import RUNNING
    from keeper.processes import UID_VARIABLE, attempt_uid, read

NOWHERE = "/dev/null"


def start_beside(
    starts: Starts,
    attempts: dict[str, Attempt],
    orders: list[dict[str, Any]],
    say: Callable[[str], None],
) -> None:
    for order in orders:
        why = _start(starts, attempts.get(order["uid"]), order)
        if why:
            say(f"nothing beside {order['uid']}: {why}")
    starts.flush()


def _start(starts: Starts, attempt: Attempt | None, order: dict[str, Any]) -> str:
    """Why there will be no such process; empty: it is on its way."""
    if attempt is None or attempt.phase != RUNNING or attempt_uid(attempt.pid) != attempt.uid:
        return "it does not run"
    environ = read(f"/proc/{attempt.pid}/environ").decode("utf-8", "replace").split("\0")
    mark = UID_VARIABLE + "="
    full = {
        "uid": attempt.uid,
        "argv": order["argv"],
        "env": [entry for entry in environ if "=" in entry and not entry.startswith(mark)],
        "cwd": _folder_of(attempt.pid) if order.get("terminal") else "/",
        "stdout": NOWHERE,
        "stderr": NOWHERE,
        "umask": 0o022,
        "user": order.get("user"),
        "cgroup": attempt.cgroup,
        "terminal": order.get("terminal"),
    }
    try:
        full["cpus"] = sorted(os.sched_getaffinity(attempt.pid))
        starts.begin(full, None)
    except OSError as error:
        return error.strerror or "failed"
    return ""


def _folder_of(pid: int) -> str:
    """Where the first process is now; somewhere, if that is gone."""
    try:
        folder = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return "/"
    return "/" if folder.endswith(" (deleted)") else folder
