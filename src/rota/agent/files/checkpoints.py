"""The folders of saved work on this node: made for their owners, measured, noted, dropped.

They lie in one root that only we may write to, which is looked at before each use: another user
may have made it first. What is inside a folder is its user's, and is touched by a child that has
become that user. What waits for one is for threads.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from rota.as_user.children import ErrandFailed, do
from rota.as_user.owners import look, owner_of
from rota.keeper.failures import NODE, OF_DISK, NotReady
from rota.rpc.messages import CheckpointFolder

if TYPE_CHECKING:
    from collections.abc import Iterable

#: To remove or measure a hundred gigabytes takes its time.
REMOVE_S, WEIGH_S = 1800.0, 30.0
#: Everybody may pass through the root, and nobody but us may put something there.
_ROOT_MODE, _WRITE_OF_OTHERS = 0o711, 0o022
#: Beside the folder of a job: what it reported, and which copy of the store it holds.
NOTE = ".json"
MARK = ".copy"


class FolderFailed(NotReady):
    """The folder of a job cannot be used; the text says why."""


def make_folder(path: str, owner: tuple[int, int] | None) -> bool:
    """A private folder for a job's saved work. Whether there is something in it already."""
    check_root(os.path.dirname(path))
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return _has_files(path, owner)
    except OSError as error:
        fault = NODE if error.errno in OF_DISK else ""
        raise FolderFailed(f"checkpoint folder {path}: {_words(error)}", fault) from None
    if owner is not None:
        os.chown(path, *owner, follow_symlinks=False)
    return False


def _has_files(path: str, owner: tuple[int, int] | None) -> bool:
    wanted = os.geteuid() if owner is None else owner[0]
    try:
        found = look(path)
        if not found.is_folder or found.uid != wanted:
            raise FolderFailed(f"checkpoint folder {path}: it is not a folder of the job's owner")
        with os.scandir(path) as entries:
            return next(entries, None) is not None
    except OSError as error:
        raise FolderFailed(f"checkpoint folder {path}: {_words(error)}") from None


def check_root(root: str) -> None:
    """Make it where it is missing; refuse it unless it is a folder of ours and no link."""
    try:
        try:
            status = os.lstat(root)
        except FileNotFoundError:
            os.makedirs(root, _ROOT_MODE, exist_ok=True)
            status = os.lstat(root)
        if not stat.S_ISDIR(status.st_mode):
            raise FolderFailed(f"checkpoint folder {root}: it is a link or no folder", NODE)
        if status.st_uid != os.geteuid():
            raise FolderFailed(
                f"checkpoint folder {root}: it belongs to user {status.st_uid}, not to the agent's "
                f"({os.geteuid()})",
                NODE,
            )
        if stat.S_IMODE(status.st_mode) & _WRITE_OF_OTHERS:
            raise FolderFailed(f"checkpoint folder {root}: others may write to it", NODE)
        if stat.S_IMODE(status.st_mode) != _ROOT_MODE:
            os.chmod(root, _ROOT_MODE)
    except OSError as error:
        raise FolderFailed(f"checkpoint folder {root}: {_words(error)}", NODE) from None


def _words(error: OSError) -> str:
    return (error.strerror or "failed").lower()


def weight(folder: str) -> tuple[int, int, float]:
    """How many files there are, how many bytes, and when the newest was written."""
    try:
        told = do(owner_of(folder), "weigh", WEIGH_S, folder=folder)
    except FileNotFoundError:
        return 0, 0, 0.0
    return told["files"], told["size"], told["newest_s"]


def _weight(folder: str) -> tuple[int, int, float]:
    """In a list, a folder that cannot be looked into is one of unknown weight."""
    try:
        return weight(folder)
    except (ErrandFailed, OSError):
        return 0, 0, 0.0


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
                files, size, newest_s = _weight(entry.path) if chosen else (0, 0, 0.0)
                changed_s = max(newest_s, _changed_s(entry.path))
                found.append(CheckpointFolder(entry.name, files, size, changed_s))
    return tuple(sorted(found, key=lambda folder: folder.name))


def _changed_s(folder: str) -> float:
    try:
        return look(folder).changed_s
    except OSError:
        return 0.0  # Something is mounted there, or it has just gone.


def note(folder: str, body: bytes) -> None:
    """What the job reported, in a file beside its folder that its owner can read."""
    try:
        owner = look(folder)
    except FileNotFoundError:
        return  # It has no folder on this node.
    path = folder + NOTE
    fresh = path + ".new"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(body)
        if os.geteuid() == 0:
            os.fchown(fd, owner.uid, owner.gid)
    os.rename(fresh, path)


def drop(folder: str) -> None:
    """Remove the folder of a job and the note beside it."""
    remove_folder(folder)
    for ending in (NOTE, MARK):
        with suppress(FileNotFoundError):
            os.unlink(folder + ending)


def drop_part(folder: str, path: str) -> None:
    """Remove a file or folder inside; a path that leads out of it names nothing."""
    with suppress(FileNotFoundError):
        do(owner_of(folder), "drop", REMOVE_S, folder=folder, path=path)


def remove_folder(path: str) -> None:
    """One that lies in a folder of ours: its user empties it, and we remove it."""
    try:
        if not look(path).is_folder:
            os.unlink(path)
            return
        try:
            os.rmdir(path)
        except OSError:
            do(owner_of(path), "remove", REMOVE_S, folder=path)
            os.rmdir(path)
    except FileNotFoundError:
        return
