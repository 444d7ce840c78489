"""File names with marks in them: ``%j``, ``%4t``, ``%x-%A_%a.out``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rota.digits import is_digits

if TYPE_CHECKING:
    from collections.abc import Mapping

_MARK = re.compile(r"%([0-9]{0,2})(.)")


def fill(pattern: str, values: Mapping[str, str]) -> str:
    """Put values in the place of their marks; numbers are as wide as asked, with zeros.

    A backslash in the name takes the meaning from all of them.
    """
    if "\\" in pattern:
        return pattern.replace("\\", "")
    return _MARK.sub(lambda mark: _value(mark, values), pattern)


def _value(mark: re.Match[str], values: Mapping[str, str]) -> str:
    width, letter = mark[1], mark[2]
    if letter == "%":
        return "%"
    value = values.get(letter)
    if value is None:
        return mark[0]
    return value.zfill(min(int(width), 10)) if width and is_digits(value) else value
