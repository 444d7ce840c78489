"""The keeper's loop: commands of the agent in, processes started and reaped, events out.

    spawn   uid argv env cwd stdin stdout stderr umask user cpus ulimits cgroup keep
    signal  uid signal [note]       to every process of the attempt
    forget  uids                    drops ended attempts
    lease   until_s                 when all work must end, unless told anew (null: never)
    exit                            leave, unless something is alive

``env`` lists NAME=value, as a program gets it (a dictionary costs three times as much to read);
``keep`` is given back in the full list. Events are described in ``rota.agent.ports``.

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
from json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

    from rota.agent.keeper_journal import CLEARING, ENDED, RUNNING, Attempt, Journal, line_of
    from rota.agent.keeper_lease import CUT_OFF, Lease
    from rota.agent.keeper_reap import Reaper
    from rota.agent.keeper_spawn import Spawner, SpawnFailed
    from rota.agent.processes import start_of
else:
    from keeper_journal import CLEARING, ENDED, RUNNING, Attempt, Journal, line_of
    from keeper_lease import CUT_OFF, Lease
    from keeper_reap import Reaper
    from keeper_spawn import Spawner, SpawnFailed
    from processes import start_of

PROTOCOL = 1
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
        spawner: Spawner,
        say: Callable[[str], None],
        idle_s: float = 60.0,
        compact_bytes: int = 8 << 20,
    ) -> None:
        self.attempts = attempts
        self.leaving = False
        self._listener = listener
        self._journal = journal
        self._boot = boot
        self._spawner = spawner
        self._say = say
        self._idle_s = idle_s
        self._compact_bytes = compact_bytes
        self._client: socket.socket | None = None
        self._unread = b""
        self._commands: deque[dict[str, Any]] = deque()
        self._outbox = bytearray()
        self._urgent = False
        #: The socket took only a part; the poll says when it takes more.
        self._clogged = False
        self._held_since_s = 0.0
        self._idle_since_s = time.monotonic()
        self._poll = select.epoll()
        self._reaper = Reaper(attempts, self._poll, self._report_end)
        self._lease = Lease(journal, self._note, self._reaper)
        self._wake = self._catch_signals()
        self._poll.register(listener, select.EPOLLIN)
        self._poll.register(self._wake, select.EPOLLIN)

    def _catch_signals(self) -> int:
        """Signals become bytes in a pipe. Real functions, because ignoring would be inherited."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for number in (
            signal.SIGCHLD,
            signal.SIGTERM,
            signal.SIGINT,
            signal.SIGHUP,
            signal.SIGQUIT,
            signal.SIGUSR1,
            signal.SIGUSR2,
            signal.SIGPIPE,
        ):
            signal.signal(number, lambda *_: None)
        return read

    def run(self) -> None:
        """Until told to leave, or for a while without an agent and without work."""
        self._reaper.adopt(self._say)
        self._reaper.reap()
        while not self.leaving:
            self._flush()
            ready = self._poll.poll(self._lease.shorten(self._timeout_s()))
            for fd, mask in ready:
                self._take_ready(fd, mask)
            self._reaper.clear_up()
            self._execute()
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
        else:
            self._reaper.take_adopted(fd)

    def _timeout_s(self) -> float | None:
        if self._commands:
            return 0
        if self._outbox and not self._urgent:
            return HOLD_STARTED_S
        if self._reaper.clearing:
            return self._reaper.patience_s()
        if self._client is None and not self._reaper.alive:
            return max(0.0, self._idle_since_s + self._idle_s - time.monotonic())
        return None

    def _leave_if_idle(self) -> None:
        """What has ended stays in the journal for the next keeper, so leaving loses nothing."""
        if self._client is None and not self._reaper.alive and not self._commands:
            if time.monotonic() >= self._idle_since_s + self._idle_s:
                self._leave_unless_needed("nothing to do and nobody there")
        else:
            self._idle_since_s = time.monotonic()

    def _leave_unless_needed(self, why: str) -> None:
        if self._reaper.alive or self._commands:
            self._say(f"stays, jobs are alive: {why}")
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
        self._drop_client()
        client.setblocking(False)
        self._client = client
        self._poll.register(client, select.EPOLLIN)
        summaries = [attempt.summary() for attempt in self.attempts.values()]
        greeting = {"ev": "all", "protocol": PROTOCOL, "pid": os.getpid(), "attempts": summaries}
        self._outbox += line_of(greeting)
        self._urgent = True

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
        # Commands already read count as given; their effect shows in the next full list.
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
                command = loads(line)
                command["op"]
            except (ValueError, KeyError, TypeError):
                self._say(f"not a command: {line[:200]!r}")
            else:
                self._commands.append(command)
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
            elif kind == "signal":
                self._signal_all(batch)
            elif kind == "forget":
                self._forget([uid for command in batch for uid in command["uids"]])
            elif kind == "lease":
                self._lease.hold(batch[-1]["until_s"])
            elif kind == "exit":
                self._leave_unless_needed("told to")
            else:
                self._say(f"unknown command: {kind!r}")
        except (KeyError, TypeError, ValueError) as error:
            self._say(f"broken command {kind!r}: {type(error).__name__}: {error}")

    def _start_all(self, orders: list[dict[str, Any]]) -> None:
        """Intents on disk first, then the processes. A known attempt is never started again."""
        fresh: list[tuple[dict[str, Any], Attempt]] = []
        for order in orders:
            uid = order.get("uid")
            if not uid or not isinstance(uid, str):
                self._say("a spawn without a uid")
                continue
            known = self.attempts.get(uid)
            if known is not None:
                self._repeat(known)
                continue
            attempt = Attempt(uid, order.get("keep") or {}, order.get("cgroup") or "")
            self.attempts[uid] = attempt
            self._journal.append(line_of(attempt.intent()))
            fresh.append((order, attempt))
        trouble = self._journal.flush() if fresh else ""
        for order, attempt in fresh:
            self._start(order, attempt, trouble)

    def _start(self, order: dict[str, Any], attempt: Attempt, trouble: str) -> None:
        now_s = time.time()
        try:
            if trouble:
                raise SpawnFailed(f"cannot record the start: {trouble.lower()}")
            if self._lease.is_over:
                attempt.note = CUT_OFF
                raise SpawnFailed("the lease of this node is over")
            pid = self._spawner.start(order)
        except SpawnFailed as failure:
            # With an exit code it counts as a run, as it would in a shell.
            attempt.started_s = now_s if failure.code is not None else 0.0
            attempt.end(now_s, code=failure.code, error=failure.message)
            self._report_end(attempt)
            return
        except Exception as error:
            self._say(f"spawn of {attempt.uid}: {type(error).__name__}: {error}")
            attempt.end(now_s, error=f"cannot start: {type(error).__name__}: {error}")
            self._report_end(attempt)
            return
        attempt.pid = pid
        attempt.start = start_of(pid)
        attempt.started_s = now_s
        attempt.phase = RUNNING
        self._reaper.watch_child(attempt)
        self._tell(line_of(attempt.started()), urgent=False)

    def _repeat(self, attempt: Attempt) -> None:
        if attempt.phase == ENDED and attempt.ended is not None:
            self._outbox += line_of(attempt.ended)
            self._urgent = True
        elif attempt.phase in (RUNNING, CLEARING):
            self._outbox += line_of(attempt.started())
            self._urgent = True

    def _signal_all(self, orders: list[dict[str, Any]]) -> None:
        targets: list[tuple[Attempt, int]] = []
        for order in orders:
            attempt = self.attempts.get(order.get("uid", ""))
            if attempt is None or attempt.phase not in (RUNNING, CLEARING):
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
        self._journal.flush()
        if self._journal.size > self._compact_bytes + 1024 * len(self.attempts):
            try:
                self._journal.rewrite(self._boot, self.attempts.values())
            except OSError as error:
                self._say(f"journal not compacted: {error.strerror}")

    def _report_end(self, attempt: Attempt) -> None:
        assert attempt.ended is not None
        attempt.phase = ENDED
        self._spawner.spares.give_back(attempt.uid)
        self._tell(line_of(attempt.ended), urgent=True)

    def _tell(self, line: bytes, *, urgent: bool) -> None:
        self._journal.append(line)
        if self._client is None:
            return
        if not self._outbox:
            self._held_since_s = time.monotonic()
        self._outbox += line
        self._urgent = self._urgent or urgent

    def _flush(self) -> None:
        """The journal, then the agent."""
        trouble = self._journal.flush()
        if trouble:
            # Not a reason to be silent: the controller's own record is as good.
            self._say(f"journal: {trouble}")
        if self._client is None:
            self._outbox.clear()
        if not self._outbox:
            self._urgent = False
            return
        if not self._urgent and time.monotonic() < self._held_since_s + HOLD_STARTED_S:
            return
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
        self._urgent = bool(self._outbox)
        if self._urgent != self._clogged:
            self._clogged = self._urgent
            more = select.EPOLLOUT if self._clogged else 0
            self._poll.modify(self._client, select.EPOLLIN | more)
