"""The keeper's loop: commands of the agent in, processes started and reaped, events out.

One iteration takes what is readable, reaps what has ended, starts a few attempts, writes the
journal and only then tells the agent. Nothing happens while nothing happens: the loop sleeps in
``epoll`` without a timeout. The keeper runs this file without the package around it.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

    from rota.keeper.beside import Beside
    from rota.keeper.failures import NODE, SpawnFailed
    from rota.keeper.journal import (
        CLEARING,
        ENDED,
        INTENT,
        RUNNING,
        Attempt,
        Journal,
        line_of,
    )
    from rota.keeper.lease import Lease
    from rota.keeper.link import Starters
    from rota.keeper.means import Means
    from rota.keeper.orders import ALL, LINE_BYTES_MAX, NotAnOrder, read_order
    from rota.keeper.processes import start_of
    from rota.keeper.reap import NOT_FOUND, Reaper
    from rota.keeper.starting import Listener, Starts
    from rota.keeper.wake import catch_signals
else:
    from keeper.beside import Beside
    from keeper.failures import NODE, SpawnFailed
    from keeper.journal import CLEARING, ENDED, INTENT, RUNNING, Attempt, line_of
    from keeper.lease import Lease
    from keeper.link import Starters
    from keeper.orders import ALL, LINE_BYTES_MAX, NotAnOrder, read_order
    from keeper.processes import start_of
    from keeper.reap import NOT_FOUND, Reaper
    from keeper.starting import Listener, Starts
    from keeper.wake import catch_signals

#: Commands per iteration, so that exits are not left waiting behind a long list of starts.
SLICE = 16
#: A start is news for people, an end frees room: a start may wait this long for company.
HOLD_STARTED_S = 0.002
RECEIVE_BYTES = 1 << 18
#: An agent that reads nothing while this much piles up is cut off; it asks for all again.
BACKLOG_BYTES_MAX = 1 << 26


class Keeper:
    """The parent of every process that the agent asked for."""

    def __init__(
        self,
        listener: socket.socket,
        journal: Journal,
        attempts: dict[str, Attempt],
        boot: str,
        means: Means,
        say: Callable[[str], None],
    ) -> None:
        self.attempts = attempts
        self.leaving = False
        self._listener = listener
        self._journal = journal
        self._boot = boot
        self._say = say
        self._means = means
        self._client: socket.socket | None = None
        self._unread = b""
        self._commands: deque[dict[str, Any]] = deque()
        self._outbox = bytearray()
        #: The socket took only a part; the poll says when it takes more.
        self._clogged = False
        #: Started since then; it is written down and told unless it is over before.
        self._fresh: dict[str, Attempt] = {}
        self._held_since_s = 0.0
        self._idle_since_s = time.monotonic()
        self._poll = select.epoll()
        self._reaper = Reaper(attempts, self._poll, self._report_end)
        self._lease = Lease(journal, self._note, self._reaper, boot)
        starters = Starters(means, self._poll, self._reaper.own, say)
        told = Listener(self._executed, self._failed, self._commands.extendleft, say)
        self._starts = Starts(starters, self._reaper, self._lease, told, means)
        self._beside = Beside(self._starts, self._reaper.asides, say)
        self._wake = catch_signals()
        self._poll.register(listener, select.EPOLLIN)
        self._poll.register(self._wake, select.EPOLLIN)

    def run(self) -> None:
        """Until told to leave, or for a while without an agent and without work."""
        self._reaper.adopt(self.attempts.values(), self._say)
        self._reaper.reap()
        while not self.leaving:
            self._flush()
            ready = self._poll.poll(self._lease.shorten(self._timeout_s()))
            for fd, mask in ready:
                self._take_ready(fd, mask)
            self._reaper.clear_up()
            self._execute()
            self._starts.enforce()
            self._reaper.asides.enforce()
            self._lease.enforce()
            if not ready:
                self._leave_if_idle()

    def _take_ready(self, fd: int, mask: int) -> None:
        if fd == self._wake:
            signals = os.read(self._wake, 65536)
            if signal.SIGTERM in signals:
                self._leave_unless_needed("told to by a signal")
            self._reaper.reap()
        elif fd == self._listener.fileno():
            self._accept()
        elif self._client is not None and fd == self._client.fileno():
            if mask & ~select.EPOLLOUT:
                self._receive()
        elif not self._starts.take(fd) and not self._reaper.asides.take(fd):
            self._reaper.take_adopted(fd)

    def _timeout_s(self) -> float | None:
        parts = (self._starts, self._journal, self._reaper.asides)
        waits = [self._own_wait_s(), *(part.wait_s() for part in parts)]
        return min((wait_s for wait_s in waits if wait_s is not None), default=None)

    def _own_wait_s(self) -> float | None:
        if self._commands:
            return 0
        if self._fresh:
            return max(0.0, self._held_since_s + HOLD_STARTED_S - time.monotonic())
        if self._reaper.clearing:
            return self._reaper.patience_s()
        if self._client is None and not self._is_needed:
            return max(0.0, self._idle_since_s + self._means.idle_s - time.monotonic())
        return None

    @property
    def _is_needed(self) -> bool:
        return bool(self._reaper.alive or self._commands or self._starts.busy)

    def _leave_if_idle(self) -> None:
        """What has ended stays in the journal for the next keeper, so leaving loses nothing."""
        if self._client is None and not self._is_needed:
            if time.monotonic() >= self._idle_since_s + self._means.idle_s:
                self._leave_unless_needed("nothing to do and nobody there")
        else:
            self._idle_since_s = time.monotonic()

    def _leave_unless_needed(self, why: str) -> None:
        if self._is_needed:
            self._say(f"stays, jobs are alive: {why}")
        elif trouble := self._journal.flush():
            self._say(f"stays, the journal cannot be written: {trouble.lower()}: {why}")
        else:
            self._say(f"leaves: {why}")
            self.leaving = True

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError as error:
            self._say(f"no connection: {error.strerror}")
            time.sleep(0.1)  # too many open files: do not spin
            return
        # What the older agent still said counts, and shows in what the newer one is told.
        while self._receive():
            pass
        while self._commands:
            self._execute()
        self._tell_starts()
        self._drop_client()
        client.setblocking(False)
        self._client = client
        self._poll.register(client, select.EPOLLIN)
        known = [attempt.summary() for attempt in self.attempts.values()]
        self._outbox += line_of(ALL | {"pid": os.getpid(), "attempts": known})

    def _drop_client(self) -> None:
        """What the old agent was not told yet is in the full list for the next one."""
        if self._client is None:
            return
        self._poll.unregister(self._client)
        self._client.close()
        self._client = None
        self._unread = b""
        self._outbox.clear()
        self._clogged = False
        self._idle_since_s = time.monotonic()

    def _receive(self) -> bool:
        """Take what the agent says; False when there is no more for now."""
        if self._client is None:
            return False
        try:
            chunk = self._client.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            self._drop_client()
            return False
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            try:
                self._commands.append(read_order(line))
            except NotAnOrder as error:
                self._say(f"not a command: {error}: {line[:200]!r}")
        if len(self._unread) > LINE_BYTES_MAX:
            self._say("a command without an end; the agent is cut off")
            self._drop_client()
        return True

    def _execute(self) -> None:
        """A slice of the commands in their order; neighbours of one kind share their cost."""
        batch: list[dict[str, Any]] = []
        for _ in range(min(SLICE, len(self._commands))):
            command = self._commands.popleft()
            if batch and batch[0]["op"] != command["op"]:
                self._carry_out(batch)
                batch = []
            batch.append(command)
        if batch:
            self._carry_out(batch)

    def _carry_out(self, batch: list[dict[str, Any]]) -> None:
        kind = batch[0]["op"]
        try:
            if kind == "spawn":
                self._start_all(batch)
            elif kind == "seek":
                self._seek_all(batch)
            elif kind == "give_up":
                self._starts.give_up([command["uid"] for command in batch])
            elif kind == "beside":
                self._beside.start(self.attempts, batch)
            elif kind == "signal":
                self._signal_all(batch)
            elif kind == "forget":
                self._forget([uid for command in batch for uid in command["uids"]])
            elif kind == "lease":
                self._lease.hold(batch[-1]["until_s"])
            elif kind == "exit":
                self._leave_unless_needed("told to")
        except Exception as error:
            # Whatever it is: the parent of all jobs does not die of it.
            self._say(f"broken command {kind!r}: {type(error).__name__}: {error}")

    def _start_all(self, orders: list[dict[str, Any]]) -> None:
        """Intents on disk first, then the processes."""
        fresh = self._take_in(orders)
        trouble = self._journal.flush()
        for attempt, order in fresh.items():
            if trouble:
                why = f"cannot record the start: {trouble.lower()}"
                self._failed(attempt, SpawnFailed(why, None, NODE))
            else:
                self._starts.begin(order, attempt)
        self._starts.flush()

    def _seek_all(self, orders: list[dict[str, Any]]) -> None:
        """What lives of attempts whose journal was lost is in our care again."""
        self._reaper.adopt(fresh := list(self._take_in(orders)), self._say, NOT_FOUND)
        for attempt in fresh:
            if attempt.phase == RUNNING:
                self._tell(line_of(attempt.started()))

    def _take_in(self, orders: list[dict[str, Any]]) -> dict[Attempt, dict[str, Any]]:
        """Those that are new. Of a known one it is told what became of it."""
        fresh: dict[Attempt, dict[str, Any]] = {}
        for order in orders:
            if (known := self.attempts.get(uid := order["uid"])) is not None:
                self._repeat(known)
                continue
            attempt = Attempt(uid, order.get("keep") or {}, order.get("cgroup") or "")
            self.attempts[uid] = attempt
            self._journal.append(line_of(attempt.intent()))
            fresh[attempt] = order
        return fresh

    def _executed(self, attempt: Attempt) -> None:
        """Its program has taken over."""
        attempt.phase = RUNNING
        if not self._fresh:
            self._held_since_s = time.monotonic()
        self._fresh[attempt.uid] = attempt

    def _failed(self, attempt: Attempt, failure: SpawnFailed) -> None:
        """There is no process, or one that never came to its program."""
        # With an exit code it counts as a run, as it would in a shell.
        now_s, ran = time.time(), failure.code is not None
        attempt.started_s = (attempt.started_s or now_s) if ran else 0.0
        fault = "" if ran else failure.fault
        attempt.end(now_s, code=failure.code, error=failure.message, fault=fault)
        (self._reaper.begin_clearing if attempt.pid else self._report_end)(attempt)

    def _tell_starts(self) -> None:
        """Of those that are not over by now: their ends say all that counts."""
        fresh, self._fresh = self._fresh, {}
        for attempt in fresh.values():
            if attempt.phase == RUNNING:
                attempt.start = start_of(attempt.pid)
            self._tell(line_of(attempt.started()))

    def _repeat(self, attempt: Attempt) -> None:
        if attempt.phase == ENDED and attempt.ended is not None:
            self._outbox += line_of(attempt.ended)
        elif attempt.phase in (RUNNING, CLEARING):
            self._outbox += line_of(attempt.started())

    def _signal_all(self, orders: list[dict[str, Any]]) -> None:
        targets: list[tuple[Attempt, int]] = []
        for order in orders:
            attempt = self.attempts.get(order.get("uid", ""))
            if attempt is None or attempt.phase == ENDED:
                continue
            if attempt.phase == INTENT and self._starts.defers(order):
                continue
            self._note(attempt, order.get("note") or "")
            attempt.asked = attempt.asked or bool(order.get("asks"))
            number = int(order.get("signal", signal.SIGTERM))
            if attempt.suspended != (number == signal.SIGSTOP):
                attempt.suspended = number == signal.SIGSTOP
                self._journal.append(line_of(attempt.stopped()))
            targets.append((attempt, number))
        # Why it dies is on disk before it does.
        self._journal.flush()
        self._reaper.signal_trees(targets)

    def _note(self, attempt: Attempt, note: str) -> None:
        if note and not attempt.note:
            attempt.note = note
            self._journal.append(line_of(attempt.noted()))

    def _forget(self, uids: list[str]) -> None:
        gone = [uid for uid in uids if uid in self.attempts and self.attempts[uid].phase == ENDED]
        if not gone:
            return
        for uid in gone:
            del self.attempts[uid]
        self._journal.append(line_of({"ev": "forget", "uids": gone}))
        if trouble := self._journal.compact(self._means.compact_bytes, self._boot, self.attempts):
            self._say(f"journal not compacted: {trouble}")

    def _report_end(self, attempt: Attempt) -> None:
        assert attempt.ended is not None
        attempt.phase = ENDED
        self._fresh.pop(attempt.uid, None)
        self._starts.spares.give_back(attempt.uid)
        self._tell(line_of(attempt.ended))

    def _tell(self, line: bytes) -> None:
        self._journal.append(line)
        if self._client is not None:
            self._outbox += line

    def _flush(self) -> None:
        """The journal, then the agent."""
        if self._fresh and time.monotonic() >= self._held_since_s + HOLD_STARTED_S:
            self._tell_starts()
        if trouble := self._journal.flush():
            # Not a reason to be silent: the controller's own record is as good.
            self._say(f"journal: {trouble}")
        if self._client is None:
            self._outbox.clear()
        if self._outbox:
            self._send()

    def _send(self) -> None:
        assert self._client is not None
        try:
            count = self._client.send(self._outbox)
        except BlockingIOError:
            count = 0
        except OSError:
            self._drop_client()
            return
        del self._outbox[:count]
        if len(self._outbox) > BACKLOG_BYTES_MAX:
            self._say("the agent does not read; cut off")
            self._drop_client()
            return
        if bool(self._outbox) != self._clogged:
            self._clogged = bool(self._outbox)
            more = select.EPOLLOUT if self._clogged else 0
            self._poll.modify(self._client, select.EPOLLIN | more)
