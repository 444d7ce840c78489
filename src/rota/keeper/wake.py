"""What wakes the keeper: signals as bytes in a pipe. It runs this without the package around it."""

from __future__ import annotations

import os
import signal

_TAKEN = (
    *(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE),
)


def catch_signals() -> int:
    """Where the numbers of signals are read. Real functions: ignoring would be inherited."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in _TAKEN:
        signal.signal(number, lambda *_: None)
    return read
