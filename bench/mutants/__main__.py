"""Mutants of the scheduling against the unit and property tests: do these notice wrong code?

Each mutant is one small change of a module in src/rota/scheduling: a comparison that is off by one,
a sum that is a difference, a statement that is left out. It is tried with the tests that run the
changed lines until one fails: first those that noticed others near it, then those that run most
of the module in the least time. Survivors show what no test looks at.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
import tempfile
from bisect import bisect_right
from collections import Counter
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from bench.mutants import verdicts
from bench.mutants.killers import Killers
from bench.mutants.operators import mutants_of
from bench.mutants.reach import Reach, reach
from bench.mutants.trial import (
    KILLED,
    SURVIVED,
    TIMED_OUT,
    Verdict,
    Wrong,
    in_copies,
    module_name,
    try_one,
    verdict_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.mutants.verdicts import Named

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
SCHEDULING = SOURCE / "rota" / "scheduling"
TESTS = ("tests/unit", "tests/property")
JUDGED = ROOT / "tests" / "mutants.toml"
KILLERS = ROOT / ".mutants" / "killers.json"
EQUIVALENT = "equivalent"
COLUMNS = (KILLED, TIMED_OUT, SURVIVED, EQUIVALENT)
#: Of those that a test could notice, this part must be.
KILLED_LEAST = 0.9
SAMPLE = 400


def main() -> int:
    options = parse()
    sys.path.insert(0, str(SOURCE))
    os.chdir(ROOT)
    everything = list(all_mutants(options.module))
    judged = verdicts.read(JUDGED)
    chosen = sample(everything, options)
    if options.list:
        for one in chosen:
            print(f"{place(one)} {one.name}")
        print(f"{len(chosen)} of {len(everything)} mutants")
        return 0
    known = reach(ROOT, TESTS, options.jobs, say)
    say(f"{len(chosen)} of {len(everything)} mutants, {options.jobs} at a time")
    found = list(tried(chosen, known, judged, options))
    text = report(found)
    print(text)
    if options.output:
        Path(options.output).write_text(text + "\n", encoding="utf-8")
    return 0 if killed_share(found) >= KILLED_LEAST else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="script/mutate",
        description=__doc__,
        epilog=f"The exit status is 1 if fewer than {KILLED_LEAST:.0%} of the mutants that are not "
        "equivalent die. A survivor that no test can notice gets a verdict in tests/mutants.toml.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--module",
        action="append",
        default=[],
        metavar="PART",
        help="only modules with this in their path: later/, heads.py; repeatable",
    )
    parser.add_argument("--match", default="", metavar="TEXT", help="only changes with this text")
    parser.add_argument(
        "--sample",
        type=int,
        default=SAMPLE,
        metavar="N",
        help=f"how many, drawn at random; 0: all (default {SAMPLE})",
    )
    parser.add_argument("--seed", type=int, default=1, help="which sample (default 1)")
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes at a time (default: one for each CPU)",
    )
    parser.add_argument(
        "--most-s",
        type=float,
        default=0.0,
        metavar="S",
        help="seconds of tests for each mutant; with few, more of them may survive (0: all)",
    )
    parser.add_argument("--list", action="store_true", help="name the mutants and try none")
    parser.add_argument("--output", default="", metavar="FILE", help="write the table there, too")
    return parser.parse_args()  # fmt: skip


def all_mutants(parts: list[str]) -> Iterator[Wrong]:
    """Of the chosen modules, in the order of their paths and texts."""
    for path in sorted(SCHEDULING.rglob("*.py")):
        shown = str(path.relative_to(SCHEDULING))
        if parts and not any(part in shown for part in parts):
            continue
        module = module_name(path, SOURCE)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for number, one in enumerate(mutants_of(tree)):
            yield Wrong(module, number, one.function, one.change, one.line, one.reached)


def sample(mutants: list[Wrong], options: argparse.Namespace) -> list[Wrong]:
    """The same ones for the same seed, in order."""
    fitting = [one for one in mutants if options.match in one.change]
    if not options.sample or options.sample >= len(fitting):
        return fitting
    drawn = Random(options.seed).sample(range(len(fitting)), options.sample)
    return [fitting[number] for number in sorted(drawn)]


def tried(
    mutants: Sequence[Wrong], known: Reach, judged: dict[Named, str], options: argparse.Namespace
) -> Iterator[Verdict]:
    """What became of each mutant, as soon as it is known."""
    left = [one for one in mutants if named(one) not in judged]
    yield from (Verdict(o, EQUIVALENT, judged[named(o)]) for o in mutants if named(o) in judged)
    killers = Killers(KILLERS)
    with tempfile.TemporaryDirectory() as folder:
        tasks = (
            trial(one, known, killers, options.most_s, Path(folder, str(number)))
            for number, one in enumerate(left)
        )
        for done, copy in enumerate(in_copies(tasks, options.jobs), start=1):
            verdict = verdict_of(copy, *copy.key)
            if verdict.by in known.seconds:
                killers.note(verdict.wrong.module, verdict.by)
            if verdict.outcome == SURVIVED or not done % 25:
                say(f"{done}/{len(left)} {verdict.outcome} {place(verdict.wrong)} "
                    f"{verdict.wrong.name} ({verdict.took_s:.0f} s)")  # fmt: skip
            yield verdict


def trial(
    one: Wrong, known: Reach, killers: Killers, most_s: float, answer: Path
) -> tuple[tuple[Wrong, Path], Callable[[], None]]:
    """The work of one process, and by what it is known."""
    tests = killers.first(one.module, known.tests(one.module, one.reached), known.seconds)
    ends_s = [*accumulate(known.seconds[test] for test in tests)]
    tests = tests[: bisect_right(ends_s, most_s)] if most_s else tests
    took_s = sum(known.seconds[test] for test in tests)
    return (one, answer), lambda: try_one(one, tests, took_s, answer)


def named(one: Wrong) -> Named:
    return one.module, one.function, one.change


def place(one: Wrong) -> str:
    path = Path(*one.module.split("."))
    return f"src/{path}.py:{one.line}"


def killed_share(found: list[Verdict]) -> float:
    """Who does not come to an end in time was noticed, too."""
    counts = Counter(verdict.outcome for verdict in found)
    dead, alive = counts[KILLED] + counts[TIMED_OUT], counts[SURVIVED]
    return dead / (dead + alive) if dead + alive else 1.0


def report(found: list[Verdict]) -> str:
    """A line for each module, then the survivors by name."""
    lines = [f"{'module':<44}{'mutants':>8}" + "".join(f"{name:>12}" for name in COLUMNS)]
    for module in [*sorted({verdict.wrong.module for verdict in found}), ""]:
        part = [verdict for verdict in found if module in ("", verdict.wrong.module)]
        counts = Counter(verdict.outcome for verdict in part)
        shown = module.removeprefix("rota.scheduling.") or "all"
        lines.append(f"{shown:<44}{len(part):>8}" + "".join(f"{counts[n]:>12}" for n in COLUMNS))
    lines += ["", f"{killed_share(found):.1%} of those that are not equivalent died"]
    survivors = sorted(v.wrong for v in found if v.outcome == SURVIVED)
    for one in survivors:
        lines += ["", f"# {place(one)}"]
        lines.append(verdicts.entry(*named(one), because="").rstrip())
    return "\n".join(lines)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
