"""Where the processes of Rota write what they do: a file each, rotated, from a level on."""

from __future__ import annotations

import logging
import logging.handlers
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LOG_BYTES = 10 * 1024 * 1024
LOGS_KEPT = 3


def open_logbook(path: Path, level: str = "info", detached: bool = True) -> None:
    """Everything from the level on to the file; in the foreground what matters also to stderr."""
    form = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    root = logging.getLogger()
    try:
        targets: list[logging.Handler] = [
            logging.handlers.RotatingFileHandler(path, "a", LOG_BYTES, LOGS_KEPT)
        ]
    except OSError:
        targets = []
    if not detached or not targets:
        targets.append(logging.StreamHandler())
        targets[-1].setLevel(logging.WARNING)
    for target in targets:
        target.setFormatter(form)
        root.addHandler(target)
    logging.getLogger("rota").setLevel(level.upper())
