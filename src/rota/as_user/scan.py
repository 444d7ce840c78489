"""Looks for lines in a file, in portions.

A pattern can take for ever on one unlucky line. Here that costs a child that can be ended, and
never the agent itself. What it finds is one JSON object; bytes travel in it as Latin-1. The child
runs this file without the package around it.
"""

from __future__ import annotations

import re
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO, Any

#: The most that is looked at in one go; a longer line is looked at in pieces of one number.
BLOCK_BYTES = 1 << 20
#: Of a longer line only the beginning is told.
LINE_BYTES_MAX = 1 << 16
#: The most bytes of lines that go into one answer, and the longest that it may take.
ANSWER_BYTES_MAX = 1 << 18
ANSWER_S = 4.0


def finder(
    pattern: str, *, regex: bool, ignore_case: bool
) -> Callable[[bytes, list[bytes]], list[int]]:
    """Says which lines of a block are hits. Most blocks have none, and that must be quick."""
    if not regex and not ignore_case:
        wanted = pattern.encode("utf-8", "surrogateescape")
        return lambda block, lines: (
            [n for n, line in enumerate(lines) if wanted in line] if wanted in block else []
        )
    flags = re.IGNORECASE if ignore_case else 0
    search = re.compile(pattern if regex else re.escape(pattern), flags).search

    def find(block: bytes, _: list[bytes]) -> list[int]:
        text = block.decode("utf-8", "surrogateescape")
        if not regex and not search(text):
            return []
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        texts = text.removesuffix("\n").split("\n")
        return [n for n, line in enumerate(texts) if search(line)]

    return find


class Scan:
    """One look through a file, from ``offset`` on, to its end or until the answer is full."""

    def __init__(
        self, file: IO[bytes], asked: dict[str, Any], skip: Callable[[int], int] = int
    ) -> None:
        """``skip`` gives the next place from one on at which something was written."""
        self._file = file
        self._skip = skip
        self._find = finder(
            asked["pattern"], regex=asked["regex"], ignore_case=asked["ignore_case"]
        )
        self._context: int = asked["context"]
        self._hits_left: int = asked["hits"]
        self._fresh: int = asked["fresh"]
        self._number: int = asked["line"]
        self._offset: int = asked["offset"]
        self._size: int = asked["size"]
        self._lines: list[tuple[int, bool, str]] = []
        self._bytes = 0
        #: Lines that are told if a hit follows soon: number, where it begins, its bytes.
        self._before: list[tuple[int, int, bytes]] = []
        self._after = 0

    def run(self) -> dict[str, Any]:
        stop_s = time.monotonic() + ANSWER_S
        while block := self._block():
            lines = _split(block)
            hits = self._find(block, lines)
            if not hits and not self._after:
                self._pass_over(block, lines)
            elif not self._look_at(lines, frozenset(hits)):
                return self._answer(over=False)
            if time.monotonic() > stop_s and not self._after:
                break
        return self._answer(over=self._offset >= self._size)

    def _block(self) -> bytes:
        """The next lines, all of them whole but for one that is too long or not written yet."""
        self._offset = self._skip(self._offset)
        self._file.seek(self._offset)
        left = self._size - self._offset
        block = self._file.read(min(BLOCK_BYTES, left)) if left > 0 else b""
        if len(block) < left:
            end = block.rfind(b"\n") + 1
            if 0 < end < len(block):
                block = block[:end]
        return block

    def _pass_over(self, block: bytes, lines: list[bytes]) -> None:
        """Nothing to tell; the last lines may be told if a hit follows soon."""
        if self._context:
            end = self._offset + len(block)
            number = self._number + block.count(b"\n")
            kept = lines[-self._context :]
            begins = end - sum(map(len, kept))
            first = number - sum(line.endswith(b"\n") for line in kept)
            for place, line in enumerate(kept):
                self._before.append((first + place, begins, line))
                begins += len(line)
            del self._before[: -self._context]
        self._number += block.count(b"\n")
        self._offset += len(block)

    def _look_at(self, lines: list[bytes], hits: frozenset[int]) -> bool:
        """One line after the other; False when the answer is full and lines are left."""
        for place, line in enumerate(lines):
            full = self._hits_left <= 0 or self._bytes >= ANSWER_BYTES_MAX
            hit = place in hits and self._offset >= self._fresh
            if full and (hit or not self._after):
                return False
            self._take(line, hit)
        return True

    def _take(self, line: bytes, hit: bool) -> None:
        number, begins = self._number, self._offset
        self._offset += len(line)
        self._number += line.endswith(b"\n")
        if hit:
            for earlier, _, body in self._before:
                self._tell(earlier, False, body)
            self._before.clear()
            self._tell(number, True, line)
            self._hits_left -= 1
            self._after = self._context
        elif self._after:
            self._tell(number, False, line)
            self._after -= 1
        elif self._context:
            self._before.append((number, begins, line))
            del self._before[: -self._context]

    def _tell(self, number: int, hit: bool, line: bytes) -> None:
        told = line[:LINE_BYTES_MAX]
        self._lines.append((number, hit, told.decode("latin-1")))
        self._bytes += len(told)

    def _answer(self, *, over: bool) -> dict[str, Any]:
        offset, number = self._offset, self._number
        if self._before:
            number, offset, _ = self._before[0]
        return {
            "lines": self._lines,
            "over": over,
            "offset": offset,
            "line": number,
            "fresh": self._offset,
        }


def _split(block: bytes) -> list[bytes]:
    """Lines with their ends; unlike ``splitlines`` only at line feeds."""
    parts = block.split(b"\n")
    last = parts.pop()
    lines = [part + b"\n" for part in parts]
    return [*lines, last] if last else lines
