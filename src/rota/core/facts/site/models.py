"""Models of devices: whether one is what was asked for."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def is_variant(model: str, wanted: str) -> bool:
    """Whether a device of this model is what was asked for: word by word, in either case.

    ``A100`` and ``a100 80gb`` are an ``NVIDIA A100-SXM4-80GB``, ``rtx4090`` is a ``GeForce RTX
    4090``; ``A10`` is no ``A100``. ``A100|H100`` is one or the other.
    """
    if wanted in ("", "auto"):
        return True
    choices = [choice for choice in wanted.split("|") if choice.strip()]
    return not choices or any(_is_one(model, choice) for choice in choices)


def _is_one(model: str, wanted: str) -> bool:
    have, asked = _words(model), _words(wanted)
    joined = "".join(asked)
    return set(asked) <= set(have) or any(
        joined == "".join(have[first:last])
        for first in range(len(have))
        for last in range(first + 1, len(have) + 1)
    )


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in text.lower()).split()
