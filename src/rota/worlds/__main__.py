"""Play worlds by hand: ``python -m rota.worlds SEED`` tells one seed's story, ``A-B`` plays many.

With ``cut`` before it networks break, too: ``python -m rota.worlds cut 0-300``. With ``swarm``
each world has only some of all features.
"""

from __future__ import annotations

import sys

from rota.core.facts.errors import RotaError
from rota.worlds.swarm import swarm_world
from rota.worlds.world import World


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")


def main(args: list[str]) -> int:
    """Exit 0 when every promise held."""
    cuts, swarm = args[:1] == ["cut"], args[:1] == ["swarm"]
    args = args[cuts or swarm :]
    first, dash, last = (args[0] if args else "0-100").partition("-")
    broken = 0
    for seed in range(int(first), int(last if dash else first) + 1):
        told = None if dash else tell
        world = swarm_world(seed, told) if swarm else World(seed, told, cuts=cuts)
        try:
            digest = world.play()
        except (AssertionError, RotaError) as error:
            broken += 1
            sys.stdout.write(f"seed {seed}: {type(error).__name__}: {error}\n")
            continue
        if not dash:
            sys.stdout.write(f"seed {seed}: {digest}\n")
    sys.stdout.write(f"{broken} broken\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
