"""How a job says how far it is: a line behind others in a file of its own, and no request.

The file holds a part of the past: when it is full every second line goes, so it stays small and
still reaches back to the beginning.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import TYPE_CHECKING, Any

from rota.client import outcomes

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The agent of the node says where; in Slurm the batch script does.
PROGRESS_FILE = "ROTA_PROGRESS_FILE"
FILE_BYTES_MAX = 64 * 1024
FIGURES_MAX, NAME_MAX, MESSAGE_MAX = 16, 40, 200
#: These words of a report are its own.
OWN = frozenset({"fraction", "message", "at_s"})


def say(
    environment: Mapping[str, str], fraction: float, message: str, figures: Mapping[str, Any]
) -> None:
    """Leave a report where this job has a place for it; ``RuntimeError``: it has none."""
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"fraction: {fraction!r} is not valid; 0.0 to 1.0")
    folder, path = environment.get(outcomes.RESULT_DIR, ""), environment.get(PROGRESS_FILE, "")
    if not folder and not path:
        raise RuntimeError("progress: no place for it here; jobs on Kubernetes and Ray have none")
    said = {"fraction": fraction, "message": message, "at_s": round(time.time(), 3), **figures}
    if folder:
        job, task = environment["ROTA_JOB_ID"], environment.get("ROTA_TASK_INDEX", "0")
        body = json.dumps(said).encode()
        outcomes.leave(folder, outcomes.file_name(job, task, "progress"), body)
    if path:
        _add(path, _line(said))


def _line(said: dict[str, Any]) -> bytes:
    """What goes into the file: numbers, and a message that is not too long."""
    numbers = {name: value for name, value in said.items() if name not in OWN and is_figure(value)}
    kept = dict([(name[:NAME_MAX], value) for name, value in numbers.items()][:FIGURES_MAX])
    own = {"fraction": said["fraction"], "message": said["message"][:MESSAGE_MAX]}
    text = json.dumps({**kept, **own, "at_s": said["at_s"]}, ensure_ascii=False)
    return text.encode(errors="replace") + b"\n"


def is_figure(value: object) -> bool:
    """Whether it can be a point of a curve."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e300


def _add(path: str, line: bytes) -> None:
    """Behind what is there, by one process at a time."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if not _is_at(fd, path):
                continue
            if os.fstat(fd).st_size + len(line) > FILE_BYTES_MAX:
                _thin(fd, path, line)
            else:
                os.write(fd, line)
            return
        finally:
            os.close(fd)


def _is_at(fd: int, path: str) -> bool:
    """Whether nobody has put a thinner one in its place while we waited."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(fd), there)


def _thin(fd: int, path: str, line: bytes) -> None:
    """As a whole or not at all: somebody may be reading it."""
    lines = os.pread(fd, FILE_BYTES_MAX, 0).splitlines(keepends=True)
    draft = f"{path}.new"
    with open(draft, "wb", opener=_for_me_alone) as file:
        file.write(b"".join(lines[::2]) + line)
    os.replace(draft, path)


def _for_me_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
