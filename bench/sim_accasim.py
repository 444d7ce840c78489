"""AccaSim, a simulator of the same kind that is on PyPI, on the same jobs in the same run."""

from __future__ import annotations

import gc
import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import gauge
from bench.peers import REPOSITORY, Missing, environment, run_quietly
from bench.report import Row, against
from bench.sim_logs import write_swf
from rota.sim.machine import machine_for
from rota.sim.readers import read_trace
from rota.sim.settings import SimSettings
from rota.sim.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.context import Context
    from rota.sim.trace import Trace, TraceJob

SECTION = "sim"
PACKAGE = "accasim==1.1.3"
#: With more it would take minutes.
JOBS, JOBS_QUICK = 5_000, 1_000
LIMIT_S = 600


def measure(context: Context, trace: Trace) -> list[Row]:
    """Reading counts on both sides: AccaSim reads while it plays."""
    jobs = trace.jobs[: context.pick(JOBS, JOBS_QUICK)]
    with tempfile.TemporaryDirectory(prefix="rota-bench-sim-", dir=context.folder) as scratch:
        log = Path(scratch) / "log.swf"
        write_swf(log, jobs, trace.procs)
        ours = ours_per_s(log, len(jobs))
        found = context.peers.measured("accasim_easy", lambda: accasim(log, jobs, trace.procs))
    rows = []
    for name, what in FORMS.items():
        theirs = found[name]["jobs"] / found[name]["cpu_s"] if found else None
        rows.append(against(
            SECTION, f"easy, the first {len(jobs):,} jobs with reading", "jobs/CPU s", ours,
            f"AccaSim 1.1.3, {what}", theirs,
        ))  # fmt: skip
    return rows


#: As which machine AccaSim is told the processors: the second one spares it the search for nodes.
FORMS = {"nodes": "a node per processor", "one": "one large node"}


def accasim(log: Path, jobs: Sequence[TraceJob], procs: int) -> dict[str, Any]:
    """CPU seconds in both forms of the machine."""
    python = environment("accasim", PACKAGE) / "python"
    machines = {
        "nodes": {"groups": {"g0": {"core": 1}}, "resources": {"g0": procs}},
        "one": {"groups": {"g0": {"core": procs}}, "resources": {"g0": 1}},
    }
    found: dict[str, Any] = {}
    for name, form in machines.items():
        machine, out = log.with_name(f"{name}.json"), log.with_name(f"{name}-found.json")
        machine.write_text(
            json.dumps({**form, "equivalence": {"processor": {"core": 1}}, "start_time": 0})
        )
        driver = REPOSITORY / "bench" / "accasim_peer.py"
        command = [str(python), str(driver), str(log), str(machine), str(out)]
        try:
            run_quietly(command, limit_s=LIMIT_S, cwd=str(log.parent))
            found[name] = json.loads(out.read_text())
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise Missing(f"AccaSim gave no figures: {error}") from None
        if found[name]["jobs"] != len(jobs):
            raise Missing(f"AccaSim played {found[name]['jobs']} of {len(jobs)} jobs")
    return found


def ours_per_s(log: Path, count: int) -> float:
    """The same file, read and played: the median of three rounds."""
    rounds = []
    for _ in range(3):
        gc.collect()
        with gauge.taking() as took:
            trace = read_trace(log)
            simulate(trace, machine_for(trace), "easy", SimSettings())
        rounds.append(took)
    return count / gauge.median_cpu_s(rounds)
