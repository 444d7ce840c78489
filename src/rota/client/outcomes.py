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
HERE = os.path.dirname(__file__)


class RemoteTraceback(Exception):
    """The cause of an exception that a job raised: the traceback as it was there."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""' if self.args else ""


class JobError(Exception):
    """The job raised, or returned, something that cannot be brought back; the text says what."""


class ResultTooLarge(JobError):
    """A result with more bytes than are taken."""


def file_name(job: int | str, task: int | str, part: str = "result") -> str:
    """What a task's file is called in the folder for results."""
    return f"{job}.{task}.{part}"


def returned(value: object) -> bytes:
    """What the function gave, or why that cannot be sent."""
    body = dumps((True, value, ""))
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
    except Exception:
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


class Outcome:
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


def read(body: bytes) -> Outcome:
    """What came back. A value that cannot be read here is an error of its own."""
    try:
        good, value, text = pickle.loads(body)
    except Exception as error:
        told = f"the result cannot be read here: {type(error).__name__}: {error}"
        return Outcome(None, JobError(told))
    if good:
        return Outcome(value, None)
    value.__cause__ = RemoteTraceback(text)
    return Outcome(None, value)


def leave(folder: str, name: str, body: bytes) -> None:
    """Put a file there: complete, or not at all. The folder is nobody else's to read."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    draft = f"{folder}/.{name}.{os.getpid()}"
    with open(draft, "wb") as file:
        file.write(body)
    os.replace(draft, f"{folder}/{name}")
