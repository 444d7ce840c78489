"""How a call ended, as the bytes that travel back: what it returned, or what it raised.

Loaded by every job that runs a function, so it imports ``pickle`` alone; ``cloudpickle`` costs
more than all the rest of a start and is loaded only for what ``pickle`` cannot do.
"""

from __future__ import annotations

import os
import pickle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Larger results belong into a file of the user's own.
RESULT_BYTES_MAX = 256 * 1024 * 1024
RESULT_DIR = "ROTA_RESULT_DIR"
#: How long results are kept, as the server tells every job; ``results.days`` of its settings.
RESULT_DAYS = "ROTA_RESULT_DAYS"
DAYS = 7
#: How the folder is called that the jobs of one connection leave their results in.
RESULTS = "rota-results-"
HERE = os.path.dirname(__file__)


class RemoteTraceback(Exception):
    """The cause of an exception that a job raised: the traceback as it was there."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""' if self.args else ""


class JobError(Exception):
    """A job has no result to give: the text says why, in one line."""

    #: The last lines that the job wrote to standard error, as far as they could be read.
    stderr_tail: str = ""
    #: The traceback as it was in the job; empty where its function did not raise.
    remote_traceback: str = ""


class ResultTooLarge(JobError):
    """A result with more bytes than are taken."""


class ResultGone(JobError):
    """The job completed, and what it returned is no longer kept."""

    def __init__(self, job: int) -> None:
        super().__init__(job)
        self.job = job

    def __str__(self) -> str:
        return (
            f"job {self.job} completed, but its result is gone: results are kept for "
            f"results.days ({DAYS} unless the site says otherwise)"
        )


def file_name(job: int | str, task: int | str, part: str = "result") -> str:
    """What a task's file is called in the folder for results."""
    return f"{job}.{task}.{part}"


def returned(value: object) -> bytes:
    """What the function gave, or why that cannot be sent."""
    try:
        body = dumps((True, value, ""))
    except Exception as error:
        kind = type(value).__name__
        raise JobError(f"result: a {kind} cannot be brought back: {error}") from error
    if len(body) > RESULT_BYTES_MAX:
        raise ResultTooLarge(
            f"result: {len(body)} bytes are too many; at most {RESULT_BYTES_MAX}: "
            "write it to a file and return its path"
        )
    return body


def raised(error: BaseException) -> bytes:
    """The exception itself if it survives the journey, else its traceback as text."""
    import traceback

    forget_own_frames(error)
    text = "".join(traceback.format_exception(error))
    try:
        body = dumps((False, error, text))
        pickle.loads(body)
    except (Exception, SystemExit):
        last = text.rstrip().rpartition("\n")[2]
        return pickle.dumps((False, JobError(last), text))
    return body


def forget_own_frames(error: BaseException) -> None:
    """A traceback begins in the user's function, unless it never came to that."""
    trace = error.__traceback__
    while trace is not None and os.path.dirname(trace.tb_frame.f_code.co_filename) == HERE:
        trace = trace.tb_next
    if trace is not None:
        error.__traceback__ = trace


def dumps(value: object) -> bytes:
    """By reference where that works, else by value."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:
        import cloudpickle

        body: bytes = cloudpickle.dumps(value)
        return body


class CallOutcome:
    """An end that was read: a value, or an exception with the traceback it had."""

    __slots__ = ("error", "value")

    def __init__(self, value: Any, error: BaseException | None) -> None:  # noqa: ANN401
        self.value = value
        self.error = error

    def give(self) -> Any:  # noqa: ANN401 - the user's own value
        """The value, or the exception raised."""
        if self.error is not None:
            raise self.error
        return self.value


def read(body: bytes) -> CallOutcome:
    """What came back. A value that cannot be read here is an error of its own."""
    try:
        good, value, text = pickle.loads(body)
    except (Exception, SystemExit) as error:
        told = f"the result cannot be read here: {type(error).__name__}: {error}"
        return CallOutcome(None, JobError(told))
    if good:
        return CallOutcome(value, None)
    value.__cause__ = RemoteTraceback(text)
    if isinstance(value, JobError):
        value.remote_traceback = text
    return CallOutcome(None, value)


def leave(folder: str, name: str, body: bytes) -> None:
    """Put a file there: complete, or not at all. The folder is nobody else's to read."""
    draft = f"{folder}/.{name}.{os.getpid()}"
    for last in (False, True):
        _make(folder)
        try:
            with open(draft, "wb") as file:
                file.write(body)
            os.replace(draft, f"{folder}/{name}")
        except FileNotFoundError:
            # Another job of this user found the folder too old, between the two lines above.
            if last:
                raise
        else:
            return


def _make(folder: str) -> None:
    own = os.path.dirname(folder)
    if os.path.basename(own).startswith(RESULTS):
        _make_own(own)
    os.makedirs(folder, mode=0o700, exist_ok=True)


def _make_own(own: str) -> None:
    """The folder that one program's results lie in, a level down: strangers do not know where.

    A stranger may have made this one first, and then could put a result of another kind there.
    The job that makes it also looks for others beside it that are too old.
    """
    try:
        os.makedirs(own, mode=0o700)
    except FileExistsError:
        state = os.lstat(own)
        if state.st_uid != os.geteuid() or state.st_mode & 0o022:
            told = f"result: {own} is not this user's alone, nothing is left there"
            raise JobError(told) from None
        os.utime(own)
    else:
        days = os.environ.get(RESULT_DAYS, "")
        drop_old(os.path.dirname(own), int(days) if days.isascii() and days.isdecimal() else DAYS)


def drop_old(place: str, days: int) -> None:
    """Remove this user's results of which the newest was left ``days`` days ago; 0: none."""
    import time

    before_s = time.time() - days * 86_400
    with os.scandir(place) as entries:
        found = [entry for entry in entries if entry.name.startswith(RESULTS)]
    for entry in found if days else ():
        try:
            state = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if state.st_uid == os.geteuid() and state.st_mtime < before_s:
            import shutil

            shutil.rmtree(entry.path, ignore_errors=True)
