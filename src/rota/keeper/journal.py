"""The keeper's memory on disk: one JSON line per fact, in the order in which things happened.

    boot     the kernel's boot id and the number of our folder; processes of an earlier boot are
             gone, those of a folder that ours is a copy of have another keeper
    intent   about to start an attempt: written before its process exists
    started  its process: pid and start time, so that a reused pid is never taken for it
    noted    why it is being killed
    stopped  its processes were stopped where they are, or (on: false) told to go on
    ended    its exit status
    forget   attempts whose end the controller has on disk

``started`` and ``ended`` lines are byte for byte what the agent is sent. The keeper runs this
file without the package around it.
"""

from __future__ import annotations

import os
from json import JSONEncoder, loads

INTENT, RUNNING, CLEARING, ENDED = "intent", "running", "clearing", "ended"
#: How the full list calls an attempt whose program has not taken over yet.
STARTING = "starting"

#: So often a journal that could not be written is tried again.
AGAIN_S = 0.5

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_encode = JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False).encode


def line_of(fact: dict[str, Any]) -> bytes:
    """A fact as it is written and sent."""
    return _encode(fact).encode("utf-8", "surrogatepass") + b"\n"


class Attempt:
    """What the keeper knows of one attempt."""

    __slots__ = (
        "asked",
        "cgroup",
        "ended",
        "keep",
        "note",
        "owner",
        "phase",
        "pid",
        "pidfd",
        "start",
        "started_s",
        "suspended",
        "uid",
    )

    def __init__(self, uid: str, keep: dict[str, Any], cgroup: str) -> None:
        self.uid = uid
        self.keep = keep
        self.cgroup = cgroup
        #: The id of its user; -1: not known yet.
        self.owner = -1
        self.phase = INTENT
        self.pid = 0
        self.start = 0
        self.started_s = 0.0
        self.note = ""
        #: It was sent a signal that it may answer in its own time: see ``reap``.
        self.asked = False
        #: Its processes were stopped where they are, and not told to go on since.
        self.suspended = False
        #: Watches an adopted process, which is no child of ours; -1 for children.
        self.pidfd = -1
        self.ended: dict[str, Any] | None = None

    @property
    def grace_s(self) -> float:
        return float(self.keep.get("grace_s", 30.0))

    def intent(self) -> dict[str, Any]:
        return {"ev": "intent", "uid": self.uid, "keep": self.keep, "cgroup": self.cgroup}

    def started(self) -> dict[str, Any]:
        return {
            "ev": "started",
            "uid": self.uid,
            "pid": self.pid,
            "start": self.start,
            "started_s": self.started_s,
        }

    def noted(self) -> dict[str, Any]:
        return {"ev": "noted", "uid": self.uid, "note": self.note}

    def stopped(self) -> dict[str, Any]:
        return {"ev": "stopped", "uid": self.uid, "on": self.suspended}

    def end(
        self,
        now_s: float,
        *,
        code: int | None = None,
        signal: int = 0,
        error: str = "",
        fault: str = "",
        lost: bool = False,
        maxrss_kb: int = 0,
        cpu_s: float = 0.0,
    ) -> None:
        """Fix how it ended. Reported only once nothing of it is left.

        ``lost`` says that it may have run, only nobody saw how it ended; ``fault`` for whose sake
        there never was a process: the job's or the node's.
        """
        self.ended = {
            "ev": "ended",
            "uid": self.uid,
            "started_s": self.started_s,
            "ended_s": now_s,
            "code": code,
            "signal": signal,
            "error": error,
            "fault": fault,
            "note": self.note,
            "lost": lost,
            "maxrss_kb": maxrss_kb,
            "cpu_s": cpu_s,
        }

    def summary(self) -> dict[str, Any]:
        """Its entry in the full list for an agent that connects."""
        if self.phase == ENDED and self.ended is not None:
            return {**self.ended, "phase": ENDED, "keep": self.keep}
        phase = STARTING if self.phase == INTENT else RUNNING
        known = {"phase": phase, "keep": self.keep, "note": self.note}
        return {**self.started(), **known, "suspended": self.suspended}

    def facts(self) -> list[dict[str, Any]]:
        """The lines that say all of this again, for a fresh journal."""
        facts = [self.intent()]
        if self.pid:
            facts.append(self.started())
        if self.note:
            facts.append(self.noted())
        if self.suspended:
            facts.append(self.stopped())
        if self.ended is not None:
            facts.append(self.ended)
        return facts


class Journal:
    """Appends facts; a line is whole or, when the disk was full, continued by the next write."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        self._fd = -1
        self._unwritten = bytearray()

    def wait_s(self) -> float | None:
        """When to try again to write facts that are known to this process alone."""
        return AGAIN_S if self._unwritten else None

    def append(self, line: bytes) -> None:
        self._unwritten += line

    def flush(self) -> str:
        """Write what was appended. Gives the reason when not all of it could be written."""
        while self._unwritten:
            try:
                count = os.write(self._fd, self._unwritten)
            except OSError as error:
                return error.strerror or "write failed"
            self.size += count
            del self._unwritten[:count]
        return ""

    def compact(self, above: int, boot: str, attempts: dict[str, Attempt]) -> str:
        """Write it anew once it has grown by ``above`` bytes. Gives the reason if it cannot be."""
        if self.size > above + 1024 * len(attempts):
            try:
                self.rewrite(boot, attempts.values())
            except OSError as error:
                return error.strerror or "write failed"
        return ""

    def go_on(self, boot: str) -> None:
        """Without room for a fresh file: what comes is put behind what is there."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(self.path, flags, 0o600)
        self.size = os.fstat(self._fd).st_size
        # The last line may be torn.
        self.append(b"\n" + self._first(boot))

    def _first(self, boot: str) -> bytes:
        return line_of({"ev": "boot", "id": boot, "folder": _folder_of(self.path)})

    def rewrite(self, boot: str, attempts: Iterable[Attempt]) -> None:
        """Start a fresh file that holds these attempts only, and put it in the old one's place."""
        self.flush()
        fresh = self.path + ".new"
        body = self._first(boot) + b"".join(
            line_of(fact) for attempt in attempts for fact in attempt.facts()
        )
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        fd = os.open(fresh, flags, 0o600)
        try:
            rest = memoryview(body)
            while rest:
                rest = rest[os.write(fd, rest) :]
            os.fsync(fd)
            os.rename(fresh, self.path)
        except OSError:
            os.close(fd)
            raise
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd
        self._unwritten.clear()
        self.size = len(body)


def replay(path: str, boot: str) -> tuple[dict[str, Attempt], set[str]]:
    """Read a journal back: the attempts, and the uids whose processes died with an older boot.

    In a copy of a folder there is nothing of ours: those attempts have a keeper.
    """
    attempts: dict[str, Attempt] = {}
    older: set[str] = set()
    same_boot, folder = True, _folder_of(path)
    try:
        with open(path, "rb") as journal:
            lines = journal.read().split(b"\n")
    except FileNotFoundError:
        return attempts, older
    for line in lines:
        try:
            fact = loads(line)
            kind = fact["ev"]
            if kind == "boot":
                same_boot = fact["id"] == boot
                if same_boot and fact.get("folder", folder) != folder:
                    return {}, set()
            else:
                _take(attempts, kind, fact)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue  # the torn last line of a keeper that was killed, or a damaged one
        if kind == "intent" and not same_boot:
            older.add(fact["uid"])
    return attempts, older & attempts.keys()


def _folder_of(path: str) -> int:
    """The number of a file's folder: a copy of the folder has another one."""
    return os.stat(os.path.dirname(path)).st_ino


def _take(attempts: dict[str, Attempt], kind: str, fact: dict[str, Any]) -> None:
    if kind == "forget":
        for uid in fact["uids"]:
            attempts.pop(uid, None)
        return
    uid = fact["uid"]
    if kind == "intent":
        attempts[uid] = Attempt(uid, fact["keep"], fact["cgroup"])
        return
    attempt = attempts[uid]
    if kind == "started":
        attempt.pid, attempt.start = fact["pid"], fact["start"]
        attempt.started_s = fact["started_s"]
        attempt.phase = RUNNING
    elif kind == "noted":
        attempt.note = fact["note"]
    elif kind == "stopped":
        attempt.suspended = fact["on"]
    elif kind == "ended":
        attempt.ended = fact
        attempt.phase = ENDED
