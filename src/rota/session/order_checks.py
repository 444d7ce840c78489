"""Whether a controller of ours could have said this: asked before a message is acted upon.

What it says decides over processes and files of this machine, and a number that is none would keep
the agent busy for ever. So a controller that says such a thing is left, and dialled again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.rpc.messages import Desired, Welcome
from rota.rpc.visits import (
    OpenTerminal,
    OpenTunnel,
    ReadLog,
    SearchLog,
    StartBeside,
    TerminalInput,
    WriteRemark,
)

if TYPE_CHECKING:
    from rota.rpc.messages import ControllerMessage, Launch, Wanted

#: Thirty years: no lease and no grace is as long; what is not a number is not below it, either.
TIME_MAX_S = 1e9
BEAT_S_MIN = 0.001
COUNT_MAX = 1 << 53
PORT_MAX = 65535
UMASK_MAX = 0o7777
SIDE_MAX = 9999
UID_MAX = 255
_IN_UIDS = frozenset("-_.")


def doubt(message: ControllerMessage) -> str:
    """Why this cannot be meant, in one line; empty: it may well be."""
    if isinstance(message, Desired):
        return next((why for item in message.attempts if (why := _doubt_wanted(item))), "")
    if isinstance(message, Welcome):
        return _doubt_welcome(message)
    if isinstance(message, ReadLog | SearchLog):
        return _doubt_log(message)
    if isinstance(message, TerminalInput):
        return _doubt_input(message)
    if isinstance(message, OpenTunnel) and not 0 < message.port <= PORT_MAX:
        return _wrong("port", message.port, f"1 to {PORT_MAX}")
    if isinstance(message, OpenTerminal | OpenTunnel) and not _is_uid(message.uid):
        return _wrong("uid", message.uid, "letters, digits, -, _ and .")
    if isinstance(message, WriteRemark | StartBeside):
        words = (message.path,) if isinstance(message, WriteRemark) else message.argv
        if any("\0" in word for word in (message.user, *words)):
            return _wrong("words", words, "without the character 0")
    return ""


def _is_uid(text: str) -> bool:
    """Files are named after it."""
    letters = "".join(c for c in text if c not in _IN_UIDS)
    return 0 < len(text) <= UID_MAX and letters.isalnum() and letters.isascii()


def _wrong(field: str, value: object, allowed: str) -> str:
    return f"{field}: {value!r:.60} is not valid; {allowed}"


def _doubt_welcome(welcome: Welcome) -> str:
    if not 0 <= welcome.lease_s < TIME_MAX_S:
        return _wrong("lease_s", welcome.lease_s, "seconds from 0")
    least_s = BEAT_S_MIN if welcome.lease_s else 0.0
    if not least_s <= welcome.beat_s < TIME_MAX_S:
        return _wrong("beat_s", welcome.beat_s, f"seconds from {least_s:g}")
    return ""


def _doubt_wanted(item: Wanted) -> str:
    # One that is no name for a file fails to start, and the others go on.
    if not 0 < len(item.uid) <= UID_MAX or not item.uid.isprintable():
        return _wrong("uid", item.uid, f"1 to {UID_MAX} printable characters")
    if not -TIME_MAX_S < item.grace_s < TIME_MAX_S:
        return _wrong("grace_s", item.grace_s, "seconds")
    return _doubt_launch(item.uid, item.launch) if item.launch is not None else ""


def _doubt_launch(uid: str, launch: Launch) -> str:
    """What is merely impossible here ends as a failed start; this is what no start can have."""
    if launch.uid != uid:
        return _wrong("launch.uid", launch.uid, f"{uid}, as outside")
    if not 0 <= launch.grace_s < TIME_MAX_S:
        return _wrong("launch.grace_s", launch.grace_s, "seconds from 0")
    if not 0 <= launch.umask <= UMASK_MAX:
        return _wrong("launch.umask", launch.umask, f"0 to {UMASK_MAX:#o}")
    if not (0 <= launch.memory_mib < COUNT_MAX and 0 <= launch.cpu_milli < COUNT_MAX):
        return _wrong(
            "launch.memory_mib, cpu_milli", (launch.memory_mib, launch.cpu_milli), "from 0"
        )
    health = launch.health
    if health is not None and not 0.1 <= health.every_s < TIME_MAX_S:
        return _wrong("launch.health.every_s", health.every_s, "seconds from 0.1")
    paths = [launch.user, launch.workdir, launch.stdout, launch.stderr, *launch.argv]
    if launch.checkpoint is not None:
        paths += [launch.checkpoint.folder, launch.checkpoint.store]
    if any("\0" in path for path in paths):
        return _wrong("launch", "", "paths and words without the character 0")
    return ""


def _doubt_log(message: ReadLog | SearchLog) -> str:
    if not _is_uid(message.uid):
        return _wrong("uid", message.uid, "letters, digits, -, _ and .")
    if "\0" in message.path or "\0" in message.user:
        return _wrong("path", message.path, "without the character 0")
    if not -COUNT_MAX < message.offset < COUNT_MAX:
        return _wrong("offset", message.offset, "a place in a file")
    return ""


def _doubt_input(message: TerminalInput) -> str:
    sides = (message.rows, message.columns)
    if any(not 0 <= side <= SIDE_MAX for side in sides):
        return _wrong("rows, columns", sides, f"0 to {SIDE_MAX}")
    if not 0 <= message.taken < COUNT_MAX:
        return _wrong("taken", message.taken, "from 0")
    return ""
