"""``python -m tests.network``: the storm in full, for one seed or several."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.network.ether import lacking
from tests.network.site import Site
from tests.network.storm import Database, Storm
from tests.network.witness import Book
from tests.support import postgres


def main() -> int:
    options = _parse()
    # End in order, so that nothing of a site is left behind.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    reason = lacking()
    if reason:
        print(f"cannot run here: {reason}", file=sys.stderr)
        return 2
    with ExitStack() as stack:
        server = None
        if options.postgres:
            programs = postgres.find_programs()
            if programs is None:
                print("cannot run here: no PostgreSQL server programs", file=sys.stderr)
                return 2
            server = stack.enter_context(postgres.running_server(programs))
        return max(_run(seed, options, server) for seed in options.seeds)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/storm", description=__doc__)
    parser.add_argument("seeds", nargs="*", type=int, default=[1], metavar="SEED")
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--cpus", type=int, default=4, help="of each agent")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--lease-s", type=int, default=3)
    parser.add_argument("--pause-s", type=float, default=0.7, help="between two faults")
    parser.add_argument("--postgres", action="store_true", help="on PostgreSQL, which breaks, too")
    parser.add_argument("--story", action="store_true", help="print every fault")
    parser.add_argument("--keep", action="store_true", help="keep the folder, for a look at it")
    return parser.parse_args()


def _run(seed: int, options: argparse.Namespace, server: postgres.PostgresServer | None) -> int:
    root = Path(tempfile.mkdtemp(prefix=f"rota-storm-{seed}-"))
    with ExitStack() as stack:
        database = None
        if server is not None:
            database = Database(server, stack.enter_context(server.database()))
        site = Site(
            root, agents=options.agents, cpus=options.cpus, lease_s=options.lease_s, seed=seed,
            database=database.address if database is not None else "",
        )  # fmt: skip
        stack.callback(site.close)
        storm = Storm(site, options.jobs, seed, options.pause_s, murders=True, database=database)
        book = Book(root / "book")
        faults = storm.run(book)
        tally = storm.tally(book)
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
