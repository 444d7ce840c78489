"""Follow a job to its end: its output as it comes, and how it ended.

The controller may be restarted meanwhile without harm to the job, so a broken connection is
mended for a while before we give up.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

from rota.cli.shared import exits, session
from rota.cli.shared.job_fields import FINISHED
from rota.client.errors import Refused, Unreachable
from rota.log_frames import ERR, OUT, Piece, Unpacker

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.client.http import Client

T = TypeVar("T")

#: Standard output and standard error as one, in the order in which they were written.
BOTH = "both"

#: How long a connection that worked before may be away.
PATIENCE_S = 120.0
POLL_S = 30.0
#: The most ids that go into one request: they travel in its address.
MOST_IDS = 500


def patiently(client: Client, call: Callable[[], T], *, quiet: bool = True) -> T:
    """The answer of ``call``, tried again while the server is away (a restart, an upgrade)."""
    give_up_s = time.monotonic() + PATIENCE_S
    told = quiet
    while True:
        try:
            return call()
        except (Unreachable, Refused) as error:
            gone = isinstance(error, Unreachable) and client.has_answered
            starting = isinstance(error, Refused) and error.status == 503
            if not (gone or starting) or time.monotonic() > give_up_s:
                raise
            if not told:
                session.warn(f"{_what_is_wrong(error)}; the job goes on, trying again")
                told = True
            client.close()
            time.sleep(0.5)


def _what_is_wrong(error: Unreachable | Refused) -> str:
    """A server that answers says it best itself: a disk that is full is no lost connection."""
    return str(error) if isinstance(error, Refused) else "lost the connection"


class LogFollower:
    """Hands every byte of one stream of a job to ``write`` until the job has ended.

    Attempts are followed one by one, so that a stream that breaks is taken up at its very byte.
    Of both streams ``take`` gets the pieces, in the order in which they were written.
    """

    #: Given instead of ``write`` where the pieces of both are to be told apart.
    take: Callable[[Piece], object] | None = None

    def __init__(
        self, client: Client, path: str, stream: str, write: Callable[[bytes], object]
    ) -> None:
        self.client = client
        self.path = path
        self.stream = stream
        self.write = write

    def follow(self, *, task: int = 0, attempt: int | None = None, tail: int | None = None) -> None:
        """All of a task's attempts from the present one on, or the one that was asked for."""
        number = attempt or max(1, len(self._attempts(task)[0]))
        while True:
            self._follow_one(task, number, tail)
            tail = None
            states, final = self._attempts(task)
            if attempt is not None or (final and number >= len(states)):
                return
            number += 1

    def _follow_one(self, task: int, number: int, tail: int | None) -> None:
        """One attempt to its end, over as many connections as that takes."""
        given: Counter[bytes] = Counter()
        while True:
            settings: dict[str, object] = {"task": task, "attempt": number}
            # Behind a tail the place in the file is not known: a break may repeat a line.
            settings |= {"tail": 1 if given else tail} if tail is not None else self._place(given)
            given += self._read({**settings, "follow": 1})
            states, final = self._attempts(task)
            if number > len(states):
                if final:
                    return
            elif states[number - 1] == "ended":
                if tail is None:
                    # It may have ended while the server was away: take what came meanwhile.
                    self._read({**settings, **self._place(given)})
                return
            time.sleep(0.2)

    def _place(self, given: Counter[bytes]) -> dict[str, object]:
        """From where on: behind what was given."""
        if self.stream != BOTH:
            return {"offset": given[OUT]}
        return {"offset": given[OUT], "offset_stderr": given[ERR]}

    def _read(self, settings: dict[str, object]) -> Counter[bytes]:
        """What one connection gives, counted; a server that is away has given nothing."""
        given: Counter[bytes] = Counter()
        framed = {"frames": 1} if self.stream == BOTH else {}
        unpacker = Unpacker()
        try:
            for part in self.client.stream(
                f"{self.path}/logs", stream=self.stream, **settings, **framed
            ):
                for piece in unpacker.feed(part) if framed else (Piece(OUT, part),):
                    given[piece.stream] += len(piece.body)
                    self.write(piece.body) if self.take is None else self.take(piece)
        except Unreachable:
            time.sleep(0.3)
        except Refused as error:
            if error.status != 503:
                raise
            time.sleep(0.3)
        return given

    def _attempts(self, task: int) -> tuple[list[str], bool]:
        """The states of the task's attempts in order, and whether the job has ended."""
        job = patiently(self.client, lambda: self.client.get(self.path))
        states = [entry["state"] for entry in job.get("attempts") or () if entry["task"] == task]
        return states, job["state"] in FINISHED


def wait_for(client: Client, ids: list[int], timeout_s: float) -> dict[str, Any]:
    """One long poll: which of these have ended within the time, and how."""
    answer: dict[str, Any] = client.call(
        "GET",
        "/jobs/wait",
        parameters={"ids": ",".join(map(str, ids)), "timeout_s": round(timeout_s, 3)},
        timeout_s=timeout_s + 30.0,
    )
    return answer


#: What every end of its kind begins with, where the rest says it all.
_SAID_TWICE = ("exit: ", "signal: ", "time_limit: ")


def last_words(job: dict[str, Any]) -> str:
    """``job 12: cancelled: by ann``: how it ended, and nothing twice."""
    state = str(job["state"])
    cause = str(job.get("cause") or job.get("reason") or "")
    for begin in (f"{state}: ", *_SAID_TWICE):
        cause = cause.removeprefix(begin)
    return f"job {job['id']}: {state}" + (f": {cause}" if cause and cause != state else "")


def exit_code_of(job: dict[str, Any]) -> int:
    """What a shell would make of the job's end."""
    if job["state"] == "completed":
        return exits.OK
    if job.get("signal"):
        return 128 + int(job["signal"])
    if job.get("exit_code"):
        return int(job["exit_code"])
    return exits.TIMEOUT if job["state"] == "timeout" else exits.NEGATIVE
