"""Licences as people write them: ``matlab``, ``matlab:2``, ``matlab:2,ansys@server:4``."""

from __future__ import annotations

import re

#: Larger counts are a typing error.
COUNT_MAX = 1_000_000
_ONE = re.compile(r"([A-Za-z][\w.@-]{0,63})(?:[:=*]([0-9]{1,7}))?")

#: Name and count of each, by name; hashable, so that jobs that ask for the same wait in one lane.
Licenses = tuple[tuple[str, int], ...]


def read_licenses(text: str) -> Licenses:
    """What a job asks for of each; ``ValueError`` for what nobody can read."""
    found: dict[str, int] = {}
    for part in re.split("[,;]", text):
        match = _ONE.fullmatch(part.strip())
        count = int(match[2] or 1) if match else 0
        if match is None or not 0 < count <= COUNT_MAX:
            raise ValueError(text)
        found[match[1]] = found.get(match[1], 0) + count
    return tuple(sorted(found.items()))
