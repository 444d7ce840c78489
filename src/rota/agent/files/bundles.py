"""Working folders that travel with jobs: kept packed under their digest, unpacked for each try.

What comes from a user is unpacked with care: no path leads out of the folder, no devices, no
links to somewhere else, no more bytes and files than a working folder has.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Unpacked it may weigh so many times what it weighs packed, and a little in any case.
GROWTH_MAX = 50
GROWTH_FREE_BYTES = 64 << 20
MEMBERS_MAX = 200_000
#: The packed ones that are kept for the next job: the latest used, up to this much.
CACHE_BYTES_MAX = 10 << 30
_DIGEST_LENGTH = 64


class BundleFailed(Exception):
    """The working folder cannot be had; the text says why."""


class Bundles:
    """The packed ones and the unpacked ones of this node."""

    def __init__(self, folder: Path) -> None:
        self._packed = str(folder / "bundles")
        self._unpacked = str(folder / "work")
        os.makedirs(self._packed, 0o700, exist_ok=True)
        os.makedirs(self._unpacked, 0o711, exist_ok=True)

    def folder_of(self, uid: str) -> str:
        return f"{self._unpacked}/{uid}"

    def has(self, digest: str) -> bool:
        check_digest(digest)
        return os.path.exists(f"{self._packed}/{digest}")

    def add(self, digest: str, offset: int, body: bytes) -> None:
        """A further piece of one that is being fetched; the first one begins it anew."""
        with open(f"{self._packed}/{digest}.part", "ab" if offset else "wb") as file:
            file.write(body)

    def keep(self, digest: str) -> None:
        """Take in what was fetched, if it is what was asked for."""
        path = f"{self._packed}/{digest}.part"
        found = _digest_of(path)
        if found != digest:
            os.unlink(path)
            raise BundleFailed(f"bundle {digest[:12]}: what arrived has the digest {found[:12]}")
        os.rename(path, f"{self._packed}/{digest}")
        self._make_room(digest)

    def unpack(self, digest: str, uid: str, owner: tuple[int, int] | None) -> str:
        """A fresh copy for one attempt; it belongs to the job's user."""
        packed, target = f"{self._packed}/{digest}", self.folder_of(uid)
        os.utime(packed)
        with suppress(FileNotFoundError):
            shutil.rmtree(target)
        os.mkdir(target, 0o700)
        try:
            unpack(packed, target)
        except (tarfile.TarError, OSError, EOFError, BundleFailed) as error:
            shutil.rmtree(target, ignore_errors=True)
            raise BundleFailed(f"bundle {digest[:12]}: {error}") from None
        if owner is not None:
            _hand_over(target, owner)
        return target

    def remove(self, uid: str) -> None:
        """The copy of an attempt that is over."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.folder_of(uid))

    def left_over(self) -> set[str]:
        """Attempts that have a copy here."""
        return set(os.listdir(self._unpacked))

    def _make_room(self, fresh: str) -> None:
        found = []
        with os.scandir(self._packed) as entries:
            for entry in entries:
                if entry.name != fresh and not entry.name.endswith(".part"):
                    status = entry.stat()
                    found.append((status.st_mtime, status.st_size, entry.path))
        free = CACHE_BYTES_MAX - os.path.getsize(f"{self._packed}/{fresh}")
        for used_s, size, path in sorted(found, reverse=True):
            free -= size
            if free < 0 and used_s < time.time() - 60:
                os.unlink(path)


def check_digest(digest: str) -> None:
    if len(digest) != _DIGEST_LENGTH or not set(digest) <= set("0123456789abcdef"):
        raise BundleFailed(f"bundle {digest[:80]!r}: not a sha256 in hexadecimal digits")


def unpack(packed: str, target: str) -> None:
    """All members into an empty folder of ours, or an error that names the bad one."""
    most = os.path.getsize(packed) * GROWTH_MAX + GROWTH_FREE_BYTES
    with tarfile.open(packed, "r:*") as archive:
        archive.extractall(target, members=_checked(archive, most), filter="data")


def _checked(archive: tarfile.TarFile, most: int) -> Iterator[tarfile.TarInfo]:
    """The members, counted before they are written; the filter ``data`` looks at their paths."""
    left = most
    for number, member in enumerate(archive):
        if number >= MEMBERS_MAX:
            raise BundleFailed(f"it has more than {MEMBERS_MAX} files")
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            raise BundleFailed(f"{member.name!r} is neither a file, a folder nor a link")
        left -= member.size
        if left < 0:
            raise BundleFailed(f"unpacked it has more than {most} bytes")
        yield member


def _hand_over(folder: str, owner: tuple[int, int]) -> None:
    for here, folders, names in os.walk(folder):
        for name in (*folders, *names):
            os.chown(os.path.join(here, name), *owner, follow_symlinks=False)
    os.chown(folder, *owner)


def _digest_of(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
