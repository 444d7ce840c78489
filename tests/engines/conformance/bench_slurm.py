"""A real Slurm: by slurmrestd behind a proxy, or by its commands behind wrappers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil

from tests.engines.conformance.bench import Inside, processes
from tests.engines.conformance.bench_engine import GIVE_BACK_S, EngineBench
from tests.engines.conformance.proxy import HttpProxy
from tests.engines.conformance.scenarios import Power
from tests.journeys.box import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from tests.engines.slurm.site import Site

#: No call takes longer: what is never answered is waited for so long.
LIMIT_S = 4.0
#: Stands before a command of Slurm on the host's PATH. ``$0.fault`` names what goes wrong.
WRAPPER = """#!/bin/bash
real={real} fault=$(cat {fault} 2>/dev/null)
case ${{0##*/}}:$fault in
*:away) echo "error: Unable to contact slurm controller (connect failure)" >&2; exit 1 ;;
sbatch:late) told=$("$real" "$@"); while [ -e {fault} ]; do sleep 0.05; done; echo "$told"; exit ;;
sbatch:error) "$real" "$@" >/dev/null
    echo "error: Batch job submission failed: Socket timed out on send/recv operation" >&2
    exit 1 ;;
sbatch:silent) "$real" "$@" >/dev/null; exec sleep 60 ;;
sbatch:twice) script=$(cat; echo .)
    printf %s "${{script%.}}" | "$real" "$@" >/dev/null
    printf %s "${{script%.}}" | exec "$real" "$@"; exit ;;
esac
exec "$real" "$@"
"""
#: The comment of a job that got the number of another.
HEIR = "somebody-elses"
PHASES = {"PENDING": "waiting", "RUNNING": "running", "COMPLETING": "running"}


class SlurmBench(EngineBench):
    """Three machines of four CPUs. Our jobs have a low quality of service: others may preempt."""

    other_user = "alice"
    machines = ("n1", "n2", "n3")
    powers = frozenset(Power)

    def __init__(self, root: Path, slurm: Site) -> None:
        super().__init__(root)
        self.slurm = slurm
        self.box.env["SLURM_CONF"] = slurm.variables["SLURM_CONF"]

    @property
    def table(self) -> dict[str, Any]:
        return {
            "kind": "slurm",
            "give_back_s": GIVE_BACK_S,
            "folder": str(self.slurm.folder),
            "partition": "main",
            "qos": "low",
            "limit_s": LIMIT_S,
            "poll_s": 0.2,
        }

    def look_inside(self, uid: str) -> list[Inside]:
        return [
            Inside(str(job["job_id"]), PHASES.get(job["job_state"], "ended"), job["nodes"])
            for job in self._jobs()
            if job["comment"] == uid or job["comment"].endswith(f":{uid}")
        ]

    def _jobs(self) -> list[dict[str, Any]]:
        return list(json.loads(self.slurm.run("squeue", "--json"))["jobs"])

    def engine_fault(self, name: str, target: str) -> AbstractContextManager[None]:
        update = ("scontrol", "update")
        partition, node, job = "PartitionName=main", f"NodeName={target}", f"JobId={target}"
        quota = ("sacctmgr", "-i", "modify", "account", "main", "set")
        pairs = {
            "closed": ((*update, partition, "State=DOWN"), (*update, partition, "State=UP")),
            "full": ((*quota, "GrpTRES=cpu=1"), (*quota, "GrpTRES=cpu=-1")),
            "drained": (
                (*update, node, "State=DRAIN", "Reason=new fan"),
                (*update, node, "State=RESUME"),
            ),
            "cancelled": (("scancel", target), ()),
            "held": (("scontrol", "hold", target), ("scontrol", "release", target)),
            "renamed": ((*update, job, f"Comment={HEIR}"), ("scancel", target)),
        }
        if name in pairs:
            return self._between(*pairs[name])
        if name in ("lost", "cut"):
            return self._without(target, everything=name == "lost")
        if name == "requeued":
            return self._requeued(target)
        if name == "purged":
            return self._purged(target)
        if name == "preempting":
            return self._other("--qos=high", f"--cpus-per-task={self.cpus}", f"--nodelist={target}")
        if name == "stranger":
            return self._other(f"--comment={target}")
        return self.call_fault(name)

    def call_fault(self, name: str) -> AbstractContextManager[None]:
        """What goes wrong on the way to Slurm."""
        raise NotImplementedError

    @contextmanager
    def _between(self, before: tuple[str, ...], after: tuple[str, ...]) -> Iterator[None]:
        self.slurm.run(*before)
        try:
            yield
        finally:
            if after:
                self.slurm.run(*after)

    @contextmanager
    def _without(self, machine: str, *, everything: bool) -> Iterator[None]:
        self._end_machine(machine, everything=everything)
        try:
            yield
        finally:
            if everything:  # What starts Slurm waits until all its machines serve.
                self.slurm.run("scontrol", "update", f"NodeName={machine}", "State=RESUME")
            self.slurm.start()

    @contextmanager
    def _requeued(self, job: str) -> Iterator[None]:
        """By an operator who insists: the job itself forbids it, and would wait two minutes."""
        self.slurm.run("scontrol", "update", f"JobId={job}", "Requeue=1")
        self.slurm.run("scontrol", "requeue", job)
        with suppress(AssertionError):  # Rota may have ended it by now.
            self.slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now")
        yield

    @contextmanager
    def _purged(self, job: str) -> Iterator[None]:
        until(lambda: job not in {str(one["job_id"]) for one in self._jobs()}, "Slurm to forget")
        yield

    @contextmanager
    def _other(self, *options: str) -> Iterator[None]:
        """A job of somebody who has never heard of Rota, once it runs."""
        number = self.slurm.run("sbatch", "--parsable", *options, "--wrap", "sleep 300")
        try:
            until(lambda: "RUNNING" in self.slurm.run("squeue", "-hj", number, "-o", "%T"), "it")
            yield
        finally:
            self.slurm.run("scancel", number)

    def _end_machine(self, machine: str, *, everything: bool) -> None:
        """Its slurmd; with ``everything`` also its steps, and Slurm is told that it is gone."""
        self._kill_daemon(machine)
        if everything:
            for job in self._jobs():
                if job["nodes"] == machine:
                    _end_step(processes(job["comment"].rpartition(":")[2]))
            # Sockets of steps, on which others would wait.
            for left in (self.slurm.state / "spool" / machine).glob(f"{machine}_*"):
                left.unlink()
            why = "Reason=gone"
            self.slurm.run("scontrol", "update", f"NodeName={machine}", "State=DOWN", why)

    def _kill_daemon(self, name: str) -> None:
        pid = int((self.slurm.state / f"run/{name}.pid").read_text().split()[0])
        handle = os.pidfd_open(pid)
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)
        until(lambda: not _alive(pid), f"the end of {name}")

    def tend(self) -> None:
        """A slurmctld that lost jobs gives their numbers away, and drains where they still run."""
        for node in json.loads(self.slurm.run("sinfo", "--json"))["nodes"]:
            if node["reason"].startswith("Duplicate jobid") and "DRAIN" in node["state_flags"]:
                self.slurm.run("scontrol", "update", f"NodeName={node['name']}", "State=RESUME")

    def revive(self) -> None:
        self._kill_daemon("slurmctld")
        self.slurm.start()


class SlurmRestBench(SlurmBench):
    """By slurmrestd."""

    name = "slurm-rest"

    def __init__(self, root: Path, slurm: Site) -> None:
        super().__init__(root, slurm)
        rest = urlsplit(slurm.variables["SLURM_REST_URL"])
        self.proxy = HttpProxy(rest.hostname or "", rest.port or 0, r"^POST .*/job/submit")
        self.proxy.begin()

    @property
    def table(self) -> dict[str, Any]:
        return super().table | {
            "rest_url": f"http://127.0.0.1:{self.proxy.port}",
            "token_file": str(self.slurm.state / "tokens/root"),
            "node_feature": "node-{node}",
        }

    def call_fault(self, name: str) -> AbstractContextManager[None]:
        return before_http(self.proxy, name)

    def close(self) -> None:
        super().close()
        self.proxy.close()


class SlurmCommandsBench(SlurmBench):
    """By sbatch, squeue and the others."""

    name = "slurm-commands"

    def __init__(self, root: Path, slurm: Site) -> None:
        super().__init__(root, slurm)
        self._fault = root / "fault"
        programs = root / "bin"
        programs.mkdir()
        for name in ("sbatch", "squeue", "sinfo", "scancel", "sacct"):
            real = subprocess.run(["which", name], capture_output=True, text=True, check=True)
            path = programs / name
            path.write_text(WRAPPER.format(real=real.stdout.strip(), fault=self._fault))
            path.chmod(0o755)
        self._path = f"{programs}:{os.environ['PATH']}"

    @property
    def host_env(self) -> dict[str, str]:
        return {"PATH": self._path}

    @contextmanager
    def call_fault(self, name: str) -> Iterator[None]:
        self._fault.write_text(name)
        try:
            yield
        finally:
            self._fault.unlink()


@contextmanager
def before_http(proxy: HttpProxy, name: str) -> Iterator[None]:
    """A fault of the proxy before an engine."""
    if name == "away":
        proxy.end()
    else:
        proxy.set(name)
    try:
        yield
    finally:
        if name == "away":
            proxy.begin()
        else:
            proxy.set("")


def _end_step(pids: list[int]) -> None:
    """The step that these are of. Its daemon first: it must not tell of the end of the others."""
    doomed: dict[int, psutil.Process] = {}
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            for parent in psutil.Process(pid).parents():
                if parent.name() == "slurmstepd":
                    every = [parent, *parent.children(recursive=True)]
                    doomed |= {process.pid: process for process in every}
    for process in doomed.values():
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
