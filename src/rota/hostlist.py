"""Names of nodes in short: ``a,b`` and ``n[01-03,7]``, as Slurm writes them.

The order counts: the first name is the node of the first task.
"""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

from rota.digits import is_digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: More names than this are a typing error.
NODES_MAX = 10_000
#: Brackets of one name, and what stands between them.
PIECES_MAX = 20
#: Longer numbers are not counted with: they stay as they are written.
DIGITS_MAX = 18

_BRACKETS = re.compile(r"(\[[^\[\]]*\])")
_WORD = re.compile(r"(?:[^\[\]\s,]|\[[0-9,-]+\])+")
_PIECE = re.compile(r"\[([0-9,-]+)\]|([^\[\]]+)")
_NUMBERED = re.compile(rf"(.*?)([0-9]{{1,{DIGITS_MAX}}})", re.DOTALL)


def natural(name: str) -> tuple[str, int, str]:
    """For sorting: ``n2`` before ``n10``."""
    head = name.rstrip("0123456789")
    digits = name[len(head) :]
    return head, int(digits or 0), name


def expand(text: str) -> tuple[str, ...]:
    """Every name, in order, once; an empty text gives none."""
    if not text.strip():
        return ()
    names: list[str] = []
    for part in _parts(text):
        for name in _expand_one(part, text):
            names.append(name)
            if len(names) > NODES_MAX:
                raise _too_many(text)
    return tuple(dict.fromkeys(names))


def compress(names: Iterable[str]) -> str:
    """The names in short. ``expand`` gives back the same names in the same order."""
    groups: list[tuple[str, list[str]]] = []
    for name in dict.fromkeys(names):
        prefix, digits = _split(name)
        if digits and groups and groups[-1][1] and groups[-1][0] == prefix:
            groups[-1][1].append(digits)
        else:
            groups.append((prefix, [digits] if digits else []))
    return ",".join(prefix + _bracketed(numbers) for prefix, numbers in groups)


def _split(name: str) -> tuple[str, str]:
    """A name without the number at its end, and that number; none when it ends otherwise."""
    found = _NUMBERED.fullmatch(name)
    return (found[1], found[2]) if found is not None else (name, "")


def _bracketed(numbers: list[str]) -> str:
    if len(numbers) < 2:
        return "".join(numbers)
    runs: list[tuple[str, str]] = []
    for number in numbers:
        if runs and number == _after(*runs[-1]):
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return f"[{','.join(first if first == last else f'{first}-{last}' for first, last in runs)}]"


def _after(first: str, last: str) -> str:
    """What comes next in a run, as wide as the run began."""
    return str(int(last) + 1).zfill(len(first))


def _parts(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts: list[list[str]] = [[]]
    for number, piece in enumerate(_BRACKETS.split(text)):
        first, *rest = [piece] if number % 2 else piece.split(",")
        if len(parts) + len(rest) > NODES_MAX:
            raise _too_many(text)
        parts[-1].append(first)
        parts += [[word] for word in rest]
    return ["".join(words).strip() for words in parts]


def _expand_one(part: str, text: str) -> Iterator[str]:
    if not _WORD.fullmatch(part):
        raise ValueError(f"'{text[:60]}' is not valid; expected names such as a,b or n[1-3,7]")
    pieces = _pieces(part)
    if len(pieces) > PIECES_MAX:
        raise ValueError(f"'{text[:60]}' is not valid; at most {PIECES_MAX} brackets in a name")
    choices = [_numbers(inside, text) if inside else [word] for inside, word in pieces]
    # As Slurm counts: the last bracket first, then the others from the left.
    order = [*reversed(range(len(choices) - 1)), len(choices) - 1]
    for found in product(*(choices[at] for at in order)):
        yield "".join(word for _, word in sorted(zip(order, found, strict=True)))


def _pieces(part: str) -> list[tuple[str, str]]:
    return [(found[1] or "", found[2] or "") for found in _PIECE.finditer(part)]


def _numbers(inside: str, text: str) -> list[str]:
    numbers: list[str] = []
    for piece in inside.split(","):
        first, _, last = piece.partition("-")
        last = last or first
        if not _is_number(first) or not _is_number(last) or int(last) < int(first):
            raise ValueError(f"'{text[:60]}' is not valid; expected numbers such as [1-3,7]")
        if int(last) - int(first) + len(numbers) >= NODES_MAX:
            raise _too_many(text)
        numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return numbers


def _is_number(text: str) -> bool:
    return is_digits(text) and len(text) <= DIGITS_MAX


def _too_many(text: str) -> ValueError:
    return ValueError(f"'{text[:60]}' is not valid; at most {NODES_MAX} nodes")
