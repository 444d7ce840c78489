"""How listings are laid out: ``%``-formats, ``-O`` formats, and columns with a rule below.

Field functions give plain text; widths, sides and separators are all decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, Self, TypeVar

from rota.core.facts.errors import Rejected
from rota.digits import is_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

R = TypeVar("R")


class ShownField(NamedTuple):
    """A field that a format may name: its header, and what it shows of a record."""

    header: str
    show: Callable[..., str]


class LinePart(NamedTuple, Generic[R]):
    """One piece of a line: a field with its width, and text that follows it."""

    field: ShownField | None
    width: int = 0
    right: bool = False
    suffix: str = ""


def harmless(text: str) -> str:
    """Of a job's folder, command or comment: it neither speaks to a terminal nor begins a line."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "?" for char in text)


def fit(text: str, width: int, right: bool) -> str:
    """Padded to the width and cut there; a width of 0 leaves it as it is."""
    text = harmless(text)
    if not width:
        return text
    return text[:width].rjust(width) if right else text[:width].ljust(width)


class Layout(Generic[R]):
    """The lines of one listing."""

    def __init__(self, parts: list[LinePart[R]]) -> None:
        self.parts = parts
        self._plain = [
            (part.field.show if part.field else _nothing, part.width, part.right, part.suffix)
            for part in parts
        ]

    def header(self) -> str:
        return "".join(
            (fit(part.field.header, part.width, part.right) if part.field else "") + part.suffix
            for part in self.parts
        )

    def line(self, record: R) -> str:
        # Called for each of very many jobs.
        return "".join(
            [fit(show(record), width, right) + suffix for show, width, right, suffix in self._plain]
        )


def _nothing(_: object) -> str:
    return ""


class Read(NamedTuple, Generic[R]):
    """What a format says, and what it says that nobody knows."""

    layout: Layout[R]
    unknown: list[str]


def read_percent(text: str, letters: Mapping[str, ShownField]) -> Read[R]:
    """``%.8j``: a dot for the right side, a width, a letter, then text up to the next ``%``.

    What is no field is printed as it stands and reported, which is what Slurm does. ``%all``
    alone is every field, small letters first.
    """
    _require_short(text)
    if text.lower() == "%all":
        text = "|".join(f"%{letter}" for letter in sorted(letters, key=str.swapcase))
    pieces = text.split("%")
    parts: list[LinePart[R]] = []
    unknown: list[str] = []
    if pieces[0]:
        parts.append(LinePart(None, suffix=pieces[0]))
    # An empty piece stands between two percent signs; the second one begins the next piece.
    for piece in filter(None, pieces[1:]):
        right = piece.startswith(".")
        body = piece[1:] if right else piece
        rest = body.lstrip("0123456789")
        letter = rest[:1]
        known = letters.get(letter)
        if known is None:
            unknown.append(letter)
            parts.append(LinePart(None, suffix=f"%{piece}"))
            continue
        width = number(body[: len(body) - len(rest)])
        parts.append(LinePart(known, width, right, rest[1:]))
    return Read(Layout(parts), unknown)


FORMAT_MAX = 8 * 1024
#: Of a field of ``-O`` that names no width.
LONG_WIDTH = 20


def read_long(text: str, names: Mapping[str, ShownField]) -> Read[R]:
    """``name``, ``name:.12``, ``name:12SEP`` or ``name:SEP``, with commas between them.

    A colon without a number takes the width away; text behind it follows the field.
    """
    _require_short(text)
    parts: list[LinePart[R]] = []
    unknown: list[str] = []
    for token in filter(None, text.split(",")):
        name, colon, tail = token.partition(":")
        known = names.get(name.strip().lower())
        right = tail.startswith(".")
        body = tail[1:] if right else tail
        rest = body.lstrip("0123456789")
        if known is None:
            unknown.append(name)
            parts.append(LinePart(None, suffix=rest))
            continue
        width = number(body[: len(body) - len(rest)]) if colon else LONG_WIDTH
        parts.append(LinePart(known, width, right, rest))
    return Read(Layout(parts), unknown)


def _require_short(text: str) -> None:
    """A format is read once and written for each of very many jobs."""
    if len(text) > FORMAT_MAX:
        raise Rejected(f"the format has {len(text)} characters; at most {FORMAT_MAX} are taken")


def number(digits: str, most: int = 4096) -> int:
    """A width; one that no terminal has is cut, so that nobody asks for a gigabyte of blanks."""
    return min(int(digits[:9] or 0), most)


def field_list(names: list[str], width: int) -> str:
    """Four names on a line, as ``--helpformat`` tells them."""
    rows = [names[at : at + 4] for at in range(0, len(names), 4)]
    return "".join(" ".join(f"{name:<{width}}" for name in row) + "\n" for row in rows)


class TableColumn(NamedTuple):
    """A column of a table: its name, its width (below 0: on the left side), what it shows."""

    name: str
    width: int
    show: Callable[..., str]


class RuledTable(Generic[R]):
    """Lines as sacct and its relatives print them: a header, a rule, columns with a blank.

    ``delimiter`` joins the fields instead; ``closed`` puts one behind the last field as well.
    """

    def __init__(
        self,
        columns: list[TableColumn],
        *,
        delimiter: str = "",
        closed: bool = False,
        headless: bool = False,
    ) -> None:
        self.columns = columns
        self._delimiter = delimiter
        self._closed = closed
        self._headless = headless

    @classmethod
    def asked(
        cls, columns: list[TableColumn], options: Container[str], delimiter: str = "|"
    ) -> Self:
        """In the way that the options of sacct and its relatives ask for."""
        parsable = "parsable" in options or "parsable2" in options
        return cls(
            columns,
            delimiter=delimiter if parsable else "",
            closed="parsable2" not in options,
            headless="noheader" in options,
        )

    def heading(self) -> list[str]:
        if self._headless:
            return []
        names = self._join([column.name for column in self.columns])
        if self._delimiter:
            return [names]
        return [names, "".join("-" * abs(column.width) + " " for column in self.columns)]

    def line(self, record: R) -> str:
        return self._join([harmless(column.show(record)) for column in self.columns])

    def _join(self, texts: list[str]) -> str:
        if self._delimiter:
            end = self._delimiter if self._closed else ""
            return self._delimiter.join(texts) + end
        pairs = zip(texts, self.columns, strict=True)
        return "".join(cell(text, column.width) + " " for text, column in pairs)


def cell(text: str, width: int) -> str:
    """Cut with a plus where it is too long."""
    size = abs(width)
    if len(text) > size:
        text = text[: size - 1] + "+" if size else ""
    return text.ljust(size) if width < 0 else text.rjust(size)


def read_columns(text: str, known: Mapping[str, TableColumn]) -> tuple[list[TableColumn], str]:
    """``jobid,state%20``: columns by name in any case, with other widths; or the bad name."""
    _require_short(text)
    columns: list[TableColumn] = []
    for token in filter(None, text.replace(" ", ",").split(",")):
        name, mark, size = token.partition("%")
        column = find_column(name, known)
        if column is None:
            return [], name
        if mark:
            negative = size.startswith("-")
            width = number("".join(c for c in size if is_digits(c)))
            column = column._replace(width=-width if negative else width)
        columns.append(column)
    return columns, ""


def find_column(name: str, known: Mapping[str, TableColumn]) -> TableColumn | None:
    """By name in any case; Slurm takes the first one that begins so."""
    lower = name.lower()
    if lower in known:
        return known[lower]
    return next((column for key, column in known.items() if key.startswith(lower)), None)
