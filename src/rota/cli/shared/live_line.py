"""A line at a terminal that is written over while something lasts."""

from __future__ import annotations

import os
import sys
import threading

import click

CLEAR = "\r\x1b[K"


class LiveLine:
    """On stderr, where several threads print, and gone before anything else is printed there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown = self._over = False

    def show(self, text: str) -> None:
        """Instead of what stood there. It is cut to one row: nothing takes away a second one."""
        with self._lock:
            if not self._over:
                self._shown = True
                # Of this very terminal: $COLUMNS may be another's, and stdout a file.
                most = os.get_terminal_size(sys.stderr.fileno()).columns - 1
                click.echo(f"{CLEAR}{text[:most]}", nl=False, err=True)

    def end(self) -> None:
        """Take it away for good."""
        with self._lock:
            self._over = True
            if self._shown:
                self._shown = False
                click.echo(CLEAR, nl=False, err=True)
