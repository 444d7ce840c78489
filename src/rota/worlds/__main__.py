"""Play worlds by hand: ``python -m rota.worlds SEED`` tells one seed's story, ``A-B`` plays many.

With ``leases`` before it agents have leases, and all breaks that these depend on:
``python -m rota.worlds leases 0-999``. With ``swarm`` each world has only some of all features.
"""

from __future__ import annotations

import logging
import re
import sys
from typing import TYPE_CHECKING

from rota.core.facts.errors import RotaError
from rota.worlds.leases import LeaseWorld
from rota.worlds.swarm import swarm_world
from rota.worlds.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS: dict[str, Callable[..., World]] = {"leases": LeaseWorld, "swarm": swarm_world}


USAGE = """usage: python -m rota.worlds [leases|swarm] [SEED | FIRST-LAST]

SEED tells the story of one world, FIRST-LAST plays many (0-100); exit status 1 if a promise broke.
leases: agents have leases, and all breaks that these depend on; swarm: some of all features each.
"""
SEEDS = re.compile(r"(\d+)(?:-(\d+))?")


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")


def main(args: list[str]) -> int:
    """Exit 0 when every promise held, 1 when one broke, 2 when nothing was played."""
    make: Callable[..., World] = World
    if args and args[0] in KINDS:
        make = KINDS[args.pop(0)]
    seeds = SEEDS.fullmatch(args[0] if args else "0-100")
    if seeds is None or len(args) > 1:
        asked = args in (["--help"], ["-h"])
        (sys.stdout if asked else sys.stderr).write(USAGE)
        return 0 if asked else 2
    first, last = seeds.groups()
    if last:
        logging.disable()
    broken = 0
    for seed in range(int(first), int(last or first) + 1):
        told = None if last else tell
        try:
            digest = make(seed, told).play()
        except (AssertionError, RotaError) as error:
            broken += 1
            sys.stdout.write(f"seed {seed}: {type(error).__name__}: {error}\n")
            continue
        if not last:
            sys.stdout.write(f"seed {seed}: {digest}\n")
    sys.stdout.write(f"{broken} broken\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
