"""How true foretold starts are: one table over all logs of a folder and some that are made up.

    python -m bench.foresight FOLDER [--skip 0] [--jobs 20000] [--every 3] [--policy easy,...]
    python -m bench.foresight FOLDER --choose grace_s,remembered,common_step

The second chooses these constants of ``rota.scheduling.answers.bands.Tuning`` for each log on all
the others (a log and its cleaned copy count as one), and tells how the log fares with them.
Logs that are made up never take part in a choice.
"""

from __future__ import annotations

import argparse
from itertools import product
from math import log
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

import msgspec

from bench.foresight_logs import invented
from rota.scheduling.answers.bands import NEAR_S, SHARES, Bands, Tuning, Word
from rota.scheduling.answers.words import Said, ToldWords
from rota.sim.cut import Cut, cut
from rota.sim.foresight import Foresight, Told, foresee
from rota.sim.machine import machine_for
from rota.sim.policies import check_name, rules_of
from rota.sim.readers import read_trace
from rota.sim.settings import SimSettings
from rota.sim.simulate import simulate

if TYPE_CHECKING:
    from rota.sim.trace import Trace

POLICIES = "easy,default,priority-easy,conservative"
#: What is tried of each constant; of those that are to be chosen, all combinations.
TRIED: dict[str, tuple[float, ...]] = {
    "grace_s": (3.0, 10.0, 60.0),
    "remembered": (100, 200, 400),
    "common_step": (0.02, 0.05, 0.1),
    "aim_step": (0.0, 0.002, 0.005, 0.01),
}
#: A site that begins is judged by its first words as well.
FIRST = 200
#: Logs with fewer jobs are asked about each.
FEW = 2_000
HEAD = f"{'log':22s} {'policy':14s} asked  wait s  error s by limits ratio   50    80    90"


def foresight_of(trace: Trace, policy: str, every: int) -> Foresight:
    settings = SimSettings()
    run = simulate(trace, machine_for(trace), policy, settings)
    return foresee(run, rules_of(policy), settings, every)


def row(name: str, found: Foresight) -> str:
    """One line: error, and how often the bands held, with edges shared in brackets."""
    ratio = f"{found.error_s / found.limits_error_s:5.2f}" if found.limits_error_s else "    -"
    held = "  ".join(f"{100 * each:4.1f}" for each in found.coverage)
    shared = " ".join(f"{100 * each:.1f}" for each in found.shared)
    return (
        f"{name[:22]:22s} {found.policy:14s} {len(found.told):5d} {found.median_wait_s:7.0f} "
        f"{found.error_s:8.1f} {found.limits_error_s:9.1f} {ratio}  {held}  ({shared})  "
        f"{100 * found.in_time:.1f} exact {100 * found.exact:.1f}"
    )


def again(told: list[Told], tuning: Tuning) -> list[tuple[Word, Told]]:
    """The same plans with other constants, in the order of submits and starts."""
    bands, words, said = Bands(None, tuning), ToldWords(), list[tuple[Word, Told]]()
    events = [(each.said_s, 1, at) for at, each in enumerate(told)]
    events += [(each.said_s + each.waited_s, 0, at) for at, each in enumerate(told)]
    for now_s, is_submit, at in sorted(events):
        if is_submit:
            words.pass_time(now_s, bands)
            word = bands.say(told[at].word.planned_s)
            words.keep(at, Said(now_s, word))
            said.append((word, told[at]))
        else:
            words.start(at, now_s, bands)
    return said


def loss(told: list[Told], tuning: Tuning) -> float:
    """Points by which bands miss their share, of all words and of the first ones, and the error
    in logarithms, ten points each."""
    said = again(told, tuning)
    error = mean(log(1.0 + abs(word.wait_s - each.waited_s)) for word, each in said)
    return _points(said) + _points(said[:FIRST]) + 10.0 * error


def _points(said: list[tuple[Word, Told]]) -> float:
    """What bands hold too little, or more than they must: starts at the very moment are in all."""
    exact = mean(abs(word.planned_s - each.waited_s) < NEAR_S for word, each in said)
    within = [word.within(each.waited_s) for word, each in said]
    held = [mean(each[at] for each in within) for at in range(len(SHARES))]
    missed = [
        max(share - got, got - max(share, exact), 0.0)
        for got, share in zip(held, SHARES, strict=True)
    ]
    return 100.0 * mean(missed)


def choose(found: dict[tuple[str, str], list[Told]], names: list[str]) -> None:
    """Leave one log out, choose on the others, and tell what it is worth on the one left out."""
    tried = [
        msgspec.convert(dict(zip(names, each, strict=True)), Tuning)
        for each in product(*(TRIED[name] for name in names))
    ]
    losses = {
        (key, at): loss(told, each) for key, told in found.items() for at, each in enumerate(tried)
    }
    families = sorted({family_of(name) for name, _ in found})
    for family in families:
        others = [key for key in found if family_of(key[0]) != family]
        own = [key for key in found if family_of(key[0]) == family]
        best = min(range(len(tried)), key=lambda at: mean(losses[key, at] for key in others))
        ours = mean(loss(found[key], Tuning()) for key in own)
        there = mean(losses[key, best] for key in own)
        floor = min(mean(losses[key, at] for key in own) for at in range(len(tried)))
        values = {name: getattr(tried[best], name) for name in names}
        print(f"without {family}: {values}; loss there {there:.2f},")
        print(f"    with the constants in use {ours:.2f}, with the best in hindsight {floor:.2f}")


def family_of(name: str) -> str:
    """Logs of one machine are one."""
    return next((word for word in ("KTH", "CTC", "SDSC") if word in name), name)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--policy", default=POLICIES)
    parser.add_argument("--choose", metavar="CONSTANTS", default="")
    options = parser.parse_args()
    names = [name for name in options.choose.split(",") if name]
    if unknown := [name for name in names if name not in TRIED]:
        parser.error(f"--choose: {unknown[0]} is none of {', '.join(TRIED)}")
    traces = [read_trace(path) for path in sorted(options.folder.glob("*.swf*"))]
    if not names:
        traces += invented()
    found: dict[tuple[str, str], list[Told]] = {}
    print(HEAD)
    for trace in traces:
        part = cut(trace, Cut(skip=options.skip, jobs=options.jobs))
        every = options.every if len(part.jobs) > FEW else 1
        for policy in map(check_name, options.policy.split(",")):
            told = foresight_of(part, policy, every)
            found[trace.name, policy] = told.told
            print(row(trace.name, told), flush=True)
    if names:
        choose(found, names)


if __name__ == "__main__":
    main()
