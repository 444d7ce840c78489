"""Working folders that travel with jobs: kept packed under their digest, unpacked for each try.

What comes from a user is unpacked by that user: by a child that has no other rights, into a folder
that is the user's, with checks of our own (``as_user.unpack``). We make and remove that one folder
and touch nothing in it.
"""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING, Any

from rota.agent.files.checkpoints import remove_folder
from rota.as_user.children import ErrandFailed, once
from rota.as_user.owners import owner_of
from rota.keeper.failures import NODE, OF_DISK, NotReady

if TYPE_CHECKING:
    from pathlib import Path

    from rota.as_user.children import Child

#: Unpacked it may weigh this many times what it weighs packed, and a little in any case.
GROWTH_MAX = 50
GROWTH_FREE_BYTES = 64 << 20
MEMBERS_MAX = 200_000
DEPTH_MAX = 100
#: To unpack one takes no longer.
UNPACK_S = 1800.0
#: The packed ones that are kept for the next job: the latest used, up to this much.
CACHE_BYTES_MAX = 10 << 30
_DIGEST_LENGTH = 64


class BundleFailed(NotReady):
    """The working folder cannot be had; the text says why."""


class NodeBundles:
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
        """A fresh copy for one attempt; it belongs to the job's user. For threads."""
        target = self.folder_of(uid)
        self.remove(uid)
        os.mkdir(target, 0o700)
        if owner is not None:
            os.chown(target, *owner, follow_symlinks=False)
        try:
            self._unpack(digest, target)
        except ErrandFailed as error:
            self.remove(uid)
            fault = NODE if error.number in OF_DISK else ""
            raise BundleFailed(f"bundle {digest[:12]}: {error}", fault) from None
        except OSError:
            self.remove(uid)
            raise
        return target

    def _unpack(self, digest: str, target: str) -> None:
        packed = f"{self._packed}/{digest}"
        os.utime(packed)
        fd = os.open(packed, os.O_RDONLY | os.O_CLOEXEC)

        def work(child: Child) -> dict[str, Any]:
            most = os.fstat(fd).st_size * GROWTH_MAX + GROWTH_FREE_BYTES
            child.order(
                "unpack",
                UNPACK_S,
                packed_fd=fd,
                target=target,
                bytes=most,
                members=MEMBERS_MAX,
                depth=DEPTH_MAX,
            )
            return child.answer(UNPACK_S)[0]

        try:
            once(owner_of(target), work, fds=(fd,))
        finally:
            os.close(fd)

    def remove(self, uid: str) -> None:
        """The copy of an attempt that is over. For threads."""
        remove_folder(self.folder_of(uid))

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


def _digest_of(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
