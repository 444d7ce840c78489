"""Play worlds by hand: ``python -m rota.worlds SEED`` tells one seed's story, ``A-B`` plays many.

With ``cut`` before it networks break, too: ``python -m rota.worlds cut 0-300``.
"""

from __future__ import annotations

import sys

from rota.core.facts.errors import RotaError
from rota.worlds.world import World


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")


def main(args: list[str]) -> int:
    """Exit 0 when every promise held."""
    cuts = args[:1] == ["cut"]
    args = args[cuts:]
    first, dash, last = (args[0] if args else "0-100").partition("-")
    broken = 0
    for seed in range(int(first), int(last if dash else first) + 1):
        world = World(seed, None if dash else tell, cuts=cuts)
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
