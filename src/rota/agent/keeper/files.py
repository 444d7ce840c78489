"""Output files of jobs, opened as the job wants them. The keeper runs this without the package."""

from __future__ import annotations

import os

#: Folders are made as they are needed; what is there already is kept, or not.
APPEND, TRUNCATE = "append", "truncate"


def open_as_asked(path: str, flags: int, mode: str) -> int:
    """With a mode, missing folders are made, by whoever the process is by then."""
    if mode == TRUNCATE and not path.startswith("/dev/"):
        flags |= os.O_TRUNC
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        if not mode:
            raise
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return os.open(path, flags, 0o666)
