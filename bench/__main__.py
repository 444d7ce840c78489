"""``python -m bench [SECTION...]``: measure, print a table, write JSON."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from bench import machine
from bench.context import Context
from bench.peers import Peers, shared_folder
from bench.report import MISSED, REACHED, Row, table
from bench.rota import Broken
from bench.sections import SECTIONS
from bench.wire import Refused

if TYPE_CHECKING:
    from types import FrameType

PEERS = ("gflow", "slurm", "dask", "ray", "hyperqueue", "accasim")


def main() -> int:
    options = parse()
    signal.signal(signal.SIGTERM, _leave)
    folder = Path(options.folder).absolute()
    chosen = options.sections or list(SECTIONS)
    peers = Peers(quick=options.quick, wanted=lambda peer: peer not in options.without)
    context = Context(folder, options.quick, peers, options.agents, options.tasks)
    about = {**machine.description(folder), "quick": options.quick, "began_s": time.time()}
    rows: list[Row] = []
    broken: dict[str, str] = {}
    for name in chosen:
        began = time.perf_counter()
        context.say(f"section {name}")
        try:
            found = SECTIONS[name](context)
        except (Broken, Refused, OSError, AssertionError) as error:
            broken[name] = f"{type(error).__name__}: {error}"
            context.say(f"section {name} gave no figures: {broken[name]}")
            continue
        rows += found
        context.say(f"section {name} took {time.perf_counter() - began:.0f} s")
    about["load_after"] = list(os.getloadavg())
    about["took_s"] = round(time.time() - about["began_s"], 1)
    print(table(rows))
    print("\n" + summary(rows, peers.missing, broken))
    write(Path(options.json), {
        "machine": about,
        "rows": [row.as_json() for row in rows],
        "peers_missing": peers.missing,
        "sections_broken": broken,
        "peers": peers.said,
    })  # fmt: skip
    missed = any(row.verdict == MISSED for row in rows)
    return 1 if broken or (options.strict and missed) else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/bench", description=__doc__)
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"default: all of {', '.join(SECTIONS)}"
    )
    parser.add_argument("--quick", action="store_true", help="smaller: minutes instead of more")
    parser.add_argument("--json", metavar="FILE", default="bench-results.json")
    parser.add_argument(
        "--folder", metavar="DIR", default=tempfile.gettempdir(),
        help="where the state folders are made; its disk is the one that is measured",
    )  # fmt: skip
    parser.add_argument(
        "--without", metavar="PEER", action="append", default=[], choices=PEERS,
        help=f"leave a peer out: {', '.join(PEERS)}",
    )  # fmt: skip
    for name in ("agents", "tasks"):
        parser.add_argument(
            f"--{name}", type=_count, default=0, metavar="N", help=f"the number of {name} in swarm"
        )
    parser.add_argument("--strict", action="store_true", help="exit 1 if a bar is not reached")
    options = parser.parse_args()
    for name in options.sections:
        if name not in SECTIONS:
            parser.error(f"there is no section {name}; known: {', '.join(SECTIONS)}")
    return options


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def summary(rows: list[Row], missing: dict[str, str], broken: dict[str, str]) -> str:
    """How many bars were reached, and by name what was not measured."""
    barred = [row for row in rows if row.verdict in {REACHED, MISSED}]
    reached = sum(row.verdict == REACHED for row in barred)
    lines = [f"{reached} of {len(barred)} bars reached"]
    if shared_folder() is None:
        lines.append("there is no ../shared: the comparisons with the peers are left out")
    lines += [f"not measured: peer {peer}: {reason}" for peer, reason in missing.items()]
    lines += [f"not measured: section {name}: {reason}" for name, reason in broken.items()]
    return "\n".join(lines)


def write(path: Path, report: dict[str, object]) -> None:
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"written: {path}", file=sys.stderr)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """End in order, so that every Rota and every peer is stopped: told twice is told once."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
