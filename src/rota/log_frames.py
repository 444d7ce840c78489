"""Pieces of two streams in one: what a job printed, each piece with a word of where it came from.

A frame is a letter (``o`` standard output, ``e`` standard error), a length of four bytes and the
bytes themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

OUT, ERR = b"o", b"e"
_HEAD_BYTES = 5


class Piece(NamedTuple):
    """Bytes of one stream."""

    stream: bytes
    body: bytes


def pack(piece: Piece) -> bytes:
    return piece.stream + len(piece.body).to_bytes(4, "big") + piece.body


class Unpacker:
    """Takes frames out of what comes, however it was cut."""

    def __init__(self) -> None:
        self._unread = bytearray()

    def feed(self, received: bytes) -> Iterator[Piece]:
        self._unread += received
        while len(self._unread) >= _HEAD_BYTES:
            end = _HEAD_BYTES + int.from_bytes(self._unread[1:_HEAD_BYTES], "big")
            if len(self._unread) < end:
                return
            piece = Piece(bytes(self._unread[:1]), bytes(self._unread[_HEAD_BYTES:end]))
            del self._unread[:end]
            yield piece
