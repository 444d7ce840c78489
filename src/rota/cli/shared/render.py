"""Rows become text: tables that fit, CSV, YAML. Pure: the width comes in as an argument."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

GAP = "  "
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
#: Keys that YAML would read as something else than text.
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


class Column(NamedTuple):
    """A heading; ``shrinks`` columns give up width when the table does not fit, ids never do."""

    title: str
    right: bool = False
    shrinks: bool = False
    least: int = 6


def clean(text: object) -> str:
    """One printable line: a job's name must not be able to play with somebody's terminal."""
    words = str(text)
    if words.isprintable():
        return words
    return "".join(char if char.isprintable() else "?" for char in words)


def cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_cells(char) for char in text)


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, width: int) -> str:
    """At most ``width`` columns, with an ellipsis where something was cut."""
    if cells(text) <= width:
        return text
    kept = ""
    room = width - 1
    for char in text:
        room -= _cells(char)
        if room < 0:
            break
        kept += char
    return kept + "…"


def pad(text: str, width: int, *, right: bool = False) -> str:
    blank = " " * max(width - cells(text), 0)
    return blank + text if right else text + blank


def table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[object]],
    width: int | None = None,
    paint: Callable[[str, int, str], str] | None = None,
) -> list[str]:
    """Lines of a table with a heading. ``width`` of None cuts nothing.

    ``paint`` gets the heading's title, the row's number and the padded cell, and may add colour.
    """
    texts = [[clean(cell) for cell in row] for row in rows]
    titles = [column.title for column in columns]
    widths = [max(map(cells, column)) for column in zip(titles, *texts, strict=True)]
    if width is not None:
        _shrink(columns, widths, width)
    lines = [_line(columns, widths, titles, lambda place, text: text)]
    for number, row in enumerate(texts):
        lines.append(
            _line(
                columns,
                widths,
                row,
                lambda place, text, n=number: (  # type: ignore[misc]
                    paint(columns[place].title, n, text) if paint else text
                ),
            )
        )
    return lines


def _line(
    columns: Sequence[Column],
    widths: Sequence[int],
    row: Sequence[str],
    paint: Callable[[int, str], str],
) -> str:
    parts = []
    last = len(row) - 1
    for place, text in enumerate(row):
        fitted = cut(text, widths[place])
        if place < last or columns[place].right:
            fitted = pad(fitted, widths[place], right=columns[place].right)
        parts.append(paint(place, fitted))
    return GAP.join(parts)


def _shrink(columns: Sequence[Column], widths: list[int], width: int) -> None:
    """Take columns from the widest that shrinks until the table fits or none can give more."""
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    while excess > 0:
        able = [
            place
            for place, column in enumerate(columns)
            if column.shrinks and widths[place] > column.least
        ]
        if not able:
            return
        widest = max(able, key=lambda place: widths[place])
        widths[widest] -= 1
        excess -= 1


def block(pairs: Iterable[tuple[str, object]]) -> list[str]:
    """``key: value`` lines with the values under each other; empty ones are left out."""
    shown = [(key, value) for key, value in pairs if value not in (None, "", [], {})]
    width = max((len(key) for key, _ in shown), default=0) + 1
    return [f"{pad(key + ':', width)} {clean(value)}" for key, value in shown]


#: A cell that begins so is worked out by spreadsheets.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def to_csv(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """CSV with a heading and plain line ends; no cell is a formula to a spreadsheet."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(titles)
    writer.writerows([[_no_formula(cell) for cell in row] for row in rows])
    return out.getvalue()


def _no_formula(cell: object) -> object:
    """A name that somebody else chose, such as ``=HYPERLINK(…)``, stays a text."""
    formula = isinstance(cell, str) and cell != "-" and cell.startswith(_FORMULA)
    return f"'{cell}" if formula else cell


def to_yaml(value: object, indent: int = 0) -> str:
    """YAML for what JSON can hold: scalars are written as JSON, which is YAML as well."""
    lead = "  " * indent
    if isinstance(value, dict) and value:
        return "".join(_yaml_pair(lead, str(key), item, indent) for key, item in value.items())
    if isinstance(value, list | tuple) and value:
        return "".join(_yaml_item(lead, item, indent) for item in value)
    return f"{lead}{_scalar(value)}\n"


def _yaml_pair(lead: str, key: str, item: object, indent: int) -> str:
    shown = key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _WORDS else _scalar(key)
    if isinstance(item, dict | list | tuple) and item:
        return f"{lead}{shown}:\n{to_yaml(item, indent + 1)}"
    return f"{lead}{shown}: {_scalar(item)}\n"


def _yaml_item(lead: str, item: object, indent: int) -> str:
    if isinstance(item, dict | list | tuple) and item:
        return f"{lead}- {to_yaml(item, indent + 1).lstrip(' ')}"
    return f"{lead}- {_scalar(item)}\n"


def _scalar(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    # YAML allows fewer characters than JSON; it has escapes for all of them.
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in text)


def size_text(size: int) -> str:
    """``1.5G``: bytes for people."""
    number = float(size)
    for unit in ("B", "K", "M", "G"):
        if number < 1024:
            return f"{number:.0f}{unit}" if unit == "B" else f"{number:.1f}{unit}"
        number /= 1024
    return f"{number:.1f}T"


def bar(used: float, total: float, width: int) -> str:
    """``[#####.....]`` for how much of something is taken."""
    share = min(max(used / total, 0.0), 1.0) if total else 0.0
    full = round(share * width)
    return "[" + "#" * full + "." * (width - full) + "]"


def dependency_tree(jobs: Sequence[Mapping[str, Any]], label: Callable[..., str]) -> list[str]:
    """Jobs under the ones they wait for. A job with several parents stands under the last one.

    A parent always has a lower id than its child, so this is a forest whatever the jobs say.
    """
    ids = {job["id"] for job in jobs}
    children: dict[int, list[Mapping[str, Any]]] = {}
    for job in sorted(jobs, key=lambda job: job["id"]):
        named = [entry["job"] for entry in job.get("depends_on") or ()]
        parents = [parent for parent in named if parent in ids and parent < job["id"]]
        children.setdefault(max(parents, default=0), []).append(job)
    lines: list[str] = []
    # A stack instead of recursion: chains may be longer than Python's patience.
    waiting = [(job, "", "") for job in reversed(children.get(0, []))]
    while waiting:
        job, lead, mark = waiting.pop()
        lines.append(lead + mark + label(job))
        deeper = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[mark]
        below = children.get(job["id"], [])
        marks = ["├─ "] * (len(below) - 1) + ["└─ "]
        waiting += [
            (child, deeper, branch) for child, branch in zip(below[::-1], marks[::-1], strict=False)
        ]
    return lines
