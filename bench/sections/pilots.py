"""Short tasks through allocations of a real Slurm that are asked for when jobs wait.

Each round measures all in turn, from before the submit until the last end is known; then until the
last allocation has gone. Beside it dask-jobqueue with adaptive scaling on the same Slurm, and
HyperQueue. Of the latter the Python package has server and workers but no program ``hq``, with
which its automatic allocation is set up and its workers start: so its figure is a floor, the time
in which Slurm starts as many allocations that do nothing, and then the same tasks through workers
that are there already.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.peers import Missing, environment
from bench.real_slurm import real_slurm
from bench.report import Row, against, ratio_at_most, value_at_most
from bench.rota import Broken

if TYPE_CHECKING:
    from bench.context import Context
    from bench.rota import Rota

SECTION = "pilots"
TASKS, TASKS_QUICK = 2_000, 400
SECONDS = "0.1"
#: As ``slurm-up`` makes them.
NODES, CPUS = 4, 4
RUN_S_MAX = 180.0
#: Including the idle time of 30 s, which is the default.
GONE_S_MAX = 60.0
POLL_S = 0.05


def measure(context: Context) -> list[Row]:
    tasks = context.pick(TASKS, TASKS_QUICK)
    found: dict[str, list[dict[str, float]]] = {"rota": [], "hyperqueue": [], "dask": []}
    with real_slurm("tuned") as env:
        settings = {"SLURM_CONF": env["SLURM_CONF"], "PATH": env["PATH"]}
        if "PYTHONPATH" in os.environ:
            settings["PYTHONPATH"] = os.environ["PYTHONPATH"]
        with context.rota(SECTION, with_agent=False, settings=settings) as rota:
            _add(rota)
            _round(rota, env, 2 * NODES * CPUS)  # All is loaded once.
            for _ in range(context.pick(3, 1)):
                found["rota"].append(_round(rota, env, tasks))
                for peer, ask in (("hyperqueue", _hyperqueue), ("dask", _dask)):
                    said = context.peers.measured(f"{peer}_pilots", partial(ask, env, tasks))
                    if said is not None:
                        found[peer].append(said)
    return _rows(tasks, found)


def _rows(tasks: int, found: dict[str, list[dict[str, float]]]) -> list[Row]:
    own = [each["took_s"] for each in found["rota"]]
    title = f"{tasks:,} tasks of {SECONDS} s on {NODES} pilots of {CPUS} CPUs"
    rows = []
    for peer, yardstick, bar in (
        ("hyperqueue", "HyperQueue's floor, s", ratio_at_most(1.0)),
        ("dask", "dask-jobqueue, s", ratio_at_most(1.0)),
    ):
        theirs = [each["took_s"] for each in found[peer]]
        ratios = [a / b for a, b in zip(own, theirs, strict=False)]
        rows.append(
            against(
                SECTION, title, "s", statistics.median(own), yardstick,
                statistics.median(theirs) if theirs else None, bar,
                ratio=statistics.median(ratios) if ratios else None,
                samples={"own": own, "theirs": theirs},
            )
        )  # fmt: skip
    gone = [each["gone_s"] for each in found["rota"]]
    theirs = [each["gone_s"] for each in found["dask"]]
    rows.append(
        against(
            SECTION, "from the last end to the last allocation gone", "s", statistics.median(gone),
            "dask-jobqueue, s", statistics.median(theirs) if theirs else None,
            value_at_most(GONE_S_MAX), note="the idle time of 30 s is in it",
            samples={"own": gone, "theirs": theirs},
        )
    )  # fmt: skip
    return rows


def _add(rota: Rota) -> None:
    program = Path(sys.executable).parent / "rota"
    words = ["engine", "pilot", "add", "slurm", "bench", "--cpus", str(CPUS), "--memory", "1g"]
    words += ["--most", str(NODES), "--time", "10m", "--set", f"folder={rota.root / 'shared'}"]
    done = subprocess.run(
        [str(program), *words], env=rota.environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Broken(f"rota engine pilot add: {done.stderr.strip()}")


def _round(rota: Rota, env: dict[str, str], tasks: int) -> dict[str, float]:
    """From the submit to the last end, and from there to an empty queue of Slurm."""
    job = rota.job(command=["sleep", SECONDS], time_limit_s=60, array=f"0-{tasks - 1}")
    began_s = time.perf_counter()
    first = int(rota.wire.post("/jobs", job)["id"])
    ended_s = rota.await_end([first], RUN_S_MAX)
    until_s = time.perf_counter() + RUN_S_MAX
    while _queued(env):
        if time.perf_counter() > until_s:
            raise Broken(f"allocations were still there after {RUN_S_MAX:g} s")
        time.sleep(POLL_S)
    gone_s = time.perf_counter() - ended_s
    counts = rota.wire.get(f"/jobs/{first}")
    if counts.get("state") != "completed":
        raise Broken(f"not all of {tasks} tasks ended well: {counts.get('state')}")
    return {"took_s": ended_s - began_s, "gone_s": gone_s}


def _queued(env: dict[str, str], state: str = "all") -> int:
    wanted = [] if state == "all" else ["-t", state]
    done = subprocess.run(["squeue", "-h", *wanted], env=env, capture_output=True, check=False)
    return len(done.stdout.splitlines())


def _hyperqueue(env: dict[str, str], tasks: int) -> dict[str, Any]:
    python = environment("hyperqueue", "hyperqueue") / "python"
    began_s = time.perf_counter()
    for _ in range(NODES):
        words = ["sbatch", "-o", "/dev/null", "-c", str(CPUS), "--wrap", "sleep 60"]
        subprocess.run(words, env=env, capture_output=True, check=True, cwd="/")
    while _queued(env, "RUNNING") < NODES:
        time.sleep(POLL_S)
    started_s = time.perf_counter() - began_s
    subprocess.run(["scancel", "--me"], env=env, check=True)
    while _queued(env):
        time.sleep(POLL_S)
    # Not its own folder: a module there has the name of the package.
    words = [str(python), "-P", str(Path(__file__).parents[1] / "pilot_hq.py")]
    told = _told([*words, str(tasks), str(NODES), str(CPUS), SECONDS], env)
    return {"took_s": told["took_s"] + started_s, "allocation_s": started_s}


def _dask(env: dict[str, str], tasks: int) -> dict[str, Any]:
    python = environment("dask-jobqueue", "dask-jobqueue") / "python"
    script = str(Path(__file__).parents[1] / "pilot_dask.py")
    with tempfile.TemporaryDirectory(prefix="rota-bench-dask-") as scratch:
        words = [str(python), script, str(tasks), str(NODES), str(CPUS), SECONDS, scratch]
        return _told(words, env)


def _told(words: list[str], env: dict[str, str]) -> dict[str, Any]:
    try:
        done = subprocess.run(
            words, env=env, capture_output=True, text=True, timeout=2 * RUN_S_MAX, check=True
        )
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", "") or ""
        raise Missing(f"{Path(words[1]).name} gave no figures: {error} {said[-300:]}") from None
    return found
