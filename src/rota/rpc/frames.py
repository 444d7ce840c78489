"""The one kind of WebSocket frame that controllers and agents exchange all day, made and read fast.

A whole message in one binary frame needs little of what a general parser does, and that costs
more than everything else about a small message. Whatever else arrives is left to the parser.
"""

from __future__ import annotations

import os

try:
    from websockets.speedups import apply_mask
except ImportError:
    from websockets.utils import apply_mask

#: The last and only frame of a binary message.
_BINARY = 0x82
_MASKED = 0x80
#: Such a length stands for a longer one, in the bytes that follow.
_WIDTHS = {126: 2, 127: 8}


def bodies_of(data: bytes, *, masked: bool, most: int) -> list[bytes] | None:
    """The messages, if these bytes are nothing but frames with whole ones of up to ``most`` bytes.

    ``masked`` says whether the other side must mask: clients do, servers do not.
    """
    bodies: list[bytes] = []
    at, end = 0, len(data)
    while at < end:
        if end - at < 2 or data[at] != _BINARY or (data[at + 1] >= _MASKED) != masked:
            return None
        length, start = data[at + 1] & ~_MASKED, at + 2
        if width := _WIDTHS.get(length):
            length = int.from_bytes(data[start : start + width], "big")
            start += width
        mask, start = start, start + 4 if masked else start
        at = start + length
        if at > end or length > most:
            return None
        body = data[start:at]
        bodies.append(apply_mask(body, data[mask:start]) if masked else body)
    return bodies


def frame_of(body: bytes, *, masked: bool) -> bytes:
    """One frame with a whole message."""
    length, bit = len(body), _MASKED if masked else 0
    if length < 126:
        head = bytes((_BINARY, bit | length))
    elif length < 1 << 16:
        head = bytes((_BINARY, bit | 126)) + length.to_bytes(2, "big")
    else:
        head = bytes((_BINARY, bit | 127)) + length.to_bytes(8, "big")
    if not masked:
        return head + body
    mask = os.urandom(4)
    return head + mask + apply_mask(body, mask)
