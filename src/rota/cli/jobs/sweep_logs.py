"""What several jobs or the elements of arrays printed: one after the other, or as it comes."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from rota.cli.jobs.folding import UNWELL
from rota.cli.jobs.follow import LogFollower
from rota.cli.shared import session
from rota.cli.shared.job_fields import FINISHED, display_id
from rota.client.errors import ClientError
from rota.client.http import segment
from rota.log_frames import OUT, Piece, Unpacker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rota.client.http import Client

#: The most elements that are followed at once; the others are shown when there is a place.
AT_ONCE = 32
LOOK_S = 0.5
#: States in which there may be something to read.
_BEGUN = ",".join(("running", *sorted(FINISHED)))


class Prefixed:
    """Whole lines behind the name of their element; streams of one element are not mixed up."""

    _lock = threading.Lock()

    def __init__(self, name: str, write: Callable[[bytes], object]) -> None:
        self._prefix = f"{name}: ".encode()
        self._write = write
        self._unfinished: dict[bytes, bytes] = {}

    def take(self, piece: Piece) -> None:
        body = self._unfinished.pop(piece.stream, b"") + piece.body
        lines, newline, rest = body.rpartition(b"\n")
        if rest:
            self._unfinished[piece.stream] = rest
        if newline:
            self._show(lines)

    def close(self) -> None:
        for rest in self._unfinished.values():
            self._show(rest)
        self._unfinished.clear()

    def _show(self, lines: bytes) -> None:
        shown = b"".join(self._prefix + line + b"\n" for line in lines.split(b"\n"))
        with self._lock:
            self._write(shown)


class SweepLogs:
    """The logs of jobs and of all elements of arrays, or of those that failed."""

    def __init__(
        self,
        client: Client,
        names: Sequence[int | str],
        stream: str,
        write: Callable[[bytes], object],
    ) -> None:
        self._client, self._names = client, names
        self._stream, self._write = stream, write

    def show(self, *, failed: bool, **choice: Any) -> None:
        """What there is now, by index."""
        for name in self._names:
            for element in self._elements(self._job(name), failed=failed):
                self._show_one(element, choice)

    def _job(self, name: int | str) -> dict[str, Any]:
        found: dict[str, Any] = self._client.get(f"/jobs/{segment(name)}")
        return found

    def _elements(self, job: dict[str, Any], *, failed: bool) -> Iterator[dict[str, Any]]:
        states = UNWELL if failed else _BEGUN
        if job.get("count"):
            wanted = {"array": job["id"], "state": states, "arrays": "expand"}
            yield from session.list_jobs(self._client, wanted)
        elif job["state"] in states.split(","):
            yield job

    def _show_one(self, element: dict[str, Any], choice: dict[str, Any]) -> None:
        name = display_id(element)
        lines = Prefixed(name, self._write)
        framed = {"frames": 1} if self._stream == "both" else {}
        unpacker = Unpacker()
        # The list is read over the same connection, page by page.
        client = self._client.twin()
        try:
            for part in client.stream(
                f"/jobs/{element['id']}/logs", stream=self._stream, **framed, **choice
            ):
                for piece in unpacker.feed(part) if framed else (Piece(OUT, part),):
                    lines.take(piece)
        except ClientError as error:
            session.warn(f"{name}: {error}")
        finally:
            client.close()
            lines.close()

    def follow(self, *, failed: bool, **choice: Any) -> None:
        """As it comes, until every element has ended. Those that end badly are told as they do."""
        taken: set[int] = set()
        going = list(self._names)
        with ThreadPoolExecutor(AT_ONCE, "rota-logs") as pool:
            while True:
                for name in list(going):
                    job = self._job(name)
                    for element in self._elements(job, failed=failed):
                        if element["id"] not in taken:
                            taken.add(element["id"])
                            pool.submit(self._follow_one, element, choice)
                    if job["state"] in FINISHED:
                        going.remove(name)
                if not going:
                    return
                time.sleep(LOOK_S)

    def _follow_one(self, element: dict[str, Any], choice: dict[str, Any]) -> None:
        name = display_id(element)
        client = self._client.twin()
        client.has_answered = True
        lines = Prefixed(name, self._write)
        follower = LogFollower(client, f"/jobs/{element['id']}", self._stream, self._write)
        follower.take = lines.take
        try:
            follower.follow(**choice)
        except ClientError as error:
            session.warn(f"{name}: {error}")
        finally:
            client.close()
            lines.close()
