"""One open line for the ends of all jobs: the server tells, and handles are settled.

Asking for each job by itself costs a request per job and look. Here a thread reads the stream of
ends; after every (re)connection it asks once for all jobs that it waits for, so that nothing
which ended in between is missed.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from rota.client.errors import Disconnected, Refused, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rota.client.handle import JobHandle
    from rota.client.http import Client

KINDS = "job-settled,array-cancelled"
#: The server says something every 15 s, if only a dot.
SILENCE_S = 60.0
#: How long the server may be away (a restart, an upgrade) before waiting for it is given up.
PATIENCE_S = 300.0
RETRY_S = 0.5
#: The longest that the first submit waits for the line; without it the answers come later.
FIRST_S = 10.0
#: So many ids go into the address of one request.
IDS_MAX = 500
#: Ends of jobs that nobody has asked for yet: a short job may end before its submitter has the id.
EARLY_MAX = 20_000


class Watcher:
    """Settles the handles that it was given, from a thread of its own."""

    def __init__(self, client: Client, *, patience_s: float = PATIENCE_S) -> None:
        self._client = client
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._pending: dict[int, JobHandle] = {}
        self._early: OrderedDict[int, str] = OrderedDict()
        self._asking = threading.Lock()
        self._thread: threading.Thread | None = None
        #: How often the line was opened; see ``add``.
        self._opened = 0
        self._first = threading.Event()
        self._closed = False

    @property
    def pending(self) -> list[JobHandle]:
        """The handles of jobs that are not known to have ended."""
        with self._lock:
            return list(self._pending.values())

    def listen(self) -> int:
        """Have a line, or have tried to, before a submit. The answer is for ``add``."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rota-watcher", daemon=True)
            self._thread.start()
        self._first.wait(FIRST_S)
        return self._opened

    def add(self, handles: Iterable[JobHandle], opened: int) -> None:
        """Settle these when their jobs have ended.

        ``opened`` is what ``listen`` said before the submit: if the line was opened anew since, an
        end may have passed unheard, and is asked for.
        """
        ended: list[tuple[JobHandle, str]] = []
        with self._lock:
            for handle in handles:
                state = self._early.pop(int(handle), None)
                if state is None:
                    self._pending[int(handle)] = handle
                else:
                    ended.append((handle, state))
        for handle, state in ended:
            handle.settle(state)
        if opened != self._opened:
            self._ask_for_all()

    def close(self) -> None:
        """Let go: whoever still waits is told."""
        self._closed = True
        self._client.hang_up()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=10.0)
        with self._asking:
            self._client.close()
        self._give_up("the connection was closed before job {} ended")

    def _give_up(self, words: str) -> None:
        for handle in self.pending:
            with self._lock:
                mine = self._pending.pop(int(handle), None)
            if mine is not None:
                mine.set_exception(Disconnected(words.format(int(handle))))

    def _run(self) -> None:
        away_since_s: float | None = None
        while not self._closed:
            try:
                for frame in self._frames():
                    away_since_s = None
                    self._heard(frame)
            except (Unreachable, Refused) as error:
                self._first.set()
                now_s = time.monotonic()
                away_since_s = away_since_s or now_s
                if now_s - away_since_s > self._patience_s:
                    self._give_up(f"{error} (while waiting for job {{}})")
                    away_since_s = None
            if not self._closed:
                time.sleep(RETRY_S)

    def _frames(self) -> Iterator[dict[str, Any] | None]:
        """Decoded events; None for the greeting, from which on nothing is missed."""
        rest, greeted = b"", False
        for piece in self._client.listen("/events", {"kinds": KINDS}, SILENCE_S):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
                elif line.startswith(b": rota") and not greeted:
                    greeted = True  # Later ones only break a silence.
                    yield None

    def _heard(self, event: dict[str, Any] | None) -> None:
        if event is None:
            self._opened += 1
            self._first.set()
        if event is None or event["kind"] != "job-settled":
            self._ask_for_all()
        else:
            self._ended(int(event["job"]), event["detail"]["outcome"]["state"])

    def _ask_for_all(self) -> None:
        """Which of the jobs that we wait for have ended while we were not listening."""
        ids = [int(handle) for handle in self.pending]
        for first in range(0, len(ids), IDS_MAX):
            asked = ",".join(map(str, ids[first : first + IDS_MAX]))
            with self._asking:
                answer = self._client.get("/jobs/wait", ids=asked, timeout_s=0)
            for done in answer["done"]:
                self._ended(int(done["id"]), done["state"])

    def _ended(self, job: int, state: str) -> None:
        with self._lock:
            handle = self._pending.pop(job, None)
            if handle is None:
                self._early[job] = state
                if len(self._early) > EARLY_MAX:
                    self._early.popitem(last=False)
        if handle is not None:
            handle.settle(state)
