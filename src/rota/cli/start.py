"""Where ``rota`` begins: before anything of weight is imported."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Import the commands and run one of them.

    Ctrl-C in these tenths of a second ends us without a word: nothing has happened yet.
    """
    fill_standard_streams()
    heeds = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeds:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from rota.cli import main as command_line

    if heeds:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command_line.main()


def fill_standard_streams() -> None:
    """One of our three streams that is closed is not wanted: it leads nowhere.

    Left closed, its number would be given to the next file or connection that we open.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            fd = os.open(os.devnull, os.O_RDWR)
            if fd != number:
                os.dup2(fd, number, inheritable=True)
                os.close(fd)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - stays open
