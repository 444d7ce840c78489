"""Where the processes of Rota write what they do: a file each, rotated, from a level on."""

from __future__ import annotations

import logging
import logging.handlers
import os
from typing import TYPE_CHECKING

from rota.log_json import JsonLines
from rota.log_lines import LogLines

if TYPE_CHECKING:
    from io import TextIOWrapper
    from pathlib import Path

LOG_BYTES = 10 * 1024 * 1024
LOGS_KEPT = 3


def formatter(form: str) -> logging.Formatter:
    """Lines for people, or objects for programs."""
    if form == "json":
        return JsonLines()
    return LogLines("%(asctime)s %(levelname)s %(name)s %(message)s")


class Logbook(logging.handlers.RotatingFileHandler):
    """For our own eyes: others may pass through the folder."""

    def _open(self) -> TextIOWrapper:
        fd = os.open(
            self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        os.fchmod(fd, 0o600)
        return open(fd, "a", encoding="utf-8")


def open_logbook(
    path: Path, level: str = "info", detached: bool = True, form: str = "text"
) -> None:
    """Everything from the level on to the file; in the foreground what matters also to stderr."""
    root = logging.getLogger()
    try:
        targets: list[logging.Handler] = [Logbook(path, "a", LOG_BYTES, LOGS_KEPT)]
    except OSError:
        targets = []
    if not detached or not targets:
        targets.append(logging.StreamHandler())
        targets[-1].setLevel(logging.WARNING)
    for target in targets:
        target.setFormatter(formatter(form))
        root.addHandler(target)
    logging.getLogger("rota").setLevel(level.upper())
