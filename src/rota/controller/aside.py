"""A question that takes long, worked out aside: by a child that is a copy of this process.

The child sees everything as it is at this moment and may try changes on it. Nobody else waits for
it but for the moment of the fork, and nothing of it stays. It runs pure code alone: it has none of
the threads, sockets and files of its parent, and ends with it.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import pickle
import resource
import signal
import traceback
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Found = TypeVar("Found")

_PR_SET_PDEATHSIG = 1
#: The ticks go first.
_NICE = 5
#: Read at one go, once something has come.
_PART = 1 << 20
_prctl = ctypes.CDLL(None).prctl


class Unanswered(Exception):
    """No answer: no child could be made, it took too long, or it was ended."""


async def aside(work: Callable[[], Found], within_s: float) -> Found:
    """What ``work`` returns or raises, as of this moment. Raises ``Unanswered``, too."""
    try:
        pid, reading = _begun(work, within_s)
    except OSError as error:
        raise Unanswered(f"no process can be started: {error.strerror}") from None
    try:
        async with asyncio.timeout(within_s):
            body = await _read(reading)
    except TimeoutError:
        raise Unanswered(f"it takes longer than {within_s:g} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        # To give its memory back takes a while.
        asyncio.get_running_loop().run_in_executor(None, os.waitpid, pid, 0)
    if not body:
        raise Unanswered("it broke off")
    found, broken = pickle.loads(body)
    if broken is not None:
        raise broken
    answer: Found = found
    return answer


def _begun(work: Callable[[], Found], within_s: float) -> tuple[int, int]:
    """The child, and where its answer comes."""
    parent = os.getpid()
    reading, writing = os.pipe()
    # What a signal does here is not for the child to do.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with warnings.catch_warnings():
            # Newer Pythons warn of threads, whose locks a child must not wait for. This one does
            # not use what they use; and if it did, it would end in time.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            _answer(work, writing, parent, within_s)
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid, reading


async def _read(file: int) -> bytes:
    """Everything up to the end; then it is closed."""
    loop, parts = asyncio.get_running_loop(), list[bytes]()
    end = loop.create_future()

    def come() -> None:
        part = os.read(file, _PART)
        parts.append(part)
        if not part and not end.done():
            end.set_result(None)

    loop.add_reader(file, come)
    try:
        await end
    finally:
        loop.remove_reader(file)
        os.close(file)
    return b"".join(parts)


def _answer(work: Callable[[], Found], writing: int, parent: int, within_s: float) -> NoReturn:
    """The life of the child. Nothing of its parent's is closed properly, or finished."""
    try:
        _leave(writing, parent, within_s)
        try:
            told = pickle.dumps((work(), None))
        except Exception as error:
            told = pickle.dumps((None, _portable(error)))
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(told)
    finally:
        os._exit(0)


def _portable(error: Exception) -> Exception:
    """The error, and where it was met; one that cannot be sent is only told of."""
    error.add_note("aside: " + "".join(traceback.format_tb(error.__traceback__)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return Unanswered(f"{type(error).__name__}: {error}")
    return error


def _leave(writing: int, parent: int, within_s: float) -> None:
    """Be nobody but a child that computes: of what the parent has open only the pipe is left."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
    gc.disable()
    # Not up to the limit, which may be a thousand million.
    last = max(map(int, os.listdir("/proc/self/fd")))
    os.closerange(0, writing)
    os.closerange(writing + 1, last + 1)
    limit_s = int(within_s) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
    os.nice(_NICE)
    # Where memory ends, it is not the parent that is ended.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")
