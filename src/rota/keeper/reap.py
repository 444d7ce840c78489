"""Ends: reaping children, killing what they left behind, watching adopted processes.

The keeper is a subreaper, so whatever an attempt leaves behind becomes the keeper's own child.
An attempt counts as ended once its first process has gone *and* nothing of it is left, so that
the next job finds the GPU memory and the ports free. What is left is killed at once, unless the
attempt was asked to end: then the rest may use the grace to finish, as a program does whose
shell died first. The keeper runs this file without the package around it.
"""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.keeper.journal import CLEARING, ENDED, INTENT, RUNNING, Attempt
    from rota.keeper.processes import (
        Process,
        attempt_uid,
        children_of_self,
        first_of,
        group_by_owner,
        look,
        may_stem,
        real_user,
        snapshot,
    )
else:
    from keeper.journal import CLEARING, ENDED, INTENT, RUNNING, Attempt
    from keeper.processes import (
        attempt_uid,
        children_of_self,
        first_of,
        group_by_owner,
        look,
        may_stem,
        real_user,
        snapshot,
    )

#: How long an end waits for killed processes to go: one that hangs in the kernel may never.
CLEARING_S_MAX = 5.0
CLEARING_POLL_S, LENIENT_POLL_S = 0.05, 0.25
LOST = "exit code lost: keeper was killed"
#: Its process may have come and gone before anybody wrote its number down.
UNKNOWN = "nobody knows whether it ran: keeper was killed while it started"
NOT_FOUND = "lost: the keeper's journal was lost, and no process of it was found"
REBOOTED = "lost: the machine restarted"
#: When a process began that was gone before anybody looked: the next with its number is another.
UNSEEN = -1

#: A tree that keeps growing while it is being stopped is looked at so often.
STOP_LOOKS_MAX = 5

#: Signals that ask a program to end.
_REQUESTS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
_PEEK = os.WEXITED | os.WNOHANG | os.WNOWAIT


class Orphan:
    """A child that we did not start. Without an owner it may belong to any of the suspects."""

    __slots__ = ("owner", "suspects")

    def __init__(self, owner: str, suspects: list[str]) -> None:
        self.owner = owner
        self.suspects = suspects


class Reaper:
    """Knows which processes belong to which attempt, and when nothing of one is left."""

    def __init__(
        self,
        attempts: dict[str, Attempt],
        poll: select.epoll,
        report_end: Callable[[Attempt], None],
    ) -> None:
        self._attempts = attempts
        self._poll = poll
        self._report_end = report_end
        self._pid = os.getpid()
        #: Children that belong to no attempt: starters. Starts whose child we do not know yet.
        self.own: set[int] = set()
        self.unborn: set[int] = set()
        #: Takes what children have reported; see ``starting``.
        self.hear: Callable[[], None] = lambda: None
        #: Attempts whose first process lives, and those with remains, until they are reported.
        self.alive: dict[str, Attempt] = {}
        self.clearing: dict[str, float] = {}
        #: Until when the rest of an attempt that was asked to end may finish by itself.
        self._lenient: dict[str, float] = {}
        self._mains: dict[int, str] = {}
        self._adopted: dict[int, Attempt] = {}
        #: Attempts whose first process was started by an earlier keeper.
        self._strange: set[str] = set()
        self._orphans: dict[int, Orphan] = {}
        self._sweep_due = False

    def watch_child(self, attempt: Attempt) -> None:
        self.alive[attempt.uid] = attempt
        self._mains[attempt.pid] = attempt.uid

    def adopt(
        self, attempts: Iterable[Attempt], say: Callable[[str], None], unknown: str = UNKNOWN
    ) -> None:
        """After a restart: find again what is on record as alive, or may be."""
        waiting = [item for item in attempts if item.phase in (INTENT, RUNNING)]
        found = first_of({item.uid: item.cgroup for item in waiting if item.phase == INTENT})
        for attempt in waiting:
            self._strange.add(attempt.uid)
            process = found.get(attempt.uid)
            if attempt.phase == RUNNING:
                process = _same(attempt)
            if process is None or not self._watch_adopted(attempt, process):
                attempt.end(time.time(), error=LOST if attempt.pid else unknown, lost=True)
                self.begin_clearing(attempt)
            else:
                say(f"adopted {attempt.uid}, pid {process.pid}")

    def _watch_adopted(self, attempt: Attempt, process: Process) -> bool:
        try:
            attempt.pidfd = os.pidfd_open(process.pid)
        except OSError:
            return False
        again = look(process.pid)
        if again is None or again.start != process.start:
            os.close(attempt.pidfd)
            attempt.pidfd = -1
            return False
        if not attempt.pid:
            attempt.pid, attempt.start, attempt.started_s = process.pid, process.start, time.time()
        attempt.phase = RUNNING
        self.watch_child(attempt)
        self._adopted[attempt.pidfd] = attempt
        self._poll.register(attempt.pidfd, select.EPOLLIN)
        return True

    def take_adopted(self, pidfd: int) -> None:
        """An adopted process has ended; its status went to its parent."""
        attempt = self._adopted.pop(pidfd, None)
        if attempt is None:
            return
        self._poll.unregister(pidfd)
        os.close(pidfd)
        attempt.end(time.time(), error=LOST, lost=True)
        self.begin_clearing(attempt)

    def reap(self) -> None:
        """Take every child that has ended."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, _PEEK)
            except ChildProcessError:
                break
            if ended is None:
                break
            pid = ended.si_pid
            uid = self._main_of(pid)
            if uid is not None and not self._attempts[uid].asked:
                # Before its status is taken: until then the number cannot be used again.
                _kill(-pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            self._sweep_due = True
            if uid is None:
                self._orphans.pop(pid, None)
                self.own.discard(pid)
                continue
            attempt = self._attempts[uid]
            attempt.start = attempt.start or UNSEEN
            if attempt.ended is not None:
                continue  # It never came to its program; that is told already.
            attempt.end(
                time.time(),
                code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
                signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
                maxrss_kb=usage.ru_maxrss,
                cpu_s=round(usage.ru_utime + usage.ru_stime, 6),
            )
            self.begin_clearing(attempt)

    def _main_of(self, pid: int) -> str | None:
        """The attempt whose first process it is. What a child reported, it did before it ended."""
        uid = self._mains.get(pid)
        if self._attempts[uid].phase == INTENT if uid is not None else self.unborn:
            self.hear()
        return self._mains.get(pid)

    def begin_clearing(self, attempt: Attempt) -> None:
        """How it ended is known; it is told once nothing of it is left."""
        attempt.phase = CLEARING
        self.alive.setdefault(attempt.uid, attempt)
        self._sweep_due = True
        until_s = time.monotonic()
        if attempt.asked:
            until_s += attempt.grace_s
            self._lenient[attempt.uid] = until_s
        elif attempt.cgroup:
            _switch(attempt.cgroup, "kill", b"1")
        self.clearing[attempt.uid] = until_s + CLEARING_S_MAX

    def _lose_patience(self, attempt: Attempt) -> None:
        if self._lenient.pop(attempt.uid, None) is not None:
            self.clearing[attempt.uid] = time.monotonic() + CLEARING_S_MAX
            if attempt.cgroup:
                _switch(attempt.cgroup, "kill", b"1")

    def patience_s(self) -> float:
        """How long the loop may sleep while something is being cleared up."""
        return CLEARING_POLL_S if len(self.clearing) > len(self._lenient) else LENIENT_POLL_S

    def clear_up(self) -> None:
        """Kill what ended attempts left behind; report those of which nothing is left."""
        if not self.clearing and not self._sweep_due:
            return
        self._sweep_due = False
        if self._lenient:
            now_s = time.monotonic()
            for uid in [uid for uid, until_s in self._lenient.items() if now_s >= until_s]:
                self._lose_patience(self._attempts[uid])
        remains = self._sweep()
        if not self._strange.isdisjoint(self.clearing):
            remains |= self._sweep_strange()
        now_s = time.monotonic()
        for uid in [
            uid for uid, until_s in self.clearing.items() if uid not in remains or now_s >= until_s
        ]:
            self._finish(self._attempts[uid])

    def _finish(self, attempt: Attempt) -> None:
        del self.clearing[attempt.uid]
        self._lenient.pop(attempt.uid, None)
        self._strange.discard(attempt.uid)
        del self.alive[attempt.uid]
        if self._mains.get(attempt.pid) == attempt.uid:
            del self._mains[attempt.pid]
        self._report_end(attempt)

    def _sweep(self) -> set[str]:
        """Look at our children: kill orphans of ended attempts. Gives the uids that have some."""
        remains: set[str] = set()
        orphans: dict[int, Orphan] = {}
        children = [pid for pid in children_of_self(self._pid) if pid not in self.own]
        if self.unborn and not all(pid in self._mains for pid in children):
            self.hear()
        for pid in children:
            uid = self._mains.get(pid)
            if uid is not None and self._attempts[uid].phase == RUNNING:
                continue
            orphan = self._orphans.get(pid) or self._attribute(pid)
            if not orphan.owner and self.unborn:
                continue  # It may be one that is being born: looked at again.
            orphans[pid] = orphan
            if self._is_over(orphan):
                owners = [orphan.owner, *orphan.suspects]
                if not any(uid in self._lenient for uid in owners):
                    _kill(pid, signal.SIGKILL)
                remains.update(owners)
        self._orphans = orphans
        return remains

    def _is_over(self, orphan: Orphan) -> bool:
        names = [orphan.owner] if orphan.owner else orphan.suspects
        return all(
            uid not in self._attempts or self._attempts[uid].phase in (CLEARING, ENDED)
            for uid in names
        )

    def _attribute(self, pid: int) -> Orphan:
        """Whose is it? Its session says, or its environment; else all that are older than it."""
        process = look(pid)
        if process is None:
            return Orphan("", [])
        if owner := self._mains.get(process.session) or self._marked(pid):
            return Orphan(owner, [])
        user, older = real_user(pid), process.start
        known = [item for item in self.alive.values() if may_stem(user, item.owner)]
        return Orphan("", [item.uid for item in known if item.start <= older])

    def _marked(self, pid: int) -> str:
        """The attempt that its environment names, unless that is another user's."""
        attempt = self._attempts.get(uid := attempt_uid(pid))
        return "" if attempt and not may_stem(real_user(pid), attempt.owner) else uid

    def _sweep_strange(self) -> set[str]:
        """What strange attempts leave behind does not come to us: search for it."""
        remains = set()
        table = snapshot()
        mains = self._true_mains(table)
        for process in table.values():
            if process.zombie or process.pid == self._pid:
                continue
            uid = mains.get(process.session) or attempt_uid(process.pid)
            if uid not in self._strange or uid not in self.clearing:
                continue
            if process.start >= self._attempts[uid].start:
                if uid not in self._lenient:
                    _kill(process.pid, signal.SIGKILL)
                remains.add(uid)
        return remains

    def signal_trees(self, targets: Iterable[tuple[Attempt, int]]) -> None:
        """To the group at once, then to everything else that belongs to the attempt."""
        self._signal_once(targets := list(targets))
        # What was started while the others were being stopped has to be stopped as well.
        for _ in range(STOP_LOOKS_MAX):
            growing = [one for one in targets if one[1] == signal.SIGSTOP and not one[0].cgroup]
            if not growing or self._signal_once(growing) == 0:
                return

    def _signal_once(self, targets: list[tuple[Attempt, int]]) -> int:
        """Gives how many processes that were not stopped yet were told to."""
        if not targets:
            return 0
        table = snapshot()
        roots = {pid: orphan.owner for pid, orphan in self._orphans.items() if orphan.owner}
        for process in table.values():
            # Strays of children of ours come to us, strays of adopted ones to the first process.
            stray = process.parent == self._pid or (self._adopted and process.parent == 1)
            known = process.pid in self._mains or process.pid in self.own
            if stray and not known and process.pid not in roots:
                roots[process.pid] = self._marked(process.pid)
        mains = self._true_mains(table)
        owned = group_by_owner(table, mains, roots)
        moving = 0
        for attempt, number in targets:
            members = [pid for pid in owned.get(attempt.uid, ()) if pid != self._pid]
            group = attempt.pid if attempt.phase == RUNNING and attempt.pid in mains else 0
            moving += sum(not (table[pid].stopped or table[pid].zombie) for pid in members)
            self._prepare(attempt, number)
            _send(group, members, table, number)
            if number in _REQUESTS or (attempt.asked and number != signal.SIGKILL):
                # A stopped process would not hear it.
                _send(group, members, table, signal.SIGCONT)
            if number not in (signal.SIGSTOP, signal.SIGKILL) and attempt.cgroup:
                _switch(attempt.cgroup, "freeze", b"0")
        return moving

    def _prepare(self, attempt: Attempt, number: int) -> None:
        """What a signal means beyond itself."""
        if number == signal.SIGKILL:
            attempt.asked = False
            self._lose_patience(attempt)
            if attempt.cgroup:
                _switch(attempt.cgroup, "kill", b"1")
        elif number in _REQUESTS:
            attempt.asked = True
        elif number == signal.SIGSTOP and attempt.cgroup:
            # At once for all, also for what is being started just now.
            _switch(attempt.cgroup, "freeze", b"1")

    def _true_mains(self, table: dict[int, Process]) -> dict[int, str]:
        """Without first processes that have gone and whose number somebody else has now."""
        return {
            pid: uid
            for pid, uid in self._mains.items()
            if pid not in table or self._attempts[uid].start in (0, table[pid].start)
        }


def _same(attempt: Attempt) -> Process | None:
    """The process of an attempt, if it is still that one.

    It may have been written down in haste, without when it began: then its environment says so.
    """
    process = look(attempt.pid)
    if process is None or process.zombie:
        return None
    if not attempt.start and attempt_uid(attempt.pid) == attempt.uid:
        attempt.start = process.start
    return process if process.start == attempt.start else None


def _send(group: int, members: list[int], table: dict[int, Process], number: int) -> None:
    """To the group in one call, so that none of it can slip away; to all others one by one."""
    if group:
        _kill(-group, number)
    for pid in members:
        if not group or table[pid].group != group:
            _kill(pid, number)


def _kill(pid: int, number: int) -> None:
    """A process, or with a negative number a group. 0, 1 and -1 would mean far more than that."""
    if abs(pid) <= 1:
        return
    with suppress(OSError):
        os.kill(pid, number)


def _switch(cgroup: str, name: str, value: bytes) -> None:
    """``kill`` and ``freeze`` reach all processes of a group at once, where the kernel has them."""
    with suppress(OSError), open(f"{cgroup}/cgroup.{name}", "wb", buffering=0) as switch:
        switch.write(value)
