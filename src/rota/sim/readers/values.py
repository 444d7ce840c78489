"""Numbers and words as traces write them; whatever cannot be right is refused.

Every refusal is a ``ValueError`` that shows the value and says what is wrong with it; the reader
adds the file, the line and the field.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from rota.sim.trace import TraceJob

if TYPE_CHECKING:
    from collections.abc import Collection

#: Thirty million years in seconds, and still exact in a float. More is a typing error.
NUMBER_MAX = 10**15
PRIORITY_MAX = 100
PRIORITY_DEFAULT = TraceJob(0, 0, 0, 0).priority

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[+-]?[0-9]+")


def parse_number(text: str) -> float:
    """A number; one that is written without a fraction stays whole."""
    body = text.strip()
    if _NUMBER.fullmatch(body) is None:
        raise ValueError(f"{shown(text)} is not a number")
    # The length keeps Python from its own refusal of numbers with thousands of digits.
    value = int(body) if _WHOLE.fullmatch(body) and len(body) < 400 else float(body)
    if abs(value) > NUMBER_MAX:
        raise ValueError(f"{shown(text)} is too large; at most 1e15 is allowed")
    return value


def parse_time(text: str) -> float:
    """Seconds, or whatever the field counts time in: a number that is not negative."""
    value = parse_number(text)
    if value < 0:
        raise ValueError(f"{shown(text)} is negative")
    return value


def parse_count(text: str, least: int = 0) -> int:
    """A whole number; ``4.0`` counts as whole."""
    value = parse_number(text)
    if value != int(value):
        raise ValueError(f"{shown(text)} is not a whole number")
    if value < least:
        raise ValueError(f"{shown(text)} is too small; {least} or more is allowed")
    return int(value)


def parse_priority(text: str) -> int:
    """A whole number on the scale of priorities."""
    value = parse_count(text)
    if value > PRIORITY_MAX:
        raise ValueError(f"{shown(text)} is too large; 0 to {PRIORITY_MAX} is allowed")
    return value


def shown(value: object) -> str:
    """The value as a message shows it: quoted, on one line, not too long."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


def unknown(what: str, name: str, known: Collection[str]) -> str:
    """That a name is not known, the nearest one that is, and all of them."""
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{what} {shown(name)} is not known; {hint}known: {', '.join(known)}"
