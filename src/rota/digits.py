"""Numbers in text that people and other programs write."""

from __future__ import annotations


def is_digits(text: str) -> bool:
    """Whether a text is made of 0 to 9 alone: ``int()`` and ``isdecimal()`` know others, too."""
    return text.isascii() and text.isdecimal()
