"""Which tests noticed mutants before: those that did, of the same module or folder, come first."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: The most tests that are tried before the others.
FIRST = 20
#: A mutant of the same module says more than one of the same folder.
NEAR = 10
#: What any test costs beside its own seconds.
LEAST_S = 0.2


class Killers:
    """How often each test noticed a mutant of each module. It only saves time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        known = json.loads(path.read_text()) if path.exists() else {}
        self._of = {module: Counter[str](counts) for module, counts in known.items()}

    def note(self, module: str, test: str) -> None:
        self._of.setdefault(module, Counter())[test] += 1
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_text(json.dumps(self._of))

    def first(self, module: str, tests: Sequence[str], seconds: Mapping[str, float]) -> list[str]:
        """The same tests, the most promising first."""
        worth, folder = Counter[str](), module.rpartition(".")[0]
        for other, counts in self._of.items():
            if other.rpartition(".")[0] == folder:
                for test, count in counts.items():
                    worth[test] += count * (NEAR if other == module else 1)
        known = [test for test in tests if worth[test]]
        known.sort(key=lambda test: worth[test] / (LEAST_S + seconds[test]), reverse=True)
        return [*dict.fromkeys([*known[:FIRST], *tests])]
