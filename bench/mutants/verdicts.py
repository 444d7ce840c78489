"""Survivors that a person judged equivalent: no test can notice them. In tests/mutants.toml.

[[equivalent]]
module = "rota.scheduling.place.heaps"
function = "Heap.pop"
change = "a < b -> a <= b"
because = "entries are never equal: each carries a number of its own"
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    #: Module, function and change of a mutant.
    Named = tuple[str, str, str]


def read(path: Path) -> dict[Named, str]:
    """Why each is equivalent."""
    if not path.exists():
        return {}
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])
    return {(e["module"], e["function"], e["change"]): e["because"] for e in entries}


def entry(module: str, function: str, change: str, because: str) -> str:
    """The same as text, for a new verdict."""
    lines = [
        "[[equivalent]]",
        f"module = {_quoted(module)}",
        f"function = {_quoted(function)}",
        f"change = {_quoted(change)}",
        f"because = {_quoted(because)}",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    if "'" not in text:
        return f"'{text}'"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
