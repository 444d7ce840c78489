"""What one can ask about jobs and nodes, and do to them, by id or by handle."""

from __future__ import annotations

import codecs
import json
import threading
import time
from typing import TYPE_CHECKING, Any, Literal, overload

from rota.client import asking, outcomes
from rota.client.errors import Refused
from rota.client.ids import id_of
from rota.client.status import JobStatus, Node, Why

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import Unpack

    from rota.client.asking import JobOptions
    from rota.client.http import Client
    from rota.client.ids import AnyJob
    from rota.client.outcomes import CallOutcome

#: One look at a job that is waited for by its number; the next one follows.
LOOK_S = 30.0
#: The most jobs that come with one answer.
PAGE = 500


class Verbs:
    """Questions and orders over one kept connection; it may be used from several threads."""

    def __init__(self, client: Client, results: Path) -> None:
        self._client = client
        self._results = results
        self._lock = threading.Lock()
        # Of several heads any may answer; of several sockets one is there.
        self._home = "" if client.is_local else ",".join(sorted(client.addresses))

    @property
    def url(self) -> str:
        """Where the server is; another program can give it to ``rota.connect``."""
        return self._client.addresses[0]

    @property
    def home(self) -> str:
        """What tells the jobs of this cluster from those of another one; it never changes."""
        if not self._home:
            if len(self._client.addresses) > 1:
                self._get("/status")
            self._home = self.url
        return self._home

    def _id(self, job: AnyJob) -> int:
        return id_of(job, self.home)

    def _get(self, path: str, **parameters: object) -> Any:  # noqa: ANN401 - JSON
        with self._lock:
            return self._client.get(path, **parameters)

    def _patch(self, job: AnyJob, body: Mapping[str, Any]) -> JobStatus:
        with self._lock:
            return JobStatus(self._client.patch(f"/jobs/{self._id(job)}", body))

    def status(self, job: AnyJob) -> JobStatus:
        """The job as it is now."""
        return JobStatus(self._get(f"/jobs/{self._id(job)}"))

    def jobs(self, *, limit: int | None = None, **filters: object) -> list[JobStatus]:
        """Jobs as they are now, the oldest first, at most ``limit`` of them.

        ``filters`` are those of ``GET /jobs``: ``state`` (``"active"``, ``"failed,timeout"``),
        ``user``, ``project``, ``queue``, ``name``, ``label``, ``array``, ``order="-id"``.
        """
        found: list[JobStatus] = []
        cursor: str | None = ""
        while cursor is not None and (limit is None or len(found) < limit):
            size = page_size(limit, len(found))
            page = self._get("/jobs", limit=size, cursor=cursor, **filters)
            found += map(JobStatus, page["items"])
            cursor = page["cursor"]
        return found

    def nodes(self) -> list[Node]:
        """The machines as they are now."""
        return [Node(record) for record in self._get("/nodes")["items"]]

    def why(self, job: AnyJob) -> Why:
        """Why a job waits and what would start it now, or how it ended."""
        return Why(self._get(f"/jobs/{self._id(job)}/why"))

    def events(self, job: AnyJob) -> list[dict[str, Any]]:
        """What happened to the job, oldest first."""
        found: list[dict[str, Any]] = self._get(f"/jobs/{self._id(job)}/events")["items"]
        return found

    def wait(self, job: AnyJob, timeout: float | None = None) -> JobStatus:
        """The status once the job has ended; ``TimeoutError`` when it takes longer."""
        end_s = None if timeout is None else time.monotonic() + timeout
        client = self._client.twin()
        try:
            while True:
                left_s = LOOK_S if end_s is None else max(0.0, end_s - time.monotonic())
                look_s = round(min(LOOK_S, left_s), 3)
                answer = client.get("/jobs/wait", ids=self._id(job), timeout_s=look_s)
                if not answer["pending"]:
                    return JobStatus(client.get(f"/jobs/{self._id(job)}"))
                if end_s is not None and time.monotonic() >= end_s:
                    raise TimeoutError(f"job {self._id(job)} has not ended after {timeout:g} s")
        finally:
            client.close()

    def cancel(self, job: AnyJob) -> bool:
        """Ask for the end of a job; False if it has ended already."""
        try:
            with self._lock:
                self._client.delete(f"/jobs/{self._id(job)}")
        except Refused as refusal:
            if refusal.status != 409:
                raise
            return False
        return True

    def hold(self, job: AnyJob) -> JobStatus:
        """Keep a job that waits from starting until it is released."""
        return self._patch(job, {"action": "hold"})

    def release(self, job: AnyJob) -> JobStatus:
        """Let a job go that is held, or was submitted with ``hold=True``."""
        return self._patch(job, {"action": "release"})

    def update(self, job: AnyJob, **options: Unpack[JobOptions]) -> JobStatus:
        """Change a job that exists: ``priority="high"``, ``time="4h"``, ``gpus=2``, ``queue=…``."""
        if not options:
            raise ValueError("update: nothing is given; say what to change, as in priority='high'")
        return self._patch(job, asking.changes(options, self.home))

    @overload
    def logs(
        self, job: AnyJob, stream: str = ..., *, task: int = ..., tail: int | None = ...,
        follow: Literal[False] = ...,
    ) -> str: ...  # fmt: skip

    @overload
    def logs(
        self, job: AnyJob, stream: str = ..., *, task: int = ..., tail: int | None = ...,
        follow: Literal[True],
    ) -> Iterator[str]: ...  # fmt: skip

    def logs(
        self, job: AnyJob, stream: str = "stdout", *, task: int = 0, tail: int | None = None,
        follow: bool = False,
    ) -> str | Iterator[str]:  # fmt: skip
        """All that a job has written so far; with ``follow`` pieces as they come, until it ends.

        ``tail`` begins with that number of lines from the end.
        """
        pieces = self.log_pieces(job, stream, task, tail, follow=follow)
        return pieces if follow else "".join(pieces)

    def log_pieces(
        self, job: AnyJob, stream: str, task: int, tail: int | None, *, follow: bool
    ) -> Iterator[str]:
        """What ``logs`` gives, piece by piece."""
        asked = {"stream": stream, "task": task, "tail": tail, "follow": "true" if follow else None}
        return in_text(self._client.stream(f"/jobs/{self._id(job)}/logs", **asked))

    def progress(self, job: AnyJob, task: int = 0) -> dict[str, Any] | None:
        """What a task last said about how far it is; None before it said anything."""
        body = self._here(job, task, "progress")
        if body is None:
            body = self._client.left_by(self._id(job), task, "progress")
        found: dict[str, Any] | None = None if body is None else json.loads(body)
        return found

    def outcome(self, job: AnyJob, task: int = 0) -> CallOutcome | None:
        """How a task's function ended; None if it left nothing, or that is gone."""
        body = self._here(job, task, "result")
        found = None if body is None else outcomes.read(body)
        if found is None or found.error is not None:
            # What lies here may be from an attempt before the last one, on another node.
            body = self._client.left_by(self._id(job), task) or body
            found = None if body is None else outcomes.read(body)
        return found

    def _here(self, job: AnyJob, task: int, part: str) -> bytes | None:
        """From the folder itself, where job and client share it."""
        try:
            return (self._results / outcomes.file_name(self._id(job), task, part)).read_bytes()
        except OSError:
            return None


def page_size(limit: int | None, so_far: int) -> int:
    """How many jobs to ask for next."""
    return PAGE if limit is None else min(PAGE, limit - so_far)


def in_text(pieces: Iterable[bytes]) -> Iterator[str]:
    """Bytes as text, also where a character is cut in two."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece in pieces:
        if text := decoder.decode(piece):
            yield text
    if rest := decoder.decode(b"", final=True):
        yield rest
