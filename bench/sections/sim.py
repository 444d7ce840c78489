"""The simulator: recorded and made-up logs through the pools of the scheduling core, and openb.

Rates are jobs per second of CPU time; reading the log is a row of its own and not in them.
"""

from __future__ import annotations

import gc
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench import gauge, sim_accasim
from bench.child import run_child
from bench.peers import shared_folder
from bench.report import Row, value_at_least, value_at_most
from bench.sections import sim_openb
from bench.sim_logs import deepest, made_up, made_up_trace, write_swf
from rota.sim.machine import machine_for
from rota.sim.readers import read_trace
from rota.sim.settings import SimEstimates, SimSettings
from rota.sim.simulate import simulate

if TYPE_CHECKING:
    from bench.context import Context
    from bench.gauge import Took
    from bench.report import Bar
    from rota.sim.run import Run
    from rota.sim.trace import Trace

SECTION = "sim"
ROUNDS = 3

DEEP_MIN = 10_000
#: Policies over the whole log, and how many jobs per CPU second are asked of them; 0: no bar.
POLICIES = {
    "easy": 20_000,
    "easy-sjbf": 0,
    "sjf-easy": 0,
    "wfp3": 20_000,
    "unicef": 20_000,
    "f1": 20_000,
    "conservative": 20_000,
    "default": 0,
}
MEMORY_MIB_MAX = 4_096
#: The recorded log, or one of our own of the same size and load.
LOG, LOG_JOBS, LOG_PROCS, LOG_LOAD = "sc15-CTC-SP2", 77_199, 338, 0.84
LOG_JOBS_QUICK = 10_000
#: More work than the machine can do, so that thousands wait.
DEEP_JOBS, DEEP_JOBS_QUICK, DEEP_PROCS, DEEP_LOAD = 300_000, 30_000, 1_000, 1.05
MANY_JOBS, MANY_JOBS_QUICK, MANY_LOAD = 1_000_000, 50_000, 1.0


def measure(context: Context) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="rota-bench-sim-", dir=context.folder) as scratch:
        context.say("sim: a whole log")
        path = log_path(Path(scratch))
        trace, reading = read(path)
        trace.jobs = trace.jobs[: context.pick(len(trace.jobs), LOG_JOBS_QUICK)]
        rows += [reading, *policy_rows(context, trace), *command_rows(path, Path(scratch))]
        context.say("sim: AccaSim")
        rows += sim_accasim.measure(context, trace)
        context.say("sim: a log with thousands waiting")
        rows.append(deep_row(context))
        context.say("sim: a million jobs")
        rows += many_rows(context, Path(scratch))
    return rows + sim_openb.measure(context)


def log_path(scratch: Path) -> Path:
    shared = shared_folder()
    recorded = shared / "traces" / "swf" / f"{LOG}.swf.gz" if shared else None
    if recorded is not None and recorded.exists():
        return recorded
    own = scratch / "made-up.swf"
    write_swf(own, made_up(LOG_JOBS, LOG_PROCS, LOG_LOAD), LOG_PROCS)
    return own


def read(path: Path) -> tuple[Trace, Row]:
    rounds = []
    for _ in range(ROUNDS):
        gc.collect()
        with gauge.taking() as took:
            trace = read_trace(path)
        rounds.append(took)
    what = f"reading {path.name}, {len(trace.jobs):,} jobs"
    seconds = gauge.median_cpu_s(rounds)
    return trace, Row(SECTION, what, seconds, "CPU s", note=gauge.spread(rounds))


def play(trace: Trace, policy: str, settings: SimSettings, rounds: int) -> tuple[Run, list[Took]]:
    """The same run again and again."""
    found = []
    run = None
    for _ in range(rounds):
        # What the last round left behind is not this one's to clear away.
        run = None
        gc.collect()
        with gauge.taking() as took:
            run = simulate(trace, machine_for(trace), policy, settings)
        found.append(took)
    assert run is not None
    return run, found


def rate_row(what: str, jobs: int, took: list[Took], bar: Bar | None, note: str = "") -> Row:
    best = jobs / min(one.cpu_s for one in took)
    said = "; ".join(part for part in (note, f"best {best:,.0f}", gauge.spread(took)) if part)
    rate = jobs / gauge.median_cpu_s(took)
    return Row(SECTION, what, rate, "jobs/CPU s", bar=bar, note=said)


def policy_rows(context: Context, trace: Trace) -> list[Row]:
    """Every kind of pool over the whole log. Slow ones get one round."""
    rows = []
    for policy, least in POLICIES.items():
        context.say(f"sim: {policy}")
        rounds = 1 if policy in ("conservative", "default") else ROUNDS
        run, took = play(trace, policy, SimSettings(), rounds)
        bar = value_at_least(least) if least else None
        rows.append(
            rate_row(f"{policy}, {len(run.jobs):,} jobs of {trace.name}", len(run.jobs), took, bar)
        )
    context.say("sim: predicted estimates")
    run, took = play(trace, "easy", SimSettings(estimates=SimEstimates.PREDICTED), ROUNDS)
    rows.append(rate_row(f"easy, predicted estimates, {trace.name}", len(run.jobs), took, None))
    return rows


def command_rows(path: Path, scratch: Path) -> list[Row]:
    """What somebody waits for who types the command: start, read, play, tell, write."""
    child = run_child(command(path, scratch / "out"), limit_s=300)
    what = f"rota sim {path.name} --policy easy --out DIR"
    return [
        Row(SECTION, f"{what}: wall", child.wall_s, "s"),
        Row(SECTION, f"{what}: CPU", child.cpu_s, "s",
            note=f"{child.peak_mib:.0f} MiB at its highest"),
    ]  # fmt: skip


def command(path: Path, out: Path) -> list[str]:
    rota = Path(sys.executable).parent / "rota"
    return [str(rota), "sim", str(path), "--policy", "easy", "--out", str(out), "--quiet"]


def deep_row(context: Context) -> Row:
    count = context.pick(DEEP_JOBS, DEEP_JOBS_QUICK)
    trace = made_up_trace("deep", count, DEEP_PROCS, DEEP_LOAD)
    run, took = play(trace, "easy", SimSettings(), ROUNDS)
    most = deepest(run.jobs, run.start_s)
    what = f"easy, {count:,} jobs made up, load {DEEP_LOAD}"
    return rate_row(what, count, took, value_at_least(DEEP_MIN), f"{most:,} wait at the peak")


def many_rows(context: Context, scratch: Path) -> list[Row]:
    """Written as a file and played by the command, in a process of its own."""
    count = context.pick(MANY_JOBS, MANY_JOBS_QUICK)
    path = scratch / "many.swf"
    write_swf(path, made_up(count, DEEP_PROCS, MANY_LOAD), DEEP_PROCS)
    child = run_child(command(path, scratch / "many"), limit_s=1800)
    what = f"rota sim, {count:,} jobs"
    return [
        Row(SECTION, f"{what}: memory at its highest", child.peak_mib, "MiB",
            bar=value_at_most(MEMORY_MIB_MAX)),
        Row(SECTION, f"{what}: the whole command", count / child.cpu_s, "jobs/CPU s",
            note=f"start, read, play, figures, write: CPU {child.cpu_s:.1f} s, "
            f"wall {child.wall_s:.1f} s"),
    ]  # fmt: skip
