"""The folders of saved work on this node: made for their owners, measured, noted, dropped.

They lie in one root that only we may write to. What is inside a folder is its user's, who may put
links there that lead anywhere: we never follow one.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from rota.rpc.messages import CheckpointFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Beside the folder of a job: what it reported, and which copy of the store it holds.
NOTE = ".json"
MARK = ".copy"


class FolderFailed(Exception):
    """The folder of a job cannot be used; the text says why."""


def make_folder(path: str, owner: tuple[int, int] | None) -> bool:
    """A private folder for a job's saved work. Whether there is something in it already."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return _has_files(path, owner)
    except FileNotFoundError:
        _make_root(os.path.dirname(path))
        with suppress(FileExistsError):  # another task of the same job was quicker
            os.mkdir(path, 0o700)
    except OSError as error:
        raise FolderFailed(f"checkpoint folder {path}: {_words(error)}") from None
    if owner is not None:
        os.chown(path, *owner, follow_symlinks=False)
    return False


def _has_files(path: str, owner: tuple[int, int] | None) -> bool:
    status = os.lstat(path)
    wanted = os.geteuid() if owner is None else owner[0]
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != wanted:
        raise FolderFailed(f"checkpoint folder {path}: it is not a folder of the job's owner")
    with os.scandir(path) as entries:
        return next(entries, None) is not None


def _make_root(root: str) -> None:
    """Everybody may pass through it, and nobody but us may put something there."""
    try:
        os.makedirs(root, exist_ok=True)
        os.chmod(root, 0o711)
    except OSError as error:
        raise FolderFailed(f"checkpoint folder {root}: {_words(error)}") from None


def _words(error: OSError) -> str:
    return (error.strerror or "failed").lower()


def walk(folder: str) -> Iterator[tuple[str, int, os.stat_result]]:
    """Every regular file of the folder's owner in it: relative path, open descriptor, status.

    The descriptor is closed when the next file is asked for.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        owner = os.lstat(folder).st_uid
        for here, folders, names, fd in os.fwalk(folder, follow_symlinks=False):
            folders.sort()
            for name in sorted(names):
                with suppress(OSError):
                    file = os.open(
                        name,
                        os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
                        dir_fd=fd,
                    )
                    try:
                        status = os.fstat(file)
                        # A hard link to somebody else's file is not saved work, either.
                        if stat.S_ISREG(status.st_mode) and status.st_uid == owner:
                            path = os.path.relpath(os.path.join(here, name), folder)
                            yield path, file, status
                    finally:
                        os.close(file)


def weight(folder: str) -> tuple[int, int, float]:
    """How many files there are, how many bytes, and when the newest was written."""
    files = size = 0
    newest_s = 0.0
    for _, _, status in walk(folder):
        files += 1
        size += status.st_size
        newest_s = max(newest_s, status.st_mtime)
    return files, size, newest_s


def job_of(name: str) -> int:
    """The id in the name of a job's folder, ``12-3f9a1c2e``; 0 for anything else."""
    number, dash, rest = name.partition("-")
    return int(number) if dash and number.isdecimal() and rest.isalnum() else 0


def listing(root: str, names: Iterable[str] = ()) -> tuple[CheckpointFolder, ...]:
    """All folders by name, or these with what is in them."""
    chosen = [os.path.basename(name) for name in names]
    found = []
    with suppress(OSError), os.scandir(root) as entries:
        for entry in entries:
            ours = job_of(entry.name) and entry.is_dir(follow_symlinks=False)
            if ours and (not chosen or entry.name in chosen):
                status = entry.stat(follow_symlinks=False)
                files, size, newest_s = weight(entry.path) if chosen else (0, 0, 0.0)
                changed_s = max(newest_s, status.st_mtime)
                found.append(CheckpointFolder(entry.name, files, size, changed_s))
    return tuple(sorted(found, key=lambda folder: folder.name))


def note(folder: str, body: bytes) -> None:
    """What the job reported, in a file beside its folder that its owner can read."""
    try:
        owner = os.lstat(folder)
    except FileNotFoundError:
        return  # It has no folder on this node.
    path = folder + NOTE
    fresh = path + ".new"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(body)
        if os.geteuid() == 0:
            os.fchown(fd, owner.st_uid, owner.st_gid)
    os.rename(fresh, path)


def drop(folder: str) -> None:
    """Remove the folder of a job and the note beside it."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
    for ending in (NOTE, MARK):
        with suppress(FileNotFoundError):
            os.unlink(folder + ending)


def drop_part(folder: str, path: str) -> None:
    """Remove a file or folder inside; a path that leads out of it names nothing."""
    *above, name = path.split("/")
    if not name or ".." in (*above, name) or "." in (*above, name):
        return
    opened: list[int] = []
    try:
        opened.append(os.open(folder, _FOLDER))
        for part in above:
            opened.append(os.open(part, _FOLDER, dir_fd=opened[-1]))
        _remove(name, opened[-1])
    except OSError:
        return  # It is not there, or not what it was said to be.
    finally:
        for fd in opened:
            os.close(fd)


def _remove(name: str, dir_fd: int) -> None:
    if stat.S_ISDIR(os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode):
        shutil.rmtree(name, dir_fd=dir_fd)
    else:
        os.unlink(name, dir_fd=dir_fd)
