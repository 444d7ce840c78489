"""A program of its own: the screen that one viewer of a terminal sees.

What a job prints is drawn here and not in the server: a few bytes can mean seconds of work, and
some mean memory without end. The server ends a screen that is not done in time.

It is told in frames: what is meant, the length, the body. ``d`` draws, ``s`` is a size, and ``n``
asks for news. Each is answered by one frame: a length and a body.
"""

from __future__ import annotations

import json
import os
import re
import resource
import struct
import sys
from contextlib import suppress
from typing import Any, BinaryIO

import pyte

ROWS, COLUMNS = 24, 80
ROWS_MAX, COLUMNS_MAX = 100, 300
MEMORY_BYTES = 512 << 20
#: The server and its callers go first.
NICE = 10
#: Signs that stand above one another in one cell.
CELL_MAX = 8
ORDER, ANSWER = struct.Struct(">cI"), struct.Struct(">I")
_SEQUENCE = re.compile(rb"(?=\x1b)")


class Display:
    """The screen of one viewer."""

    def __init__(self) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self.screen)

    def feed(self, body: bytes) -> None:
        """Draw it; a sequence that means nothing is passed over."""
        for part in _SEQUENCE.split(body):
            with suppress(TypeError, ValueError):
                self._stream.feed(part)

    def resize(self, rows: int, columns: int) -> None:
        self.screen.resize(min(rows, ROWS_MAX), min(columns, COLUMNS_MAX))
        self.screen.dirty.update(range(self.screen.lines))

    def news(self) -> bytes:
        """The lines that changed since the last time, and the cursor."""
        screen = self.screen
        lines = {row: self._line(row) for row in sorted(screen.dirty) if row < screen.lines}
        screen.dirty.clear()
        cursor = None if screen.cursor.hidden else [screen.cursor.y, screen.cursor.x]
        size = [screen.lines, screen.columns]
        return json.dumps({"lines": lines, "cursor": cursor, "size": size}).encode()

    def _line(self, row: int) -> list[list[Any]]:
        """Runs of characters that look alike: text, colour, background, bold, reversed."""
        runs: list[list[Any]] = []
        cells = self.screen.buffer[row]
        for column in range(self.screen.columns):
            cell = cells[column]
            looks = [cell.fg, cell.bg, cell.bold, cell.reverse]
            if runs and runs[-1][1:] == looks:
                runs[-1][0] += cell.data[:CELL_MAX]
            else:
                runs.append([cell.data[:CELL_MAX], *looks])
        return runs


def main(orders: BinaryIO, answers: BinaryIO) -> None:
    """Until nobody orders anything any more."""
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    display = Display()
    while head := orders.read(ORDER.size):
        kind, length = ORDER.unpack(head)
        body, answer = orders.read(length), b""
        if kind == b"d":
            display.feed(body)
        elif kind == b"s":
            display.resize(*json.loads(body))
        else:
            answer = display.news()
        answers.write(ANSWER.pack(len(answer)) + answer)
        answers.flush()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
