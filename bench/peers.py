"""The peers, each measured by its own script of ``../shared/bench`` in this very run.

What is absent (the folder, a package, the rights of root) makes a peer ``Missing``: its name and
the reason end up in the report and nothing else fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Where many short programs are started, this many run at a time on each core.
SLOTS_PER_CORE = 8
REPOSITORY = Path(__file__).resolve().parents[1]


class Missing(Exception):
    """This peer cannot be measured here."""


def shared_folder() -> Path | None:
    """``ROTA_SHARED``, else ``shared`` beside the repository."""
    folder = Path(os.environ.get("ROTA_SHARED") or REPOSITORY.parent / "shared")
    return folder if (folder / "bench").is_dir() else None


def cache_folder() -> Path:
    """Where the peers' own environments are kept from run to run, outside of the repository."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "rota-bench"


class Peers:
    """Each figure is measured when it is first asked for, and once."""

    def __init__(self, *, quick: bool, wanted: Callable[[str], bool]) -> None:
        self._quick = quick
        self._wanted = wanted
        #: Name of the peer, and why it was not measured.
        self.missing: dict[str, str] = {}
        #: Everything that the scripts said, for the JSON.
        self.said: dict[str, Any] = {}

    def ask(self, name: str) -> dict[str, Any] | None:
        """One of the properties below, or nothing where the peer is missing."""
        return self.measured(name, lambda: getattr(self, name))

    def measured(self, name: str, measure: Callable[[], Any]) -> dict[str, Any] | None:
        """What ``measure`` finds, or nothing where the peer is missing; ``name``: PEER_WHAT."""
        peer = name.partition("_")[0]
        if peer in self.missing:
            return None
        if not self._wanted(peer):
            self.missing[peer] = "left out on request"
            return None
        try:
            answer: dict[str, Any] = measure()
        except Missing as reason:
            self.missing[peer] = str(reason)
            return None
        self.said[name] = answer
        return answer

    @cached_property
    def gflow_noop(self) -> dict[str, Any]:
        """No-op jobs over its HTTP API: in one batch, and one by one."""
        ways = {}
        for way in ("batch", "http"):
            answer = self._gflow("--phase", "makespan", "--via", way, "--n", "500")
            ways[way] = answer["makespan"]
        return ways

    @cached_property
    def gflow_latency(self) -> dict[str, Any]:
        # A sample takes as long as its next look at finished jobs: about ten seconds.
        answer = self._gflow("--phase", "latency", "--samples", "3" if self._quick else "9")
        found: dict[str, Any] = answer["latency"]
        return found

    @cached_property
    def gflow_chain(self) -> dict[str, Any]:
        answer = self._gflow("--phase", "chain", "--chain", "2" if self._quick else "5")
        found: dict[str, Any] = answer["chain"]
        return found

    @cached_property
    def slurm_all(self) -> dict[str, Any]:
        """Both settings of its scheduler, the light form of its script."""
        up = self._shared() / "engines" / "slurm-up"
        if os.geteuid() != 0:
            raise Missing("slurm-up needs root")
        jobs, profiles = ("100", "default") if self._quick else ("500", "default,tuned")
        # A unix socket's path is short, so the state folder must be near the root.
        state = tempfile.mkdtemp(prefix="rbs", dir="/tmp")
        try:
            return self._script(
                [sys.executable, "slurm_peer.py", "--up", str(up), "--state", state,
                 "--profiles", profiles, "--repeats", "1", "--submits", jobs, "--array", jobs,
                 "--latency", "2"],
                "--json", limit_s=1500,
            )  # fmt: skip
        finally:
            subprocess.run(
                [str(up.parent / "slurm-down"), "--purge", state], check=False,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            shutil.rmtree(state, ignore_errors=True)

    @cached_property
    def dask_all(self) -> dict[str, Any]:
        """Dask has no jobs; its tasks that start a child process come nearest."""
        self._shared()
        folder = environment("dask", "distributed")
        tasks = "1000" if self._quick else "3000"
        return self._script(
            [str(folder / "python"), "dask_peer.py", "--tasks", tasks], "--json", limit_s=150
        )

    @cached_property
    def ray_all(self) -> dict[str, Any]:
        """Tasks of a head and one further node; with one, what it does about loss is left out."""
        self._shared()
        folder = environment("ray", "ray[default]")
        return self._script(
            [str(folder / "python"), "ray_peer.py", "--tasks", "1000" if self._quick else "3000",
             "--nodes", "1", "--actors", "1", "--jobs", "1"],
            "--json", limit_s=200,
        )  # fmt: skip

    @cached_property
    def hyperqueue_all(self) -> dict[str, Any]:
        """Tasks that are the program ``true``; eight at a time per core, as those have to wait."""
        self._shared()
        folder = environment("hyperqueue", "hyperqueue")
        # Its client looks once a second whether the job is over: a short one would be misjudged.
        tasks = "3000" if self._quick else "10000"
        return self._script(
            [str(folder / "python"), "hq_peer.py", "--tasks", tasks, "--functions", "0",
             "--slots", str(SLOTS_PER_CORE)],
            "--json", limit_s=400,
        )  # fmt: skip

    def _gflow(self, *options: str) -> dict[str, Any]:
        self._shared()
        folder = environment("gflow", "runqd")
        if not (folder / "gflowd").exists():
            raise Missing("the package runqd brought no gflowd")
        return self._script(
            [sys.executable, "gflow_peer.py", "--bin", str(folder), "--executor", "process",
             *options],
            "--out", limit_s=400,
        )  # fmt: skip

    def _shared(self) -> Path:
        folder = shared_folder()
        if folder is None:
            raise Missing("there is no folder ../shared with the peers' scripts")
        return folder

    def _script(self, command: list[str], out_option: str, limit_s: float) -> dict[str, Any]:
        """Run a peer's script and read the JSON that it writes."""
        say(f"measuring with {' '.join(command[1:])}")
        with tempfile.TemporaryDirectory(prefix="rota-bench-peer-") as scratch:
            out = Path(scratch) / "out.json"
            full = [command[0], str(self._shared() / "bench" / command[1]), *command[2:],
                    out_option, str(out)]  # fmt: skip
            try:
                run_quietly(full, limit_s=limit_s, cwd=scratch)
                found: dict[str, Any] = json.loads(out.read_text())
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                raise Missing(f"{command[1]} gave no figures: {error}") from None
        return found


def environment(name: str, package: str) -> Path:
    """The programs of a virtual environment with one package, made when it is first needed."""
    folder = cache_folder() / name
    if (folder / "ready").exists():
        return folder / "bin"
    say(f"installing {package} into {folder}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # By our own pip: not every Python brings one along for others.
        run_quietly([sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)],
                    limit_s=300)  # fmt: skip
        python = str(folder / "bin" / "python")
        run_quietly([sys.executable, "-m", "pip", "--python", python, "install", "-q", package],
                    limit_s=600)  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise Missing(f"the package {package} could not be installed: {error}") from None
    (folder / "ready").touch()
    return folder / "bin"


def run_quietly(
    command: list[str], *, limit_s: float, cwd: str | None = None,
    env: Mapping[str, str] | None = None,
) -> None:  # fmt: skip
    """Run to the end in a session of its own, output kept for the error message only.

    On a time-out the script is asked to end (its own cleaning up follows) before it is made to.
    """
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = child.wait(limit_s)
        except BaseException:
            child.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(60)
            child.kill()
            child.wait()
            raise
        if code:
            log.seek(0)
            tail = log.read()[-500:].decode("utf-8", "replace").strip()
            raise subprocess.SubprocessError(f"exit code {code}: {tail}")


def say(text: str) -> None:
    print(f"# {text}", file=sys.stderr, flush=True)
