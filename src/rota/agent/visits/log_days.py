"""What ended attempts printed, in a folder for each day, which goes as a whole once it is old.

The keeper opens all logs in one folder. Some time after its end what an attempt printed is moved to
the folder of the day on which it was last touched; a file that stayed empty is removed. So the
folder of the living stays small, and nobody looks through the logs of years to find the old ones.
Files are moved and removed by name: none is opened, and only the agent makes names here.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from rota.agent.chores import Complaints
from rota.believed_time import believed_s
from rota.paths import ENDED_LOGS

if TYPE_CHECKING:
    from pathlib import Path

#: What was touched since then stays where it is.
QUIET_S = 3600.0
STAYS = "logs of ended attempts that stay where they are"
#: In the agent's folder: how late it was when old days were last looked for.
LOOKED = "logs-looked"


def file_away(
    logs: Path, before_s: float, alive: frozenset[str], complaints: Complaints | None = None
) -> int:
    """Move logs that were last touched before a time, but those of living attempts. How many.

    What cannot be moved stays: its user may have mounted something over it.
    """
    moved, complaints = 0, complaints or Complaints(STAYS)
    try:
        with os.scandir(logs) as entries:
            for entry in entries:
                try:
                    moved += _uid(entry) not in alive and _file(logs, entry, before_s)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    complaints.add(entry.name, error)
    except OSError as error:
        complaints.add(str(logs), error)
    complaints.tell()
    return moved


def _file(logs: Path, entry: os.DirEntry[str], before_s: float) -> bool:
    status = entry.stat(follow_symlinks=False)
    # Of the times of a file the one that its owner cannot choose.
    touched_s = status.st_ctime
    if stat.S_ISDIR(status.st_mode) or touched_s >= before_s:
        return False
    if not status.st_size:
        os.unlink(entry.path)
        return False
    os.rename(entry.path, _day(logs, touched_s) / entry.name)
    return True


def _uid(entry: os.DirEntry[str]) -> str:
    return entry.name.rpartition(".")[0]


def _day(logs: Path, at_s: float) -> Path:
    """A process that knows the name of a file gets to it; none sees which files there are."""
    folder = logs / ENDED_LOGS / datetime.fromtimestamp(at_s, UTC).date().isoformat()
    if not folder.exists():
        folder.parent.mkdir(mode=0o755, exist_ok=True)
        folder.mkdir(mode=0o711, exist_ok=True)
    return folder


def drop_old_days(
    logs: Path, before_s: float, alive: frozenset[str], complaints: Complaints | None = None
) -> int:
    """Remove the days that were over before a time, but for logs of living attempts. How many."""
    before = datetime.fromtimestamp(before_s, UTC).date()
    days, complaints = 0, complaints or Complaints(STAYS)
    with suppress(FileNotFoundError), os.scandir(logs / ENDED_LOGS) as folders:
        for folder in folders:
            if _is_over(folder.name, before):
                days += _drop(folder.path, alive, complaints)
    complaints.tell()
    return days


def _is_over(name: str, before: date) -> bool:
    """What is not named after a day is not ours."""
    try:
        return date.fromisoformat(name) + timedelta(days=1) <= before
    except ValueError:
        return False


def trusted_s(agent: Path, now_s: float) -> float:
    """The time by which days are old, where the clock may be wrong. ``agent``: its folder."""
    path, known_s = agent / LOOKED, None
    with suppress(OSError, ValueError):
        known_s = float(path.read_text())
    found_s = believed_s(now_s, known_s)
    # On a full disk it is as before.
    with suppress(OSError), open(path, "w", opener=_for_me_alone) as file:
        file.write(repr(found_s))
    return found_s


def _for_me_alone(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _drop(folder: str, alive: frozenset[str], complaints: Complaints) -> bool:
    kept = False
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    if _uid(entry) in alive:
                        kept = True
                    else:
                        os.unlink(entry.path)
                except OSError as error:
                    kept = True
                    complaints.add(entry.name, error)
        if not kept:
            os.rmdir(folder)
    except OSError as error:
        complaints.add(folder, error)
        return False
    return not kept
