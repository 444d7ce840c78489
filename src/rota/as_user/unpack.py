"""Unpacks a working folder into an empty folder of the user's, member by member.

Nothing is left to the filters of ``tarfile``: their holes depend on the version of Python. Each
member is put in its place with open folders only, so that no link on the way is ever followed; a
link may go up only at its beginning, so that it cannot lead out, by way of however many others.
The child runs this file without the package around it.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import resource
import stat
import tarfile
import zlib
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rota.as_user.child import ChildRefusal
else:
    from as_user.child import ChildRefusal

#: Looked at before the rights are given up: ``tarfile`` imports them when it needs them.
_PACKERS = (bz2, gzip, lzma, zlib)
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
PIECE_BYTES = 1 << 20
_SHOWN = 80


def unpack(order: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Everything, or an error that names the bad member. The archive is open already."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (order["bytes"], order["bytes"]))
    top = os.open(order["target"], FOLDER)
    with open(order["packed_fd"], "rb") as packed:
        try:
            with tarfile.open(fileobj=packed, mode="r:*") as archive:
                _Unpacking(archive, top, order).run()
        except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise ChildRefusal(str(error)) from None
        except RecursionError:
            raise ChildRefusal("its headers are nested too deeply") from None
    return {}, b""


class _Unpacking:
    """One archive on its way into one folder."""

    def __init__(self, archive: tarfile.TarFile, top: int, order: dict[str, Any]) -> None:
        self._archive = archive
        self._top = top
        self._most = self._left = order["bytes"]
        self._members_max: int = order["members"]
        self._depth_max: int = order["depth"]
        #: The folder of the last member, which most often is that of the next.
        self._place: tuple[str, ...] = ()
        self._folder = os.dup(top)

    def run(self) -> None:
        for number, member in enumerate(self._archive):
            if number >= self._members_max:
                raise ChildRefusal(f"it has more than {self._members_max} files")
            self._put(member)

    def _put(self, member: tarfile.TarInfo) -> None:
        shown = f"{member.name[:_SHOWN]!r}"
        if member.islnk():
            raise ChildRefusal(f"{shown} is a hard link")
        if not (member.isreg() or member.isdir() or member.issym()):
            raise ChildRefusal(f"{shown} is neither a file, a folder nor a link")
        self._left -= member.size
        if self._left < 0 or member.size < 0:
            raise ChildRefusal(f"unpacked it has more than {self._most} bytes")
        parts = self._parts(member.name, shown)
        try:
            if member.isdir():
                self._enter(parts)
            elif parts:
                self._enter(parts[:-1])
                _clear(parts[-1], self._folder)
                if member.issym():
                    self._link(member, parts, shown)
                else:
                    self._write(member, parts[-1])
        except OSError as error:
            words = (error.strerror or str(error)).lower()
            raise ChildRefusal(f"{shown}: {words}", error.errno or 0) from None
        except ValueError as error:
            raise ChildRefusal(f"{shown}: {error}") from None

    def _parts(self, name: str, shown: str) -> tuple[str, ...]:
        if name.startswith("/"):
            raise ChildRefusal(f"{shown} is an absolute path")
        parts = tuple(part for part in name.split("/") if part not in ("", "."))
        if ".." in parts:
            raise ChildRefusal(f"{shown} leads out of the folder")
        if len(parts) > self._depth_max:
            raise ChildRefusal(f"{shown} is more than {self._depth_max} folders deep")
        return parts

    def _enter(self, parts: tuple[str, ...]) -> None:
        """Make this the folder in which things are put; what is missing on the way is made."""
        if parts == self._place:
            return
        os.close(self._folder)
        self._place, self._folder = (), os.dup(self._top)
        for part in parts:
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=self._folder)
            below = os.open(part, FOLDER, dir_fd=self._folder)
            os.close(self._folder)
            self._folder = below
        self._place = parts

    def _link(self, member: tarfile.TarInfo, parts: tuple[str, ...], shown: str) -> None:
        """Up at its beginning only, and never above the folder: then every link stays inside."""
        steps = [part for part in member.linkname.split("/") if part not in ("", ".")]
        ups = next((n for n, part in enumerate(steps) if part != ".."), len(steps))
        if member.linkname.startswith("/"):
            raise ChildRefusal(f"{shown} is a link to an absolute path")
        if ups > len(parts) - 1 or ".." in steps[ups:]:
            raise ChildRefusal(f"{shown} is a link that leads out of the folder")
        os.symlink(member.linkname, parts[-1], dir_fd=self._folder)

    def _write(self, member: tarfile.TarInfo, name: str) -> None:
        source = self._archive.extractfile(member)
        assert source is not None
        # As every program would make it: no setuid, nobody else writes, its owner may read it.
        mode = 0o755 if member.mode & stat.S_IXUSR else 0o644
        left = member.size
        with open(os.open(name, _FRESH, 0o600, dir_fd=self._folder), "wb") as file:
            while left > 0:
                piece = source.read(min(PIECE_BYTES, left))
                if not piece:
                    raise ChildRefusal("it ends in the middle of a file")
                file.write(piece)
                left -= len(piece)
            file.flush()
            os.fchmod(file.fileno(), mode & (member.mode | 0o600))
            with suppress(OverflowError, ValueError, OSError):  # A time that no file can have.
                os.utime(file.fileno(), (member.mtime, member.mtime))


def _clear(name: str, folder: int) -> None:
    """A later member of the same name replaces the earlier one, unless that is a folder."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
