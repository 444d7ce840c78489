"""A command in a process of its own, and what it took: CPU time, wall time, memory at its highest.

The kernel hands the highest memory of a parent on to its child over ``exec``. So the command is
started by a small process, which is this very module, and not by the benchmark itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.peers import REPOSITORY
from bench.rota import Broken

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Child:
    cpu_s: float
    wall_s: float
    peak_mib: float
    #: What it wrote to standard output and standard error.
    said: str


def run_child(command: Sequence[str], limit_s: float) -> Child:
    """Run to the end; one that fails or takes too long is ``Broken``."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-child-") as scratch:
        found, log = Path(scratch) / "found.json", Path(scratch) / "log"
        code = _run([sys.executable, "-m", "bench.child", str(found), *command], log, limit_s)
        said = log.read_text("utf-8", "replace")
        if code:
            raise Broken(f"{' '.join(command)}: exit code {code}: {said[-500:].strip()}")
        return Child(**json.loads(found.read_text()), said=said)


def _run(command: list[str], log: Path, limit_s: float) -> int:
    """The exit code. Whoever is interrupted here leaves no process behind."""
    with log.open("wb") as out:
        child = subprocess.Popen(
            command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
        try:
            return child.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise Broken(f"{' '.join(command)} took more than {limit_s:.0f} s") from None
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()


def _measure(found: Path, command: list[str]) -> int:
    """Start the command, wait for it, write down what it took."""
    began = time.perf_counter()
    pid = os.posix_spawnp(command[0], command, os.environ)
    _, status, used = os.wait4(pid, 0)
    took = {
        "cpu_s": used.ru_utime + used.ru_stime,
        "wall_s": time.perf_counter() - began,
        "peak_mib": used.ru_maxrss / 1024,
    }
    found.write_text(json.dumps(took))
    return os.waitstatus_to_exitcode(status) & 0xFF


if __name__ == "__main__":
    sys.exit(_measure(Path(sys.argv[1]), sys.argv[2:]))
