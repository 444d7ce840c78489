"""What properties mean: one meaning per name, and the few that differ by schema.

They are in ``glossary.txt``, a line each: names, a colon, the meaning. A property that says itself
what it means keeps its own words; ``Schema.name`` is for one schema alone.
"""

from __future__ import annotations

from importlib.resources import files
from types import MappingProxyType

_LINES = (files(__package__) / "glossary.txt").read_text().splitlines()

MEANINGS = MappingProxyType(
    {
        name: meaning
        for line in _LINES
        for names, _, meaning in (line.partition(": "),)
        for name in names.split(", ")
    }
)
