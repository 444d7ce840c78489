"""Lines of the audit that hang together: each names the one before, and a digest over both.

Who changes, removes or puts in a line breaks the chain there. With a key the digests cannot be made
anew without it; without one, a digest that was noted elsewhere tells.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_DIGEST = r"[0-9a-f]{64}"
_LINE = re.compile(rf'(\{{.*),"after":"({_DIGEST}|)","chain":"({_DIGEST})"\}}\n?')
#: The end of a file that surely has its last line: texts in records are short.
_TAIL_BYTES = 1 << 20


class ChainedLine(NamedTuple):
    """A line, taken apart."""

    body: str
    after: str
    chain: str


class Chained(NamedTuple):
    """What was found in lines: how many, where chains begin, what the first one goes on from where
    it begins none, how the last one ends, what is odd."""

    lines: int
    begins: tuple[int, ...]
    before: str
    last: str
    trouble: tuple[str, ...]


class Chain:
    """Makes one link after the other."""

    def __init__(self, key: bytes = b"", last: str = "") -> None:
        self._key, self.last = key, last

    def line(self, record: str) -> str:
        """A record, which is an object of JSON, as the next line."""
        after, self.last = self.last, digest(self._key, self.last, record)
        return f'{record[:-1]},"after":"{after}","chain":"{self.last}"}}'


def digest(key: bytes, after: str, record: str) -> str:
    text = f"{after}\n{record}".encode()
    return hmac.new(key, text, "sha256").hexdigest() if key else hashlib.sha256(text).hexdigest()


def read_key(path: str) -> bytes:
    """What the file says, without what an editor puts behind it; ``ValueError`` if that is little.

    Raises ``OSError`` when it cannot be read.
    """
    with open(path, "rb") as file:
        key = file.read().strip()
    if len(key) < 16:
        raise ValueError("16 characters at least, such as those of: openssl rand -hex 32")
    return key


def last_of(path: str) -> str:
    """Where a file ends, so that the next line goes on from there; a line that was cut off ends."""
    if not os.path.isfile(path):
        return ""  # It is not there yet, or a pipe, which has no end to go on from.
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        body = file.read()
    if body and not body.endswith(b"\n"):
        # Sites let such a file grow only, so it is opened for that alone.
        with open(path, "ab") as file:
            file.write(b"\n")
    for line in reversed(body.decode("utf-8", "replace").split("\n")):
        if link := link_of(line):
            return link.chain
    return ""


def link_of(line: str) -> ChainedLine | None:
    found = _LINE.fullmatch(line)
    return ChainedLine(found[1] + "}", found[2], found[3]) if found else None


def look_through(lines: Iterable[str], key: bytes = b"") -> Chained:
    """Whether each line is as it was written, and behind the one that it was written behind."""
    last, before, number = "", "", 0
    begins: list[int] = []
    trouble: list[str] = []
    for number, line in enumerate(lines, 1):
        link = link_of(line)
        if link is None:
            trouble.append(f"line {number}: is no record with a chain")
            continue
        if digest(key, link.after, link.body) != link.chain:
            trouble.append(f"line {number}: was changed, or written with another key")
        elif not link.after:
            begins.append(number)
        elif number == 1:
            before = link.after
        elif link.after != last:
            trouble.append(f"line {number}: what was written before it is missing")
        last = link.chain
    return Chained(number, tuple(begins), before, last, tuple(trouble))
