"""Files as they are handed about: plain, or packed by gzip, bzip2, xz or zstd."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import BufferedReader

#: What the name of a packed file may end with.
SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
#: What packers raise about data that is no data of theirs.
BROKEN = (gzip.BadGzipFile, lzma.LZMAError, zlib.error)
_ZSTD = b"\x28\xb5\x2f\xfd"
_BYTES_MAX = 6


def reader_of(plain: BufferedReader) -> Callable[[int], bytes]:
    """What reads the text inside; a file is packed if it begins so, whatever its name is.

    Raises ``ValueError`` with a clause where nothing here can unpack it.
    """
    head = plain.peek(_BYTES_MAX)
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=plain).read
    if head.startswith(b"BZh"):
        return bz2.BZ2File(plain).read
    if head.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMAFile(plain).read
    if head.startswith(_ZSTD):
        return _zstd(plain)
    return plain.read


def stem_of(name: str) -> str:
    """The name without what tells that it is packed."""
    packed = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")
    return name.removesuffix(packed)


def _zstd(plain: BufferedReader) -> Callable[[int], bytes]:
    try:
        from pyarrow import CompressedInputStream
    except ImportError:
        raise ValueError(
            "packed by zstd; unpack it (zstd -d FILE), or: pip install 'rota[sim]'"
        ) from None
    stream = CompressedInputStream(plain, "zstd")

    def read(size: int) -> bytes:
        return bytes(stream.read(size))

    return read
