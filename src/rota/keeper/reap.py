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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.keeper.asides import Asides
    from rota.keeper.journal import CLEARING, ENDED, INTENT, RUNNING, Attempt
    from rota.keeper.origins import Origins, Orphan, still_that_one
    from rota.keeper.processes import (
        Process,
        children_of_self,
        group_by_owner,
        look,
        may_stem,
        real_user,
        snapshot,
    )
    from rota.keeper.signals import REQUESTS, deliver, kill, switch
else:
    from keeper.asides import Asides
    from keeper.journal import CLEARING, ENDED, INTENT, RUNNING
    from keeper.origins import Origins, Orphan, still_that_one
    from keeper.processes import (
        children_of_self,
        group_by_owner,
        look,
        may_stem,
        real_user,
        snapshot,
    )
    from keeper.signals import REQUESTS, deliver, kill, switch

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

_PEEK = os.WEXITED | os.WNOHANG | os.WNOWAIT


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
        self._pid, self._session = os.getpid(), os.getsid(0)
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
        #: Processes that may be of strange attempts, as long as one of those is being cleared up.
        self._strangers: dict[int, Orphan] = {}
        self._sweep_due = False
        self.asides = Asides(poll, self.own)
        self._origins = Origins(attempts, self.alive, self.asides, self._heard)

    def watch_child(self, attempt: Attempt) -> None:
        self.alive[attempt.uid] = attempt
        self._mains[attempt.pid] = attempt.uid

    def adopt(
        self, attempts: Iterable[Attempt], say: Callable[[str], None], unknown: str = UNKNOWN
    ) -> None:
        """After a restart: find again what is on record as alive, or may be."""
        waiting = [item for item in attempts if item.phase in (INTENT, RUNNING)]
        # One may have been written down in haste, without when it began.
        found = self._origins.find([one for one in waiting if one.phase == INTENT or not one.start])
        for attempt in waiting:
            self._strange.add(attempt.uid)
            process = next(iter(found.get(attempt.uid, ())), None)
            if attempt.phase == RUNNING:
                process = still_that_one(attempt, found.get(attempt.uid, ()))
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
        attempt.phase, attempt.owner = RUNNING, real_user(process.pid)
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
                kill(-pid, signal.SIGKILL)
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
            switch(attempt.cgroup, "kill", b"1")
        self.clearing[attempt.uid] = until_s + CLEARING_S_MAX

    def _lose_patience(self, attempt: Attempt) -> None:
        if self._lenient.pop(attempt.uid, None) is not None:
            self.clearing[attempt.uid] = time.monotonic() + CLEARING_S_MAX
            if attempt.cgroup:
                switch(attempt.cgroup, "kill", b"1")

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
        known = self._mains.keys() | self._orphans.keys()
        looked = {pid: look(pid) for pid in children if pid not in known}
        if self.unborn and looked:
            # Of those that were born, all that have left our session have said so.
            self.hear()
        for pid in children:
            uid = self._mains.get(pid)
            if uid is not None and self._attempts[uid].phase in (INTENT, RUNNING):
                continue
            orphan = self._orphans.get(pid)
            if orphan is None:
                process = looked[pid] if pid in looked else look(pid)
                if process is None or (uid is None and process.session == self._session):
                    continue  # It is being born.
                orphan = self._origins.of(process, self._mains)
            orphans[pid] = orphan
            owners = [orphan.owner] if orphan.owner else orphan.suspects
            if self._origins.is_left(orphan):
                if not any(uid in self._lenient for uid in owners):
                    kill(pid, signal.SIGKILL)
                remains.update(owners)
            elif not orphan.owner and any(map(self._origins.is_over, owners)):
                remains |= self._ask(orphan)
        self._orphans = orphans
        self._origins.flush()
        return remains

    def _ask(self, orphan: Orphan) -> set[str]:
        """Nothing that it may be of is told to be over before it has answered, or never will."""
        self._origins.ask(orphan)
        return set() if orphan.heard else set(orphan.suspects)

    def _heard(self, orphan: Orphan) -> None:
        """Its memory has said whose it is, or nothing."""
        self._sweep_due = True
        late, orphan.late = orphan.late, []
        if orphan.owner and late:
            table = snapshot()
            process = table.get(orphan.pid)
            if process and process.start == orphan.start:
                members = group_by_owner(table, {}, {orphan.pid: orphan.owner})[orphan.owner]
                for attempt, number in late:
                    if attempt.uid == orphan.owner and attempt.phase != ENDED:
                        deliver(attempt, 0, members, table, number)

    def _sweep_strange(self) -> set[str]:
        """What strange attempts leave behind does not come to us: search for it."""
        remains: set[str] = set()
        table = snapshot()
        mains = self._true_mains(table)
        waiting = [self._attempts[uid] for uid in self._strange & self.clearing.keys()]
        strangers: dict[int, Orphan] = {}
        for process in table.values():
            if process.zombie or process.pid == self._pid or process.pid in self.own:
                continue
            uid = mains.get(process.session)
            if not uid and any(process.start >= one.start for one in waiting):
                stranger = self._strangers.get(process.pid)
                if stranger is None or stranger.start != process.start:
                    stranger = Orphan(process, real_user(process.pid))
                strangers[process.pid] = stranger
                younger = [one for one in waiting if process.start >= one.start]
                may_be = [one.uid for one in younger if may_stem(stranger.user, one.owner)]
                stranger.suspects = may_be
                if not stranger.owner and stranger.suspects:
                    remains |= self._ask(stranger)
                uid = stranger.owner
            if uid not in self._strange or uid not in self.clearing:
                continue
            if process.start >= self._attempts[uid].start:
                if uid not in self._lenient:
                    kill(process.pid, signal.SIGKILL)
                remains.add(uid)
        self._strangers = strangers
        self._origins.flush()
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
        roots = self._roots(table, targets)
        mains = self._true_mains(table)
        owned = group_by_owner(table, mains, roots)
        moving = 0
        for attempt, number in targets:
            members = [pid for pid in owned.get(attempt.uid, ()) if pid != self._pid]
            group = attempt.pid if attempt.phase == RUNNING and attempt.pid in mains else 0
            moving += sum(not (table[pid].stopped or table[pid].zombie) for pid in members)
            self._prepare(attempt, number)
            deliver(attempt, group, members, table, number)
            if number not in (signal.SIGSTOP, signal.SIGKILL) and attempt.cgroup:
                switch(attempt.cgroup, "freeze", b"0")
        return moving

    def _roots(
        self, table: dict[int, Process], targets: list[tuple[Attempt, int]]
    ) -> dict[int, str]:
        """Processes that left the tree of their attempt, and the attempts."""
        told: dict[int, set[str]] = {}
        for attempt, number in targets:
            told.setdefault(number, set()).add(attempt.uid)
        roots: dict[int, str] = {}
        if self.unborn:
            self.hear()
        for process in table.values():
            # Strays of children of ours come to us, strays of adopted ones to the first process.
            stray = process.parent == self._pid or (self._adopted and process.parent == 1)
            is_born = process.session != self._session
            if not stray or not is_born or process.pid in self._mains or process.pid in self.own:
                continue
            orphan = self._orphans.get(process.pid)
            if orphan is None or orphan.start != process.start:
                orphan = self._orphans[process.pid] = self._origins.of(process, self._mains)
            if orphan.owner:
                roots[process.pid] = orphan.owner
            # Of our children it must be one of those.
            elif process.parent == self._pid and any(
                uids.issuperset(orphan.suspects) for uids in told.values()
            ):
                roots[process.pid] = next(iter(orphan.suspects), "")
            elif any(uids.intersection(orphan.suspects) for uids in told.values()):
                orphan.late += [] if orphan.heard else targets
                self._origins.ask(orphan)
        self._origins.flush()
        return roots

    def _prepare(self, attempt: Attempt, number: int) -> None:
        """What a signal means beyond itself."""
        if number == signal.SIGKILL:
            attempt.asked = False
            self._lose_patience(attempt)
            if attempt.cgroup:
                switch(attempt.cgroup, "kill", b"1")
        elif number in REQUESTS:
            attempt.asked = True
        elif number == signal.SIGSTOP and attempt.cgroup:
            # At once for all, also for what is being started just now.
            switch(attempt.cgroup, "freeze", b"1")

    def _true_mains(self, table: dict[int, Process]) -> dict[int, str]:
        """Without first processes that have gone and whose number somebody else has now."""
        return {
            pid: uid
            for pid, uid in self._mains.items()
            if pid not in table or self._attempts[uid].start in (0, table[pid].start)
        }
