"""The Slurm commands in loops, and no-op batch jobs end to end, beside a real Slurm.

Every call is a new process, as it is for the tools that call these commands. Both sides are up at
the same time and take turns, so that a busy moment of the machine meets both. Slurm is measured
as ``slurm-up`` starts it, which the bars are for, and with its settings for many short jobs.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.real_slurm import real_slurm
from bench.report import Row, against, ratio_at_least
from bench.rota import Broken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.context import Context
    from bench.rota import Rota

SECTION = "slurm_commands"
CALLS, CALLS_QUICK = 200, 50
JOBS, JOBS_QUICK = 500, 100
ELEMENTS, ELEMENTS_QUICK = 1_000, 200
PROFILES = ("default", "tuned")
CALL_RATIO_MIN = 1
_GOAL = "the goal is 2"
JOB_RATIO_MIN = 5
#: By then whoever is slow is rated by what it has finished; so the section stays short.
DRAIN_S_MAX = 75.0
POLL_S = 0.1
BATCH = ("sbatch", "-o", "/dev/null", "--wrap", "true")
SUBMIT, LIST = "sbatch --wrap true", "squeue -h"
RELAYS = ("compiled", "python")


@dataclass(frozen=True)
class Side:
    """Where the commands are, and the environment that they are called in."""

    name: str
    env: dict[str, str]

    def spawn(self, *words: str) -> None:
        """One call, its output thrown away; nothing is done here that would slow it down."""
        program = self.program(words[0])
        pid = os.posix_spawn(program, list(words), self.env, file_actions=_SILENT)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code:
            raise Broken(f"{self.name}: {' '.join(words)} ended with {code}")

    def text(self, *words: str) -> str:
        done = subprocess.run(
            [self.program(words[0]), *words[1:]], env=self.env, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        if done.returncode:
            raise Broken(f"{self.name}: {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def program(self, name: str) -> str:
        found = shutil.which(name, path=self.env["PATH"])
        if found is None:
            raise Broken(f"{self.name}: there is no {name}")
        return found


_SILENT = ((os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),)
#: Figure -> side -> what its rounds gave.
Rates = defaultdict[str, defaultdict[str, list[float]]]


def measure(context: Context) -> list[Row]:
    rates: Rates = defaultdict(lambda: defaultdict(list))
    with context.rota(SECTION) as rota:
        sides = [installed(rota, relay) for relay in RELAYS]
        for profile in PROFILES:
            said = context.peers.measured(
                f"slurm_commands_{profile}", partial(beside, context, sides, profile, rates)
            )
            if said is None:
                break
        if not rates:
            # Our own figures are worth showing without any Slurm.
            play(context, sides, rates)
            whole(context, sides[0], rates)
    return rows(context, rates)


def installed(rota: Rota, relay: str) -> Side:
    """``rota slurm install``; a machine without a compiler has two in Python."""
    folder = rota.root / relay
    words = ["slurm", "install", *(["--no-compile"] if relay == "python" else []), str(folder)]
    program = Path(sys.executable).parent / "rota"
    done = subprocess.run(
        [str(program), *words], env=rota.environment, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise Broken(f"rota slurm install: {done.stderr.strip()}")
    path = f"{folder}:{rota.environment['PATH']}"
    return Side(f"{relay} relay", {**rota.environment, "PATH": path})


def beside(context: Context, sides: list[Side], profile: str, rates: Rates) -> dict[str, Any]:
    """Take turns with one real Slurm; what it gave, for the JSON."""
    with real_slurm(profile) as env:
        slurm = Side(f"Slurm, {profile}", env)
        version = slurm.text("sbatch", "--version").strip()
        play(context, [*sides, slurm], rates)
        whole(context, sides[0], rates)
        whole(context, slurm, rates)
    return {"version": version, **{what: found[slurm.name] for what, found in rates.items()}}


def play(context: Context, sides: list[Side], rates: Rates) -> None:
    """The loops: each caller calls each command this number of times in a row."""
    calls = context.pick(CALLS, CALLS_QUICK)
    for side in sides:
        for what, words in ((LIST, ("squeue", "-h")), (SUBMIT, BATCH)):
            began = time.perf_counter()
            for _ in range(calls):
                side.spawn(*words)
            rates[what][side.name].append(calls / (time.perf_counter() - began))
        drain(side)


def whole(context: Context, side: Side, rates: Rates) -> None:
    """From before the first submit until the queue is empty."""
    jobs, elements = context.pick(JOBS, JOBS_QUICK), context.pick(ELEMENTS, ELEMENTS_QUICK)
    began = time.perf_counter()
    for _ in range(jobs):
        side.spawn(*BATCH)
    rates["jobs"][side.name].append((jobs - drain(side)) / (time.perf_counter() - began))
    end_all(side)
    began = time.perf_counter()
    side.spawn(BATCH[0], f"--array=0-{elements - 1}", *BATCH[1:])
    rates["array"][side.name].append((elements - drain(side)) / (time.perf_counter() - began))
    end_all(side)


def drain(side: Side) -> int:
    """Wait until nothing is queued or runs; how many jobs are left when patience ends."""
    end = time.monotonic() + DRAIN_S_MAX
    while side.text("squeue", "-h", "-o", "%i"):
        if time.monotonic() > end:
            return len(side.text("squeue", "-h", "-r", "-o", "%i").splitlines())
        time.sleep(POLL_S)
    return 0


def end_all(side: Side) -> None:
    """Jobs that failed make no figure; what is left would be in the way of the next one."""
    failed = side.text("squeue", "-h", "-t", "F,NF,TO,OOM", "-o", "%i").split()
    if failed:
        raise Broken(f"{side.name}: {len(failed)} jobs failed, {failed[0]} among them")
    left = side.text("squeue", "-h", "-o", "%A").split()
    if left:
        side.spawn("scancel", *sorted(set(left)))
        drain(side)


def rows(context: Context, rates: Rates) -> list[Row]:
    found = []
    calls = context.pick(CALLS, CALLS_QUICK)
    for what in (SUBMIT, LIST):
        # Python is the way out where there is no compiler; the bar is for what is installed.
        found += _rows(f"{calls} x {what}, ", rates[what], RELAYS, CALL_RATIO_MIN)
    jobs, elements = context.pick(JOBS, JOBS_QUICK), context.pick(ELEMENTS, ELEMENTS_QUICK)
    for key, name in (("jobs", f"{jobs} no-op batch jobs"), ("array", f"an array of {elements:,}")):
        found += _rows(f"{name} end to end, ", rates[key], RELAYS[:1], JOB_RATIO_MIN)
    return found


def _rows(
    what: str, rates: dict[str, list[float]], relays: Sequence[str], least: float
) -> list[Row]:
    """Each relay beside each setting of Slurm; the bars are held against both."""
    medians = {side: statistics.median(found) for side, found in rates.items()}
    samples = {side: [round(rate, 1) for rate in found] for side, found in rates.items()}
    found = []
    for relay in relays:
        for profile in PROFILES:
            held = relay == RELAYS[0]
            found.append(
                against(
                    SECTION, f"{what}{relay} relay", "/s", medians[f"{relay} relay"],
                    f"Slurm, {profile} /s", medians.get(f"Slurm, {profile}"),
                    ratio_at_least(least) if held else None,
                    note=_GOAL if held and least == CALL_RATIO_MIN else "",
                    samples=samples,
                )
            )  # fmt: skip
    return found
