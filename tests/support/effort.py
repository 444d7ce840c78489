"""How much work something is, in a measure that no load disturbs."""

import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def counted(deed: Callable[[], T]) -> tuple[T, int]:
    """What comes of a deed, and how many Python functions it calls."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        answer = deed()
    finally:
        sys.setprofile(None)
    return answer, count


def calls_of(deed: Callable[[], object]) -> int:
    """How many Python functions a deed calls."""
    return counted(deed)[1]
