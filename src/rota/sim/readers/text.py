"""The text of a trace in blocks of whole lines: plain or packed, however large the file is.

What cannot be text at all is refused here, so that no reader has to look for it: zero bytes, a
line without an end, compressed data that stops in the middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.sim.readers.packed import BROKEN, reader_of, stem_of
from rota.sim.trace import BadTrace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import BufferedReader
    from pathlib import Path

#: Longer lines are no records; without a bound a file of one line would fill the memory.
LINE_BYTES_MAX = 1 << 20
#: One object of JSON may be all of a file.
OBJECT_BYTES_MAX = 1 << 30
_BLOCK_BYTES = 1 << 18
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n" + _BYTE_ORDER_MARK
#: How texts of two bytes a letter begin, as some shells write them.
_WIDE = (b"\xff\xfe", b"\xfe\xff")


class Text:
    """A file that is read once, from front to back."""

    def __init__(self, path: Path) -> None:
        self.file = _shown(path)
        name = stem_of(path.name)
        stem, _, suffix = name.rpartition(".")
        self.stem, self.suffix = (stem, suffix) if stem else (name, "")
        #: The number of the last line that was handed out.
        self.last_line = 0
        self._line_max = LINE_BYTES_MAX
        self._blocks = self._read(path)
        self._first = next(self._blocks, b"")
        self._used = False
        #: What becomes of bytes that are no UTF-8: ``strict`` refuses them.
        self.odd_bytes = "strict"
        if not self._first.strip():
            raise BadTrace(f"{self.file}:1: the file is empty")

    def head(self) -> str:
        """The first line that is not blank, for a look at what kind of file this is."""
        lines = self._first.decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in lines if line.strip()), "")

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Whole lines in pieces that fit into a cache, each with the number of its first line."""
        assert not self._used, "a text is read once"
        self._used = True
        yield 1, self._first
        while True:
            number = self.last_line + 1
            block = next(self._blocks, b"")
            if not block:
                return
            yield number, block

    def lines(self) -> Iterator[tuple[int, str]]:
        """Every line that is not blank, with its number."""
        for first, block in self.blocks():
            for number, line in enumerate(self._decoded(first, block).split("\n"), first):
                if line and not line.isspace():
                    yield number, line

    def bad(self, line: int, problem: str) -> BadTrace:
        """What is to be raised about a line."""
        return BadTrace(f"{self.file}:{line}: {problem}")

    def _decoded(self, first: int, block: bytes) -> str:
        try:
            return block.decode("utf-8", self.odd_bytes)
        except UnicodeDecodeError as error:
            line = first + block.count(b"\n", 0, error.start)
            raise self.bad(line, f"byte 0x{block[error.start]:02x} is not UTF-8 text") from None

    def _read(self, path: Path) -> Iterator[bytes]:
        tail = b""
        with _opened(path, self.file) as plain:
            self._piece(plain.peek)
            try:
                read = reader_of(plain)
            except ValueError as error:
                raise self.bad(1, str(error)) from None
            while piece := self._piece(read):
                whole, tail = self._cut(tail + piece)
                if whole:
                    yield whole
        if tail:
            yield self._counted(tail)

    def _piece(self, read: Callable[[int], bytes]) -> bytes:
        line = self.last_line + 1
        try:
            return read(_BLOCK_BYTES)
        except EOFError:
            raise self.bad(line, "the compressed data ends in the middle") from None
        except BROKEN as error:
            raise self.bad(line, f"the compressed data is broken ({error})") from None
        except OSError as error:
            raise self.bad(line, f"cannot be read ({error.strerror or error})") from None

    def _cut(self, block: bytes) -> tuple[bytes, bytes]:
        """The whole lines of a block, and the beginning of the next one."""
        line = self.last_line + 1
        zero = block.find(b"\0")
        if zero >= 0:
            if not self.last_line and block.startswith(_WIDE):
                raise self.bad(line, "text of two bytes a letter (UTF-16); save it as UTF-8")
            line += block.count(b"\n", 0, zero)
            raise self.bad(line, "a zero byte: this is no text, but a binary file")
        end = block.rfind(b"\n") + 1
        whole, tail = block[:end], block[end:]
        # A block is shorter than a line may be: only its first line can have grown too long.
        if not self.last_line and block.lstrip(_BLANKS).startswith(b"{"):
            self._line_max = OBJECT_BYTES_MAX
        if whole.find(b"\n") > self._line_max or len(tail) > self._line_max:
            raise self.bad(line, f"the line is longer than {self._line_max} bytes")
        return self._counted(whole), tail

    def _counted(self, block: bytes) -> bytes:
        if not self.last_line:
            block = block.removeprefix(_BYTE_ORDER_MARK)
        self.last_line += block.count(b"\n") + (bool(block) and not block.endswith(b"\n"))
        return block


def _opened(path: Path, shown: str) -> BufferedReader:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise BadTrace(f"{shown}: no such file") from None
    except IsADirectoryError:
        raise BadTrace(f"{shown}: is a folder; a file is needed") from None
    except PermissionError:
        raise BadTrace(f"{shown}: no permission to read it") from None
    except (OSError, ValueError) as error:
        raise BadTrace(f"{shown}: cannot be opened ({error})") from None


def _shown(path: Path) -> str:
    """The path as it was given; with odd characters quoted, so that a message stays one line."""
    text = str(path)
    return text if text.isprintable() else ascii(text)
