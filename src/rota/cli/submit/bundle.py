"""``--bundle DIR``: a working folder that travels with the job, packed the same way every time."""

from __future__ import annotations

import fnmatch
import gzip
import hashlib
import os
import tarfile
import tempfile
from typing import TYPE_CHECKING, Any

from rota.client.errors import ClientError, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    from rota.client.http import Client

#: Never packed: what every machine makes for itself.
LEFT_OUT = (".git", "__pycache__", ".venv", ".mypy_cache", ".pytest_cache", ".ruff_cache")
#: Patterns of further names, one per line, as in a ``.gitignore``.
IGNORE_FILE = ".rotaignore"


def upload(client: Client, folder: str) -> str:
    """Pack a folder, send it unless it is there already; its digest."""
    root = os.path.abspath(os.path.expanduser(folder))
    if not os.path.isdir(root):
        raise ClientError(f"--bundle: {folder!r} is not there; expected an existing folder")
    most = int(client.get("/bundles")["max_size"])
    with tempfile.TemporaryFile(prefix="rota-bundle-") as file:
        digest = pack(root, file, most)
        if not _is_there(client, digest):
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            client.upload(f"/bundles/{digest}", file, size)
    return digest


def _is_there(client: Client, digest: str) -> bool:
    try:
        client.get(f"/bundles/{digest}")
    except Refused as refusal:
        if refusal.status != 404:
            raise
        return False
    return True


def pack(root: str, file: IO[bytes], most: int) -> str:
    """A packed folder of at most ``most`` bytes; equal folders give equal digests."""
    counted = _Counted(file, most, root)
    target: Any = counted
    # Without a name and a time in its head, only the content counts.
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=target, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in _members(root):
            _add(archive, root, path)
    return counted.digest()


class _Counted:
    """Counts and digests what is written, and stops when it is too much."""

    def __init__(self, file: IO[bytes], most: int, root: str) -> None:
        self._file, self._most, self._root = file, most, root
        self._sum = hashlib.sha256()
        self._size = 0

    def write(self, body: bytes) -> int:
        self._size += len(body)
        if self._size > self._most:
            raise ClientError(
                f"--bundle: {self._root} has more than {self._most >> 20} MiB, packed; the server "
                f"takes {self._most >> 20} (leave files out in {IGNORE_FILE})"
            )
        self._sum.update(body)
        return self._file.write(body)

    def flush(self) -> None:
        self._file.flush()

    def digest(self) -> str:
        return self._sum.hexdigest()


def _members(root: str) -> Iterator[str]:
    """Relative paths, sorted; folders come before what is in them."""
    ignored = (*LEFT_OUT, *_patterns(root))
    for here, folders, names in os.walk(root):
        base = os.path.relpath(here, root)
        folders[:] = sorted(name for name in folders if not _is_left_out(base, name, ignored))
        for name in sorted([*folders, *names]):
            if not _is_left_out(base, name, ignored):
                yield os.path.normpath(os.path.join(base, name))


def _patterns(root: str) -> list[str]:
    try:
        with open(os.path.join(root, IGNORE_FILE), encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"--bundle: {IGNORE_FILE}: {error}") from None
    return [line.rstrip("/") for line in lines if line and not line.startswith("#")]


def _is_left_out(base: str, name: str, ignored: tuple[str, ...]) -> bool:
    path = os.path.normpath(os.path.join(base, name))
    return any(
        fnmatch.fnmatchcase(path if "/" in pattern else name, pattern.lstrip("/"))
        for pattern in ignored
    )


def _add(archive: tarfile.TarFile, root: str, path: str) -> None:
    full = os.path.join(root, path)
    member = archive.gettarinfo(full, path)
    if member.islnk():
        # Two names of one file become two files.
        member.type, member.linkname, member.size = tarfile.REGTYPE, "", os.path.getsize(full)
    if not (member.isreg() or member.isdir() or member.issym()):
        raise ClientError(f"--bundle: {path!r} is neither a file, a folder nor a link")
    if member.issym() and _leads_out(path, member.linkname):
        raise ClientError(f"--bundle: {path!r} is a link out of the folder, to {member.linkname}")
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = int(member.mtime)
    if not member.isreg():
        archive.addfile(member)
        return
    try:
        with open(full, "rb") as file:
            archive.addfile(member, file)
    except OSError as error:
        raise ClientError(f"--bundle: {path!r}: {error.strerror or error}") from None


def _leads_out(path: str, target: str) -> bool:
    return os.path.isabs(target) or os.path.normpath(
        os.path.join(os.path.dirname(path), target)
    ).startswith("..")
