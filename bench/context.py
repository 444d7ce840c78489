"""What every section is given."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.rota import Rota

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bench.peers import Peers


@dataclass(frozen=True)
class Context:
    """``quick`` makes a section smaller (fewer rounds, shallower queues), never different."""

    folder: Path
    quick: bool
    peers: Peers
    #: The size of the section ``swarm``; 0: its own.
    agents: int = 0
    tasks: int = 0

    def rota(
        self, label: str, *, with_agent: bool = True, settings: Mapping[str, str] | None = None
    ) -> Rota:
        return Rota(self.folder, label, with_agent=with_agent, settings=settings)

    def pick(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def say(self, text: str) -> None:
        print(f"# {text}", file=sys.stderr, flush=True)
