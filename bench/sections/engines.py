"""No-op jobs through Rota on an engine, and handed to the engine directly, in one run.

Both ways run one after the other on the same engine and take turns. Directly means what a person
would type: one ``sbatch`` after the other, and one ``kubectl create`` of a file with all Jobs.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.peers import Missing
from bench.real_kube import real_kube
from bench.real_slurm import real_slurm
from bench.report import Row, against, ratio_at_most
from bench.rota import Broken, Rota

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench.context import Context

SECTION = "engines"
JOBS, JOBS_QUICK = 200, 50
ROUNDS, ROUNDS_QUICK = 3, 1
RATIO_MAX = 1.3
NODES, CPUS = 3, 4
POLL_S = 0.1
DRAIN_S_MAX = 300.0
IMAGE = "rota.test/busybox:1"
WISH = {"cpus": 1, "memory_mb": 64}


def measure(context: Context) -> list[Row]:
    return [*_unless_missing(context, slurm), *_unless_missing(context, kubernetes)]


def _unless_missing(context: Context, part: Callable[[Context], list[Row]]) -> list[Row]:
    try:
        return part(context)
    except Missing as reason:
        context.peers.missing[part.__name__] = str(reason)
        return []


def slurm(context: Context) -> list[Row]:
    """By its commands; jobs of the same user both ways."""
    with real_slurm("default", {"SLURM_UP_NODES": str(NODES)}) as env:
        folder = Path(env["SLURM_CONF"]).parents[1] / "rota"
        folder.mkdir(mode=0o755)
        folder.parent.chmod(0o755)
        table = {"kind": "slurm", "folder": str(folder)}
        with _served(context, "slurm", table, env, NODES) as rota:
            return _rounds(context, "Slurm", "sbatch", rota, lambda n: _sbatch(env, n))


def kubernetes(context: Context) -> list[Row]:
    with real_kube(NODES, CPUS) as env:
        table = {"kind": "kubernetes", "kubeconfig": env["KUBECONFIG"], "image": IMAGE}
        with _served(context, "kubernetes", table, env, NODES) as rota:
            return _rounds(context, "Kubernetes", "kubectl create", rota, lambda n: _jobs(env, n))


@contextmanager
def _served(
    context: Context, label: str, table: Mapping[str, str], env: Mapping[str, str], nodes: int
) -> Iterator[Rota]:
    """A Rota whose only nodes are those of the engine."""
    config = context.folder / f"{label}.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    config.write_text("\n".join(["[engines.site]", *lines, ""]))
    found = {name: env[name] for name in ("PATH", "SLURM_CONF") if name in env}
    settings = {"ROTA_CONFIG": str(config), **found}
    with context.rota(label, with_agent=False, settings=settings) as rota:

        def is_up() -> bool:
            states = [node["state"] for node in rota.wire.get("/nodes")["items"]]
            return states.count("up") >= nodes

        rota.reach(is_up, f"{nodes} nodes of the engine")
        yield rota


def _rounds(
    context: Context, engine: str, yardstick: str, rota: Rota, direct: Callable[[int], float]
) -> list[Row]:
    count = context.pick(JOBS, JOBS_QUICK)
    _through(rota, 4)  # What is slow only the first time is nobody's here.
    direct(4)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(context.pick(ROUNDS, ROUNDS_QUICK)):
        theirs.append(direct(count))
        ours.append(_through(rota, count))
    ratio = statistics.median([a / b for a, b in zip(ours, theirs, strict=True)])
    return [
        against(
            SECTION, f"{count} no-op jobs on {engine} through Rota", "s", statistics.median(ours),
            yardstick, statistics.median(theirs), ratio_at_most(RATIO_MAX), ratio=ratio,
            samples={"rota": ours, "direct": theirs},
        )
    ]  # fmt: skip


def _through(rota: Rota, count: int) -> float:
    began = time.perf_counter()
    ids = [rota.submit(resources=WISH, workdir="/tmp") for _ in range(count)]
    seconds = rota.await_end(ids, DRAIN_S_MAX) - began
    if (right := rota.count_right(ids)) != count:
        raise Broken(f"{right} of {count} jobs ended with exit code 0")
    return seconds


def _call(env: Mapping[str, str], *words: str, stdin: str = "") -> str:
    done = subprocess.run(
        words, env=env, input=stdin, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode:
        raise Broken(f"{' '.join(words[:2])}: {done.stderr.strip()[-300:]}")
    return done.stdout


def _sbatch(env: Mapping[str, str], count: int) -> float:
    words = ("sbatch", "-c", "1", "--mem", "64", "-D", "/tmp", "-o", "/dev/null", "--wrap", "true")
    began = time.perf_counter()
    for _ in range(count):
        _call(env, *words)
    _until(lambda: not _call(env, "squeue", "-h").strip())
    return time.perf_counter() - began


def _jobs(env: Mapping[str, str], count: int) -> float:
    limits = {"cpu": "1", "memory": "64Mi"}
    container = {
        "name": "main", "image": IMAGE, "command": ["true"],
        "resources": {"requests": limits, "limits": limits},
    }  # fmt: skip
    pod = {"restartPolicy": "Never", "containers": [container]}
    items = [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": f"noop-{number}", "namespace": "rota-jobs"},
            "spec": {"backoffLimit": 0, "template": {"spec": pod}},
        }
        for number in range(count)
    ]
    listing = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    chosen = ("-n", "rota-jobs")
    began = time.perf_counter()
    _call(env, "kubectl", "create", "-f", "-", stdin=listing)
    path = "jsonpath={.items[*].status.succeeded}"
    _until(
        lambda: (
            _call(env, "kubectl", *chosen, "get", "jobs", "-o", path).split().count("1") == count
        )
    )
    seconds = time.perf_counter() - began
    _call(env, "kubectl", *chosen, "delete", "jobs", "--all", "--wait=true", "--timeout=60s")
    return seconds


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + DRAIN_S_MAX
    while not holds():
        if time.monotonic() > end:
            raise Broken(f"the engine had not finished after {DRAIN_S_MAX:g} s")
        time.sleep(POLL_S)
