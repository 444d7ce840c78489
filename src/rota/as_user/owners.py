"""Whose is what lies in a folder of ours, without asking what a user may have mounted there.

A user can mount a file system of their own over a folder that they own, and it need not answer.
So the kernel is asked for what it knows (``AT_STATX_DONT_SYNC``), and what is on another device
than the folder around it is not looked at any further.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from typing import NamedTuple

_libc = ctypes.CDLL(None, use_errno=True)
_AT_FDCWD, _AT_SYMLINK_NOFOLLOW, _AT_STATX_DONT_SYNC = -100, 0x100, 0x4000
_BASIC_STATS = 0x7FF
_STATX_BYTES = 256
#: Owner, group and mode; when it was changed; its device.
_OWNER, _CHANGED, _DEVICE = struct.Struct("=IIH"), struct.Struct("=qI"), struct.Struct("=II")
_SIZE = struct.Struct("=Q")
_OWNER_AT, _SIZE_AT, _CHANGED_AT, _DEVICE_AT = 20, 40, 112, 136


class Place(NamedTuple):
    """What the kernel knows of a file or folder."""

    uid: int
    gid: int
    mode: int
    changed_s: float
    device: tuple[int, int]
    size: int

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)


def look(path: str) -> Place:
    """Like ``lstat``, for something in a folder of ours; it fails where something is mounted."""
    found = _statx(path)
    if found.device != _statx(os.path.dirname(path)).device:
        raise OSError(errno.EXDEV, "something is mounted there", path)
    return found


def owner_of(path: str) -> str:
    """The user to whom it belongs, as a child is told."""
    found = look(path)
    return f"id:{found.uid}:{found.gid}"


def _statx(path: str) -> Place:
    told = ctypes.create_string_buffer(_STATX_BYTES)
    flags = _AT_SYMLINK_NOFOLLOW | _AT_STATX_DONT_SYNC
    if _libc.statx(_AT_FDCWD, os.fsencode(path), flags, _BASIC_STATS, told) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    uid, gid, mode = _OWNER.unpack_from(told, _OWNER_AT)
    seconds, nanoseconds = _CHANGED.unpack_from(told, _CHANGED_AT)
    device, (size,) = _DEVICE.unpack_from(told, _DEVICE_AT), _SIZE.unpack_from(told, _SIZE_AT)
    return Place(uid, gid, mode, seconds + nanoseconds / 1e9, device, size)
