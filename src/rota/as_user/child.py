"""The program that becomes a user and does errands for the agent, one after the other.

    python -I -S child.py WHO KIND        WHO: name:USER, id:UID:GID, or - for the agent's own user

An order is a JSON object on standard input, its answer one on standard output and a piece of bytes
behind it. Every order has its time: the kernel ends a child that takes longer, also where the
agent has died meanwhile. A child that nobody asks for a while ends by itself.

It starts with the agent's rights, imports everything, gives the rights up for good, and only then
reads the first order. The change of user makes the kernel keep the user's debuggers away from it.
"""

from __future__ import annotations

import json
import os
import pwd
import resource
import signal
import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rota.as_user.frames import Broken, receive, send
else:
    # Last, so that no file of ours can stand in for one of the standard library.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from as_user.frames import Broken, receive, send

#: A child that is not asked for so long is not needed.
IDLE_S = 10.0
#: The standard library needs a tenth of it; an archive or a line that needs more is refused.
MEMORY_BYTES_MAX = 1 << 30
FILES_MAX = 64
STAYS = "-"


class ChildRefusal(Exception):
    """It will not be done; the text says why, the number which error it was of the system."""

    def __init__(self, text: str, number: int = 0) -> None:
        super().__init__(text)
        self.number = number


def become(who: str) -> None:
    """Give up all rights but those of the user, for good."""
    kind, _, rest = who.partition(":")
    if kind == "id":
        uid, gid = map(int, rest.split(":"))
        groups = [gid]
    else:
        try:
            entry = pwd.getpwnam(rest)
        except KeyError:
            raise ChildRefusal(f"user {rest}: no such user on this node") from None
        uid, gid = entry.pw_uid, entry.pw_gid
        groups = os.getgrouplist(rest, gid)
    if os.geteuid() == 0 and uid != 0:
        os.setgroups(groups)
        os.setgid(gid)
        os.setuid(uid)
    elif uid != os.geteuid():
        raise ChildRefusal(f"the agent is not root and cannot act for {rest}")


def bound() -> None:
    """Whatever the user's files make of it, it stays small."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MAX, FILES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o022)


def within(seconds: float) -> None:
    """From now on: the default of this signal ends the process, whatever it is busy with."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


def errands_of(kind: str) -> dict[str, Callable[[dict[str, Any]], tuple[dict[str, Any], bytes]]]:
    """Imported here, because each child does one kind only."""
    if kind == "logs":
        logs = import_module("as_user.logs")
        return {"read": logs.read, "search": logs.search, "remark": logs.remark}
    trees, unpack = import_module("as_user.trees"), import_module("as_user.unpack")
    return {
        "who": _who,
        "unpack": unpack.unpack,
        "remove": trees.remove,
        "drop": trees.drop_part,
        "weigh": trees.weigh,
        "digest": trees.digest,
        "send": trees.send_files,
        "take": trees.take_files,
    }


def _who(_: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """To whom files of this user are given."""
    return {"uid": os.geteuid(), "gid": os.getegid()}, b""


def do(errand: Callable[..., tuple[dict[str, Any], bytes]], order: dict[str, Any]) -> None:
    body = b""
    try:
        answer, body = errand(order)
    except ChildRefusal as error:
        answer = {"error": str(error), "number": error.number}
    except MemoryError:
        answer = {"error": f"it needs more than {MEMORY_BYTES_MAX >> 20} MiB of memory"}
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        answer = {"error": f"{named}{(error.strerror or str(error)).lower()}"[:500]}
        answer["number"] = error.errno or 0
    except Exception as error:
        # Whatever it is, the agent hears of it, and the job that waits for this errand.
        answer = {"error": f"{type(error).__name__}: {error}"[:500]}
    send(1, json.dumps(answer).encode())
    send(1, body)


def main(who: str, kind: str) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    within(IDLE_S)
    known = errands_of(kind)
    trouble = ""
    if who != STAYS:
        try:
            become(who)
        except ChildRefusal as error:
            trouble = str(error)
    bound()
    while True:
        within(IDLE_S)
        try:
            order = json.loads(receive(0))
        except Broken:
            return
        within(order["limit_s"])
        if trouble:
            send(1, json.dumps({"error": trouble}).encode())
            send(1, b"")
        else:
            do(known[order["errand"]], order)


if __name__ == "__main__":
    # The errands raise the class of this very module.
    sys.modules["as_user.child"] = sys.modules["__main__"]
    main(*sys.argv[1:])
