"""Lists of names: one per line, plain or compressed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.sim.readers.text import Text

if TYPE_CHECKING:
    from pathlib import Path


def read_names(path: Path) -> list[str]:
    """The names in a file in their order; the same name may come again."""
    text = Text(path)
    names = [line.strip() for _, line in text.lines()]
    names = [name for name in names if name]
    if not names:
        raise text.bad(1, "no names")
    return names
