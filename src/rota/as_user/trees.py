"""Folders of a user's files: removed, weighed, and carried between the folder and the agent.

No link is ever followed, and only files of the user count. The child runs this file without the
package around it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rota.as_user.child import ChildRefusal, within
    from rota.as_user.frames import receive, send
else:
    from as_user.child import ChildRefusal, within
    from as_user.frames import receive, send

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
PIECE_BYTES = 1 << 20
#: Beyond this many files or folders nobody saves work; deeper ones are not looked into.
ENTRIES_MAX, DEPTH_MAX = 1_000_000, 100
#: How folders are called that wait at the top for being emptied.
_WAITS = ".rota-goes-"


def remove(order: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Empty the folder; the folder itself is the agent's to remove, as it lies in one of its own.

    A folder inside is emptied into the top one before it goes: so the depth does not matter.
    """
    top = os.open(order["folder"], FOLDER)
    os.fchmod(top, 0o700)
    trouble: dict[str, str] = {}
    number = 0
    while True:
        with os.scandir(top) as entries:
            names = [entry.name for entry in entries if entry.name not in trouble]
        if not names:
            break
        for name in names:
            try:
                number = _remove_one(name, top, number)
            except OSError as error:
                trouble[name] = f"{name}: {(error.strerror or str(error)).lower()}"
    return ({"error": next(iter(trouble.values()))} if trouble else {}), b""


def _remove_one(name: str, top: int, number: int) -> int:
    if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=top)
        return number
    with suppress(OSError):
        os.rmdir(name, dir_fd=top)
        return number
    os.chmod(name, 0o700, dir_fd=top)
    folder = os.open(name, FOLDER, dir_fd=top)
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for below, is_folder in found:
            if not is_folder:
                os.unlink(below, dir_fd=folder)
                continue
            # To move a folder means to write its "..": that needs its own rights, too.
            os.chmod(below, 0o700, dir_fd=folder)
            number = _move_up(below, folder, top, number)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=top)
    return number


def _move_up(name: str, folder: int, top: int, number: int) -> int:
    while True:
        number += 1
        try:
            os.rename(name, f"{_WAITS}{number}", src_dir_fd=folder, dst_dir_fd=top)
        except (FileExistsError, NotADirectoryError):
            continue
        except OSError as error:
            if error.errno == 39:  # ENOTEMPTY: the user has one of this name
                continue
            raise
        return number


def drop_part(order: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Remove a file or folder inside; a path that leads out of it names nothing."""
    *above, name = order["path"].split("/")
    if not name or ".." in (*above, name) or "." in (*above, name):
        return {}, b""
    with suppress(OSError):  # It is not there, or not what it was said to be.
        folder = os.open(order["folder"], FOLDER)
        for part in above:
            folder = os.open(part, FOLDER, dir_fd=folder)
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            answer, _ = remove({"folder": f"/proc/self/fd/{folder}/{name}"})
            os.rmdir(name, dir_fd=folder)
            return answer, b""
        os.unlink(name, dir_fd=folder)
    return {}, b""


def walk(folder: str) -> Iterator[tuple[str, int, os.stat_result]]:
    """Every regular file of the user in it: relative path, open descriptor, status.

    The descriptor is closed when the next file is asked for.
    """
    waiting, count = [""], 0
    while waiting:
        here = waiting.pop()
        try:
            fd = _open_below(folder, here)
        except OSError:
            continue
        try:
            with os.scandir(fd) as entries:
                found = sorted(
                    (entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries
                )
            count += len(found)
            if count > ENTRIES_MAX:
                raise ChildRefusal(f"it has more than {ENTRIES_MAX} files")
            below = [f"{here}{name}/" for name, is_folder in found if is_folder]
            waiting += [path for path in reversed(below) if path.count("/") <= DEPTH_MAX]
            for name, is_folder in found:
                if not is_folder:
                    yield from _file(here, name, fd)
        finally:
            os.close(fd)


def _open_below(folder: str, path: str) -> int:
    fd = os.open(folder, FOLDER)
    for part in path.split("/")[:-1]:
        below = os.open(part, FOLDER, dir_fd=fd)
        os.close(fd)
        fd = below
    return fd


def _file(here: str, name: str, folder: int) -> Iterator[tuple[str, int, os.stat_result]]:
    try:
        file = os.open(name, _FILE, dir_fd=folder)
    except OSError:
        return
    try:
        status = os.fstat(file)
        # A hard link to somebody else's file is not saved work, either.
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
            yield here + name, file, status
    finally:
        os.close(file)


def weigh(order: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """How many files there are, how many bytes, and when the newest was written."""
    files = size = 0
    newest_s = 0.0
    for _, _, status in walk(order["folder"]):
        files += 1
        size += status.st_size
        newest_s = max(newest_s, status.st_mtime)
    return {"files": files, "size": size, "newest_s": newest_s}, b""


def digest(order: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Every file with its digest; told one by one, because there may be many."""
    total = 0
    for name, fd, status in walk(order["folder"]):
        total += status.st_size
        if order["most_bytes"] and total > order["most_bytes"]:
            raise ChildRefusal("it grew beyond its bound")
        found = hashlib.sha256()
        with open(fd, "rb", closefd=False) as file:
            while piece := file.read(PIECE_BYTES):
                within(order["limit_s"])
                found.update(piece)
        entry = {
            "sha256": found.hexdigest(),
            "size": status.st_size,
            "mode": status.st_mode & 0o777,
        }
        _tell(order, {"name": name, "entry": entry})
    return {}, b""


def _tell(order: dict[str, Any], found: dict[str, Any]) -> None:
    from json import dumps

    within(order["limit_s"])
    send(1, dumps(found).encode())


def send_files(order: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The bytes of files that are asked for by name, one name at a time; an empty one ends it.

    A file that is no longer there ends at once: its digest will not be what it was.
    """
    while name := receive(0).decode("utf-8", "surrogateescape"):
        within(order["limit_s"])
        here, _, last = name.rpartition("/")
        with suppress(OSError):
            folder = _open_below(order["folder"], f"{here}/" if here else "")
            for _, fd, _ in _file(here, last, folder):
                while piece := os.read(fd, PIECE_BYTES):
                    within(order["limit_s"])
                    send(1, piece)
            os.close(folder)
        send(1, b"")
    return {}, b""


def take_files(order: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Write files into the folder: a name and its mode, the bytes, an empty piece; empty: done."""
    while told := receive(0):
        within(order["limit_s"])
        entry = loads(told)
        parts = entry["name"].split("/")
        if any(part in ("", ".", "..") for part in parts) or len(parts) > DEPTH_MAX:
            raise ChildRefusal(f"the copy names {entry['name']!r}")
        folder = os.open(order["folder"], FOLDER)
        for part in parts[:-1]:
            with suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=folder)
            below = os.open(part, FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        with open(os.open(parts[-1], _FRESH, 0o600, dir_fd=folder), "wb") as file:
            while piece := receive(0):
                within(order["limit_s"])
                file.write(piece)
            os.fchmod(file.fileno(), entry["mode"] & 0o777)
        os.close(folder)
    return {}, b""
