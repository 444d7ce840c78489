"""``python -m tests.network``: the storm in full, for one seed or several."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.network.ether import lacking
from tests.network.site import Site
from tests.network.storm import Storm
from tests.network.witness import Book


def main() -> int:
    options = _parse()
    # End in order, so that nothing of a site is left behind.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    reason = lacking()
    if reason:
        print(f"cannot run here: {reason}", file=sys.stderr)
        return 2
    return max(_run(seed, options) for seed in options.seeds)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/storm", description=__doc__)
    parser.add_argument("seeds", nargs="*", type=int, default=[1], metavar="SEED")
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--cpus", type=int, default=4, help="of each agent")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--lease-s", type=int, default=3)
    parser.add_argument("--pause-s", type=float, default=0.7, help="between two faults")
    parser.add_argument("--story", action="store_true", help="print every fault")
    parser.add_argument("--keep", action="store_true", help="keep the folder, for a look at it")
    return parser.parse_args()


def _run(seed: int, options: argparse.Namespace) -> int:
    root = Path(tempfile.mkdtemp(prefix=f"rota-storm-{seed}-"))
    site = Site(root, agents=options.agents, cpus=options.cpus, lease_s=options.lease_s, seed=seed)
    try:
        storm = Storm(site, options.jobs, seed, options.pause_s, murders=True)
        book = Book(root / "book")
        faults = storm.run(book)
        tally = storm.tally(book)
    finally:
        site.close()
    if options.story:
        print("\n".join(storm.story))
    print("\n".join(faults), end="\n" if faults else "")
    verdict = f"{len(faults)} faults found" if faults else "none lost, none live twice, codes right"
    print(f"seed {seed}: {verdict}; {options.agents} agents, {tally}", flush=True)
    if faults or options.keep:
        print(f"kept: {root}")
    else:
        shutil.rmtree(root, ignore_errors=True)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
