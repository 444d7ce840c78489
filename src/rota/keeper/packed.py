"""What keeper and starter say to each other, in bytes. ``starter.c`` has the same numbers.

An order is a head of fixed size, then limits, groups and CPUs as numbers, then words that each end
with a zero byte: those of ``FIXED``, the command and the environment. A report has a fixed size;
the one that tells of an account is followed by its groups. The keeper runs this file without the
package around it.
"""

from __future__ import annotations

import resource
from struct import Struct, unpack_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rota.keeper.failures import OWN_ERR, OWN_IN, OWN_OUT, SpawnFailed
else:
    from keeper.failures import OWN_ERR, OWN_IN, OWN_OUT, SpawnFailed

#: More flags of an order: the user's numbers are known; how outputs are opened.
KNOWN, FOLDERS, TRUNCATE = 1, 16, 32
#: Kinds of a report. ``BORN`` comes from the child itself, before it can do anything else.
BORN, EXECUTED, FAILED, NO_PROCESS, ACCOUNT = range(1, 6)
#: size, flags, id, umask, uid, gid, then how many limits, groups, CPUs, words and variables.
HEAD = Struct("=IIQ8I")
LIMIT = Struct("=IIQ")
#: id, kind, stage, value, extra.
REPORT = Struct("=QIIiI")
#: A report that is longer could be torn by another one: such an account is looked up each time.
GROUPS_TOLD_MAX = 900
FIXED = (
    *("uid", "user", "cwd", "stdin", "stdout", "stderr", "spare_out", "spare_err"),
    *("cgroup", "terminal", "elsewhere"),
)
#: Folders of output files are made, with the rights of the user.
_OUTPUTS = {"truncate": FOLDERS | TRUNCATE}
_INFINITE = (1 << 64) - 1


class UserNumbers:
    """The numbers of a user, as a child found them."""

    __slots__ = ("gid", "groups", "known_s", "uid")

    def __init__(self, uid: int, gid: int, groups: tuple[int, ...], known_s: float) -> None:
        self.uid = uid
        self.gid = gid
        self.groups = groups
        self.known_s = known_s


def pack(number: int, order: dict[str, Any], own: int, account: UserNumbers | None) -> bytes:
    """An order of the agent for the starter, or ``SpawnFailed``; ``own``: see ``own_files``."""
    argv, env = order["argv"], order["env"]
    if not argv or not argv[0]:
        raise SpawnFailed("no command")
    limits = _limits(order.get("ulimits") or {})
    cpus = order.get("cpus") or ()
    words = [order.get(name) or "" for name in FIXED]
    words += argv
    words += env
    mark = f"ROTA_ATTEMPT_UID={order['uid']}\0"
    try:
        text = ("\0".join(words) + "\0" + mark).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise SpawnFailed(f"command or environment: {error}") from None
    if text.count(b"\0") != len(words) + 1:
        raise SpawnFailed("command or environment: embedded null byte")
    flags = own | _OUTPUTS.get(order.get("outputs") or "", FOLDERS)
    uid, gid = 0, 0
    groups: tuple[int, ...] = ()
    if account is not None:
        flags |= KNOWN
        uid, gid, groups = account.uid, account.gid, account.groups
    counts = (len(limits), len(groups), len(cpus), len(argv), len(env) + 1)
    # The next order begins where numbers of eight bytes may.
    body = [*(LIMIT.pack(name, 0, soft) for name, soft in limits), _numbers(*groups, *cpus), text]
    size = HEAD.size - 4 + sum(map(len, body))
    padding = -(size + 4) % 8
    head = HEAD.pack(size + padding, flags, number, order["umask"], uid, gid, *counts)
    return b"".join((head, *body, bytes(padding)))


def _numbers(*numbers: int) -> bytes:
    return Struct(f"={len(numbers)}I").pack(*numbers) if numbers else b""


def own_files(order: dict[str, Any], folder: str) -> int:
    """The agent's own files for this very attempt, in folders where users cannot plant links.

    Any other path is the user's word, even one that points into our folder.
    """
    uid = order["uid"]
    logs = (f"{folder}/logs/{uid}.out", f"{folder}/logs/{uid}.err")
    flags = OWN_OUT if order["stdout"] in logs else 0
    if order["stderr"] in logs:
        flags |= OWN_ERR
    if order.get("stdin") == f"{folder}/scripts/{uid}.in":
        flags |= OWN_IN
    return flags


def _limits(ulimits: dict[str, int]) -> list[tuple[int, int]]:
    limits = []
    for name, value in ulimits.items():
        number = getattr(resource, f"RLIMIT_{name.upper()}", None)
        if number is None:
            raise SpawnFailed(f"ulimit {name}: no such limit on this node")
        limits.append((number, _INFINITE if value < 0 else value))
    return limits


class Packed:
    """An order as the starter in Python reads it."""

    def __init__(self, body: bytes) -> None:
        _, self.flags, self.id, self.umask, self.uid, self.gid, *counts = HEAD.unpack_from(body)
        limits, groups, cpus, words, entries = counts
        at = HEAD.size
        self.limits = [LIMIT.unpack_from(body, at + each * LIMIT.size) for each in range(limits)]
        at += limits * LIMIT.size
        self.groups = list(unpack_from(f"={groups}I", body, at))
        self.cpus = list(unpack_from(f"={cpus}I", body, at + 4 * groups))
        text = body[at + 4 * (groups + cpus) :].split(b"\0")
        self.texts = dict(zip(FIXED, text, strict=False))
        self.argv = text[len(FIXED) : len(FIXED) + words]
        self.env = text[len(FIXED) + words :][:entries]


def take_orders(unread: bytearray) -> list[Packed]:
    """The whole orders at its beginning, which are taken out of it."""
    orders = []
    while len(unread) >= HEAD.size:
        whole = HEAD.unpack_from(unread)[0] + 4
        if len(unread) < whole:
            break
        orders.append(Packed(bytes(unread[:whole])))
        del unread[:whole]
    return orders


def take_reports(unread: bytearray) -> list[tuple[int, int, int, int, tuple[int, ...]]]:
    """The whole reports at its beginning: id, kind, stage, value, extra or groups."""
    reports = []
    at = 0
    while len(unread) - at >= REPORT.size:
        number, kind, stage, value, extra = REPORT.unpack_from(unread, at)
        after = at + REPORT.size
        rest: tuple[int, ...] = (extra,)
        if kind == ACCOUNT:
            if len(unread) - after < 4 * extra:
                break
            rest = unpack_from(f"={extra}I", unread, after)
            after += 4 * extra
        reports.append((number, kind, stage, value, rest))
        at = after
    del unread[:at]
    return reports


def account(number: int, uid: int, gid: int, groups: list[int]) -> bytes:
    """The report of the numbers of a user."""
    return REPORT.pack(number, ACCOUNT, gid, uid, len(groups)) + _numbers(*groups)
