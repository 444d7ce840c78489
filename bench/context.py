"""What every section is given."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.rota import Rota

if TYPE_CHECKING:
    from pathlib import Path

    from bench.peers import Peers


@dataclass(frozen=True)
class Context:
    """``quick`` makes a section smaller (fewer rounds, shallower queues), never different."""

    folder: Path
    quick: bool
    peers: Peers

    def rota(self, label: str) -> Rota:
        return Rota(self.folder, label)

    def pick(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def say(self, text: str) -> None:
        print(f"# {text}", file=sys.stderr, flush=True)
