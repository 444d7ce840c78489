"""Names of nodes in short: ``a,b`` and ``n[01-03,7]``."""

from __future__ import annotations

import re

#: More names than this are a typing error.
NODES_MAX = 10_000


def expand(text: str) -> tuple[str, ...]:
    """Every name, in order, once; an empty text gives none."""
    if not text.strip():
        return ()
    names: dict[str, None] = {}
    for part in _parts(text):
        names.update(dict.fromkeys(_expand_one(part, text)))
        if len(names) > NODES_MAX:
            raise ValueError(f"'{text[:60]}' is not valid; at most {NODES_MAX} nodes")
    return tuple(names)


def _parts(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts = re.split(r",(?![^\[]*\])", text)
    return [part.strip() for part in parts]


def _expand_one(part: str, text: str) -> list[str]:
    found = re.fullmatch(r"([^\[\]\s]*)(?:\[([0-9,-]+)\]([^\[\]\s]*))?", part)
    if not part or found is None:
        raise ValueError(f"'{text[:60]}' is not valid; expected names such as a,b or n[1-3,7]")
    if found[2] is None:
        return [part]
    return [f"{found[1]}{number}{found[3]}" for number in _numbers(found[2], text)]


def _numbers(inside: str, text: str) -> list[str]:
    numbers: list[str] = []
    for piece in inside.split(","):
        first, _, last = piece.partition("-")
        last = last or first
        if not (first.isdecimal() and last.isdecimal()) or int(last) < int(first):
            raise ValueError(f"'{text[:60]}' is not valid; expected numbers such as [1-3,7]")
        if int(last) - int(first) > NODES_MAX:
            raise ValueError(f"'{text[:60]}' is not valid; at most {NODES_MAX} nodes")
        numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return numbers
