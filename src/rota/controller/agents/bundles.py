"""Working folders that travel with jobs: files in the state folder, named by their digest.

One is complete and on disk before its upload is acknowledged. It stays as long as a job that has
not ended needs it, and for a time after anybody asked for it last.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from rota.core.facts.errors import Rejected
from rota.core.facts.faults import NO_BUNDLE
from rota.rpc.messages import BundlePart

if TYPE_CHECKING:
    from pathlib import Path

    from rota.core.cluster import Cluster
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job
    from rota.rpc.messages import ReadBundle

PART_BYTES = 1 << 20


class BundleShelf:
    """The folder of the packed working folders."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = str(folder)
        self.max_bytes = max_bytes

    def has(self, digest: str) -> bool:
        """Whether it is here; being asked for keeps it here."""
        with suppress(OSError):
            os.utime(self._path(digest))
            return True
        return False

    def begin(self, digest: str) -> Upload:
        os.makedirs(self._folder, 0o700, exist_ok=True)
        return Upload(self._path(digest), digest, self.max_bytes)

    def read(self, asked: ReadBundle) -> BundlePart:
        """One piece for an agent; trouble is told in words."""
        try:
            with open(self._path(asked.digest), "rb") as file:
                file.seek(asked.offset)
                size = os.fstat(file.fileno()).st_size
                return BundlePart(asked.request, file.read(PART_BYTES), size)
        except Rejected as error:
            return BundlePart(asked.request, error=str(error))
        except (OSError, ValueError):
            return BundlePart(asked.request, error=NO_BUNDLE)

    def drop_unused(self, used: frozenset[str], before_s: float) -> int:
        """Remove those that no open job needs and that nobody asked for since. How many."""
        went = 0
        with suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                old = entry.stat(follow_symlinks=False).st_mtime < before_s
                if old and entry.name not in used:
                    os.unlink(entry.path)
                    went += 1
        return went

    def _path(self, digest: str) -> str:
        check_digest(digest)
        return f"{self._folder}/{digest}"


class Upload:
    """One that is arriving: nobody sees it before it is whole."""

    def __init__(self, path: str, digest: str, max_bytes: int) -> None:
        self._path, self._digest, self._max_bytes = path, digest, max_bytes
        self._draft = f"{path}.{secrets.token_hex(4)}"
        self._file = open(self._draft, "xb")  # noqa: SIM115 - closed by ``keep`` or ``drop``
        self._sum = hashlib.sha256()

    def add(self, body: bytes) -> None:
        size = self._file.tell() + len(body)
        if size > self._max_bytes:
            raise Rejected(
                f"bundle: it has more than {self._max_bytes} bytes; at most {self._max_bytes} are "
                "taken (bundles.max_size)",
                field="bundle",
                allowed=f"at most {self._max_bytes} bytes",
            )
        self._sum.update(body)
        self._file.write(body)

    def keep(self) -> int:
        """On disk for good, under its name. Its size."""
        found = self._sum.hexdigest()
        if found != self._digest:
            why = f"{self._digest} is named, and the body has the sha256 {found}"
            raise Rejected.because("digest", self._digest, why)
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        self._file.close()
        os.rename(self._draft, self._path)
        return size

    def drop(self) -> None:
        """Forget what did not become whole."""
        self._file.close()
        with suppress(FileNotFoundError):
            os.unlink(self._draft)


def check_digest(digest: str) -> None:
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise Rejected.bad("bundle", digest[:80], "a sha256 in 64 hexadecimal digits")


def require_bundle(shelf: BundleShelf | None, digest: str) -> None:
    """A job may only name one that is here."""
    check_digest(digest)
    if shelf is None or not shelf.has(digest):
        raise Rejected.bad("bundle", digest, "one that was put to /bundles/ before")


def in_use(cluster: Cluster) -> frozenset[str]:
    items: list[Job | Array] = [*cluster.jobs.values(), *cluster.arrays.values()]
    return frozenset(item.spec.bundle for item in items if item.spec.bundle)
