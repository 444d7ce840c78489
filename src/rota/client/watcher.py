"""One open line for the ends of all jobs: the server tells, and handles are settled.

Asking for each job by itself costs a request per job and look. Here a thread reads the stream of
ends; after every (re)connection it asks once for all jobs that it waits for, so that nothing
which ended in between is missed.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from rota.client.ends import FIRST_S, KINDS, PATIENCE_S, RETRY_S, SILENCE_S, Ends, Frames
from rota.client.errors import Disconnected, Refused, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.client.handle import JobHandle
    from rota.client.http import Client


class Watcher:
    """Settles the handles that it was given, from a thread of its own."""

    def __init__(self, client: Client, *, patience_s: float = PATIENCE_S) -> None:
        self._client = client
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._ends: Ends[JobHandle[Any]] = Ends()
        self._asking = threading.Lock()
        self._thread: threading.Thread | None = None
        #: How often the line was opened; see ``add``.
        self._opened = 0
        self._first = threading.Event()
        self._closed = False

    @property
    def pending(self) -> list[JobHandle[Any]]:
        """The handles of jobs that are not known to have ended."""
        with self._lock:
            return self._ends.waiting

    def listen(self) -> int:
        """Have a line, or have tried to, before a submit. The answer is for ``add``."""
        if self._closed:
            raise Disconnected("this cluster was closed; rota.connect() opens it again")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rota-watcher", daemon=True)
            self._thread.start()
        self._first.wait(FIRST_S)
        return self._opened

    def add(self, handles: Iterable[JobHandle[Any]], opened: int) -> None:
        """Settle these when their jobs have ended.

        ``opened`` is what ``listen`` said before the submit: if the line was opened anew since, an
        end may have passed unheard, and is asked for.
        """
        with self._lock:
            ended = self._ends.add(handles)
        for handle, state in ended:
            handle.settle(state)
        if opened != self._opened:
            self._ask_for_all()

    def close(self) -> None:
        """Let go: a caller that still waits is told."""
        self._closed = True
        self._client.hang_up()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=10.0)
        with self._asking:
            self._client.close()
        self._give_up("the connection was closed before job {} ended")

    def _give_up(self, words: str) -> None:
        with self._lock:
            handles = self._ends.let_go()
        for handle in handles:
            handle.set_exception(Disconnected(words.format(handle.id)))

    def _run(self) -> None:
        away_since_s: float | None = None
        while not self._closed:
            try:
                frames = Frames()
                for piece in self._client.listen("/events", {"kinds": KINDS}, SILENCE_S):
                    for frame in frames.feed(piece):
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
        with self._lock:
            questions = list(self._ends.questions())
        for ids in questions:
            with self._asking:
                answer = self._client.get("/jobs/wait", ids=ids, timeout_s=0)
            for done in answer["done"]:
                self._ended(int(done["id"]), done["state"])

    def _ended(self, job: int, state: str) -> None:
        with self._lock:
            handles = self._ends.ended(job, state)
        for handle in handles:
            handle.settle(state)
