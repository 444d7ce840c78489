"""Attempts on their way from an order to their program. The keeper waits for none of them.

An order goes to a starter, which bears a child; the child reports its birth, then either fails
with a reason or becomes the program. Whatever it waits for meanwhile, a file system or a file that
somebody holds, is its own affair: after a while it is killed, and its start has failed. When there
is no process to be had the order is held and tried again. The keeper runs this file without the
package around it.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from errno import EAGAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from rota.keeper.failures import NODE, SpawnFailed, failure_of, no_process, too_late
    from rota.keeper.journal import INTENT, Attempt
    from rota.keeper.lease import CUT_OFF, Lease
    from rota.keeper.link import Link, StarterGone, Starters
    from rota.keeper.means import Means
    from rota.keeper.packed import ACCOUNT, BORN, EXECUTED, FAILED, UserNumbers, own_files, pack
    from rota.keeper.processes import look
    from rota.keeper.reap import Reaper
    from rota.keeper.spares import Spares
else:
    from keeper.failures import NODE, SpawnFailed, failure_of, no_process, too_late
    from keeper.journal import INTENT
    from keeper.lease import CUT_OFF
    from keeper.link import StarterGone
    from keeper.packed import ACCOUNT, BORN, EXECUTED, FAILED, UserNumbers, own_files, pack
    from keeper.processes import look
    from keeper.spares import Spares

RETRY_S = 0.25
#: So long a report wakes nobody. A short job is over by then: its end wakes the keeper, once.
HEAR_S = 0.002
ENDED_EARLY = "told to end before it could start"
_USER_CACHE_S = 60.0
#: Signals that a process may get before its program has taken over.
_ENDING = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class ProcessStart:
    """One order, until its program has taken over. Without an attempt it is one more process."""

    __slots__ = ("attempt", "link", "number", "order", "pid", "sent_s", "signals", "since_s")

    def __init__(self, order: dict[str, Any], attempt: Attempt | None, now_s: float) -> None:
        self.order = order
        self.attempt = attempt
        self.since_s = now_s
        self.sent_s = now_s
        self.number = 0
        self.pid = 0
        self.link: Link | None = None
        #: Orders for the attempt that have to wait for its program.
        self.signals: list[dict[str, Any]] = []

    @property
    def told_to_end(self) -> bool:
        return any(order.get("signal", signal.SIGTERM) in _ENDING for order in self.signals)


class Listener:
    """Who is told of what becomes of starts: the keeper."""

    def __init__(
        self,
        executed: Callable[[Attempt], None],
        failed: Callable[[Attempt, SpawnFailed], None],
        again: Callable[[Iterable[dict[str, Any]]], None],
        say: Callable[[str], None],
    ) -> None:
        """``again`` gets orders that had to wait for a process, the last one first."""
        self.executed = executed
        self.failed = failed
        self.again = again
        self.say = say


class Starts:
    """All starts that are under way."""

    def __init__(
        self,
        starters: Starters,
        reaper: Reaper,
        lease: Lease,
        keeper: Listener,
        means: Means,
    ) -> None:
        self._folder = means.folder
        self._starters = starters
        self._reaper = reaper
        self._lease = lease
        self._keeper = keeper
        self._limit_s, self._hold_s = means.start_s, means.hold_s
        #: By number, in the order in which they were sent: the first one is the first too late.
        self._sent: dict[int, ProcessStart] = {}
        self._waiting: dict[str, ProcessStart] = {}
        self._held: list[ProcessStart] = []
        self._retry_s = 0.0
        self._batches: dict[Link, bytearray] = {}
        self._accounts: dict[str, UserNumbers] = {}
        self._last = 0
        self.spares = Spares()
        reaper.hear = self._take_all

    @property
    def busy(self) -> bool:
        return bool(self._sent or self._held)

    def begin(self, order: dict[str, Any], attempt: Attempt | None) -> None:
        """Goes out with the next ``flush``."""
        start = ProcessStart(order, attempt, time.monotonic())
        if attempt is not None:
            self._waiting[attempt.uid] = start
        self._place(start)

    def flush(self) -> None:
        batches, self._batches = self._batches, {}
        for link, orders in batches.items():
            # Those that it did not get are sent to the next one, once this one is known to be gone.
            with suppress(StarterGone):
                link.send(bytes(orders))

    def _place(self, start: ProcessStart) -> None:
        order = start.order
        try:
            if start.attempt is not None and self._lease.is_over:
                start.attempt.note = CUT_OFF
                raise SpawnFailed("the lease of this node is over", None, NODE)
            link = self._starters.link(terminal=bool(order.get("terminal")))
            account = self._account(order.get("user"))
            self._last += 1
            own = own_files(order, self._folder)
            if start.attempt is not None:
                self.spares.lend(order, own)
            body = pack(self._last, order, own, account)
        except SpawnFailed as failure:
            self._fail(start, failure)
        except OSError as error:
            self._hold(start, error.errno or EAGAIN)
        except Exception as error:
            # Whatever is wrong with the order: the parent of all jobs does not die of it.
            self._fail(start, SpawnFailed(f"cannot start: {type(error).__name__}: {error}"))
        else:
            start.number, start.link, start.pid = self._last, link, 0
            start.sent_s = time.monotonic()
            self._sent[start.number] = start
            self._reaper.unborn.add(start.number)
            self._batches.setdefault(link, bytearray()).extend(body)

    def _account(self, name: str | None) -> UserNumbers | None:
        """What a child found out about the user a short while ago; else the next one looks."""
        account = self._accounts.get(name) if name else None
        if account is not None and time.monotonic() - account.known_s > _USER_CACHE_S:
            return None
        return account

    def take(self, fd: int) -> bool:
        """Reports, if this is where a starter reports."""
        link = self._starters.links.get(fd)
        if link is None:
            return False
        reports, more = link.take()
        for number, kind, stage, value, rest in reports:
            start = self._sent.get(number)
            if start is not None:
                self._hear(start, kind, stage, value, rest)
            elif kind == BORN:
                # It was given up already.
                _kill(value)
        if not more:
            self._lose(link)
        return True

    def _take_all(self) -> None:
        for fd in list(self._starters.links):
            self.take(fd)

    def _hear(
        self, start: ProcessStart, kind: int, stage: int, value: int, rest: tuple[int, ...]
    ) -> None:
        if kind == BORN:
            self._born(start, value)
        elif kind == EXECUTED:
            self._executed(start)
        elif kind == FAILED:
            self._drop(start)
            own = own_files(start.order, self._folder)
            self._fail(start, failure_of(start.order, stage, value, rest[0], own))
        elif kind == ACCOUNT:
            uid, now_s = value & 0xFFFFFFFF, time.monotonic()
            self._accounts[start.order["user"]] = UserNumbers(uid, stage, rest, now_s)
        else:
            self._drop(start)
            self._hold(start, value)

    def _born(self, start: ProcessStart, pid: int) -> None:
        start.pid = pid
        self._reaper.unborn.discard(start.number)
        attempt = start.attempt
        if attempt is not None:
            attempt.pid, attempt.started_s = pid, time.time()
            self._reaper.watch_child(attempt)
            if start.told_to_end:
                self._pass_on(start)

    def _executed(self, start: ProcessStart) -> None:
        self._drop(start)
        if not start.pid:
            # Killed in its first moment.
            self._hold(start, EAGAIN)
            return
        attempt = start.attempt
        if attempt is not None:
            del self._waiting[attempt.uid]
            user = start.order.get("user")
            account = self._accounts.get(user) if user else None
            attempt.owner = account.uid if account else -1 if user else os.geteuid()
            if attempt.phase == INTENT:
                self._keeper.executed(attempt)
                self._pass_on(start)

    def _pass_on(self, start: ProcessStart) -> None:
        signals, start.signals = start.signals, []
        if signals:
            self._keeper.again(reversed(signals))

    def _drop(self, start: ProcessStart) -> None:
        del self._sent[start.number]
        self._reaper.unborn.discard(start.number)

    def _fail(self, start: ProcessStart, failure: SpawnFailed) -> None:
        attempt = start.attempt
        if attempt is None:
            self._keeper.say(f"nothing beside {start.order['uid']}: {failure.message}")
            return
        del self._waiting[attempt.uid]
        if attempt.phase == INTENT:
            self._keeper.failed(attempt, failure)

    def _hold(self, start: ProcessStart, number: int) -> None:
        """The machine's momentary state: to be tried again for a while."""
        held_s = time.monotonic() - start.since_s
        if start.told_to_end:
            self._fail(start, SpawnFailed(ENDED_EARLY, None, NODE))
            return
        if held_s >= self._hold_s or start.attempt is None:
            self._fail(start, no_process(number, held_s))
            return
        self._held.append(start)
        self._retry_s = time.monotonic() + RETRY_S

    def defers(self, order: dict[str, Any]) -> bool:
        """Whether a signal has to wait until there is a process that it can be sent to."""
        if not self._starters.listening:
            self._take_all()
        start = self._waiting.get(order["uid"])
        ends = order.get("signal", signal.SIGTERM) in _ENDING
        if start is None or (ends and start.pid):
            return False
        start.signals.append(order)
        if ends and start in self._held:
            self._held.remove(start)
            self._fail(start, SpawnFailed(ENDED_EARLY, None, NODE))
        return True

    def give_up(self, uids: Iterable[str]) -> None:
        """Starts that are not wanted any more: there is no program that needs a grace."""
        for uid in uids:
            order = {"op": "signal", "uid": uid, "signal": signal.SIGKILL}
            if uid in self._waiting and not self.defers(order):
                self._keeper.again((order,))

    def wait_s(self) -> float | None:
        """How long the loop may sleep."""
        until_s = self._retry_s if self._held else None
        for first in self._sent.values():
            patience_s = self._limit_s if self._starters.listening else HEAR_S
            first_s = first.sent_s + patience_s
            until_s = first_s if until_s is None else min(first_s, until_s)
            break
        return None if until_s is None else max(0.0, until_s - time.monotonic())

    def enforce(self) -> None:
        """Try again what was held, listen to what is slow, give up what takes too long."""
        if not (self._sent or self._held):
            self._starters.listen(False)
            return
        now_s = time.monotonic()
        if not self._starters.listening and self._is_slow(now_s):
            self._take_all()
        self._starters.listen(self._is_slow(now_s))
        if self._held and now_s >= self._retry_s:
            held, self._held = self._held, []
            for start in held:
                self._place(start)
            self.flush()
        while self._sent:
            first = next(iter(self._sent.values()))
            if first.sent_s + self._limit_s > now_s:
                break
            self._give_up(first)

    def _is_slow(self, now_s: float) -> bool:
        first = next(iter(self._sent.values()), None)
        return first is not None and first.sent_s + HEAR_S <= now_s

    def _give_up(self, start: ProcessStart) -> None:
        self._drop(start)
        process = look(start.pid) if start.pid else None
        if not start.pid and start.link is not None:
            start.link.kill()
            silent = f"the starter did not answer within {self._limit_s:g} s"
            self._fail(start, SpawnFailed(silent, None, NODE))
        elif process is None or process.parent != os.getpid():
            self._fail(start, no_process(EAGAIN, self._limit_s))
        else:
            _kill(start.pid)
            self._fail(start, too_late(process.state, self._limit_s))

    def _lose(self, link: Link) -> None:
        """The starter has died, and every child of it is a program by now or dead as well."""
        self._starters.lose(link)
        for start in [each for each in self._sent.values() if each.link is link]:
            self._executed(start)


def _kill(pid: int) -> None:
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)
