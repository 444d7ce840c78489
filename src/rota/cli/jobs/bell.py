"""Signals that wait for their turn: Ctrl-C rings a bell instead of breaking off what is going on.

``KeyboardInterrupt`` may come between any two steps, and then nobody cancels the job that was
just submitted. A pipe is safe in a signal handler, where events and locks are not.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Self

SIGNAL = b"s"
DONE = b"d"
#: Nobody reads our output any more, as after `head`.
UNREAD = b"u"
_CAUGHT = (signal.SIGINT, signal.SIGTERM)


class Bell:
    """Rung by signals and by other threads, heard by the main thread when it listens."""

    def __init__(self) -> None:
        self._hear, self._tell = os.pipe()
        os.set_blocking(self._tell, False)
        self._before = {number: signal.getsignal(number) for number in _CAUGHT}
        #: Until it is unset, a second signal breaks off what the first could not.
        self.impatient = True
        self._rung = 0

    def __enter__(self) -> Self:
        self._catch()
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        # The writing end stays: a thread that is left behind may still ring it.
        os.close(self._hear)

    def _catch(self) -> None:
        for number in _CAUGHT:
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._rung += 1
        if self.impatient and self._rung > 1:
            raise KeyboardInterrupt
        self.ring(SIGNAL)

    def ring(self, tone: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._tell, tone)

    def listen(self, timeout_s: float) -> bytes:
        """What was rung since the last time; empty when nothing was within the time."""
        if not select.select([self._hear], [], [], timeout_s)[0]:
            return b""
        return os.read(self._hear, 64)

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Signals break off again, for a question that Ctrl-C may answer."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            yield
        finally:
            self._catch()
