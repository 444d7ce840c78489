"""Whose a process is that came to us without a word: an orphan, or one of before our time.

Its session says so, or its group; else only the environment that it began with, which lies in the
memory of its user: see ``asides``. What stands there is the user's word, and believed as far as the
user of the process goes. The keeper runs this file without the package around it.
"""

from __future__ import annotations

import os
import pwd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rota.keeper.asides import Asides
    from rota.keeper.journal import CLEARING, ENDED, Attempt
    from rota.keeper.processes import (
        Process,
        attempt_uid,
        groups_of,
        look,
        may_stem,
        pids_in,
        real_user,
        snapshot,
    )
else:
    from keeper.journal import CLEARING, ENDED
    from keeper.processes import (
        attempt_uid,
        groups_of,
        look,
        may_stem,
        pids_in,
        real_user,
        snapshot,
    )

#: How long a keeper that begins looks for what its predecessor was about to start.
SEARCH_S = 3.0


class Orphan:
    """A process that we did not start. Without an owner it may belong to any of the suspects."""

    __slots__ = ("asked", "heard", "late", "owner", "pid", "start", "suspects", "user")

    def __init__(self, process: Process, user: int = -1) -> None:
        self.pid = process.pid
        self.start = process.start
        self.user = user
        self.owner = ""
        self.suspects: list[str] = []
        #: Its memory is being read, or was.
        self.asked = self.heard = False
        #: Signals for attempts of which it may be.
        self.late: list[tuple[Attempt, int]] = []


class Origins:
    """Finds the attempts of processes; asks aside what has to be asked."""

    def __init__(
        self,
        attempts: Mapping[str, Attempt],
        alive: Mapping[str, Attempt],
        asides: Asides,
        heard: Callable[[Orphan], None],
    ) -> None:
        """``heard`` is told of orphans whose memory was read, whatever it said."""
        self._attempts = attempts
        self._alive = alive
        self._asides = asides
        self._heard = heard
        self._to_ask: dict[int, list[Orphan]] = {}

    def of(self, process: Process, mains: Mapping[int, str]) -> Orphan:
        """What can be said of it at once."""
        if owner := mains.get(process.session):
            orphan = Orphan(process)
            orphan.owner = owner
            return orphan
        orphan = Orphan(process, real_user(process.pid))
        known = [one for one in self._alive.values() if may_stem(orphan.user, one.owner)]
        known = [one for one in known if one.start <= process.start]
        groups = groups_of(process.pid) if any(one.cgroup for one in known) else ()
        for one in known:
            if one.cgroup and os.path.basename(one.cgroup) in groups:
                orphan.owner = one.uid
        orphan.suspects = [one.uid for one in known]
        return orphan

    def is_over(self, uid: str) -> bool:
        return uid not in self._attempts or self._attempts[uid].phase in (CLEARING, ENDED)

    def is_left(self, orphan: Orphan) -> bool:
        """Whether everything that it may belong to is over."""
        return all(map(self.is_over, [orphan.owner] if orphan.owner else orphan.suspects))

    def ask(self, orphan: Orphan) -> None:
        """Have its memory read; goes out with the next ``flush``."""
        if not orphan.asked:
            orphan.asked = True
            self._to_ask.setdefault(orphan.user, []).append(orphan)

    def flush(self) -> None:
        asked, self._to_ask = self._to_ask, {}
        for user, orphans in asked.items():
            self._read(user, orphans)

    def _read(self, user: int, orphans: list[Orphan]) -> None:
        def heard(body: bytes, hung: bool) -> None:
            words = body.decode("utf-8", "replace").split("\0")[:-1]
            for orphan, uid in zip(orphans, words, strict=False):
                attempt = self._attempts.get(uid)
                if attempt is None or may_stem(user, attempt.owner):
                    orphan.owner = uid
            # Of the one that did not answer nothing is known, and those behind it are asked again.
            done = len(words) + 1 if hung else len(words)
            if hung and done < len(orphans):
                self._read(user, orphans[done:])
            elif done < len(orphans):
                # There was no process that could ask: with the next ``flush``.
                self._to_ask.setdefault(user, []).extend(orphans[done:])
            for orphan in orphans[:done]:
                orphan.heard = True
                self._heard(orphan)

        pids = [orphan.pid for orphan in orphans]
        self._asides.ask(user, (attempt_uid(pid).encode() + b"\0" for pid in pids), heard)

    def find(self, sought: Iterable[Attempt]) -> dict[str, list[Process]]:
        """The processes of attempts of which only the intent is known, the oldest first.

        Waits for the answers, for a moment: nothing else can be done before.
        """
        users = {one.uid: one.keep.get("user") for one in sought}
        if not users:
            return {}
        table = {pid: one for pid, one in snapshot().items() if not one.zombie}
        found: dict[str, list[Process]] = {}
        by_user: dict[int, list[int]] = {}
        for pid in table:
            by_user.setdefault(real_user(pid), []).append(pid)
        for one in sought:
            found[one.uid] = [table[pid] for pid in pids_in(one.cgroup) if pid in table]

        def ask(user: int, pids: list[int]) -> None:
            def heard(body: bytes, hung: bool) -> None:
                words = body.decode("utf-8", "replace").split("\0")[:-1]
                for pid, uid in zip(pids, words, strict=False):
                    if uid:
                        found[uid].append(table[pid])
                if hung and (behind := pids[len(words) + 1 :]):
                    ask(user, behind)

            self._asides.ask(user, _claims(user, pids, users), heard)

        for user, pids in by_user.items():
            ask(user, pids)
        self._asides.settle(SEARCH_S)
        return {uid: sorted(some, key=lambda one: one.start) for uid, some in found.items()}


def _claims(user: int, pids: list[int], users: Mapping[str, str | None]) -> Iterator[bytes]:
    """In a child: of which of these attempts each of a user's processes is, and may be."""
    for pid in pids:
        uid = attempt_uid(pid)
        ours = uid in users and _is_user(user, users[uid])
        yield (uid.encode() if ours else b"") + b"\0"


def _is_user(user: int, name: str | None) -> bool:
    """None: nobody knows who it was. Root is on the way to become another; who is not, cannot."""
    if user == 0 or name is None or os.geteuid() != 0:
        return True
    try:
        return user == pwd.getpwnam(name).pw_uid
    except KeyError:
        return name == str(user)


def still_that_one(attempt: Attempt, found: Iterable[Process]) -> Process | None:
    """The process of an attempt, if it is still that one: it began then, or it is one of these."""
    process = look(attempt.pid)
    if process is None or process.zombie:
        return None
    if not attempt.start and any(one.pid == attempt.pid for one in found):
        attempt.start = process.start
    return process if process.start == attempt.start else None
