"""A real Ray for tests: started, asked and stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from pathlib import Path

#: Installing it takes most of this, once on a machine.
START_S = 280.0


class Ray:
    """The cluster: three nodes of four CPUs. ``python`` is one that has Ray.

    Paths of sockets are short, so its folder has to be.
    """

    def __init__(self, up: Path, folder: Path) -> None:
        self._up, self._state = up, folder / "r"

    def start(self) -> None:
        """Start it, or what has died of it."""
        self._state.mkdir(exist_ok=True)
        done = subprocess.run(
            [self._up, "--nodes", "3", "--cpus", "4", "--gpus", "4", self._state],
            cwd=self._state,  # A raylet that dies leaves its core there.
            text=True,
            capture_output=True,
            timeout=START_S,
            check=False,
        )
        assert not done.returncode, done.stderr[-300:]
        env = dict(re.findall(r"^export (\w+)=(.*)$", done.stdout, re.MULTILINE))
        self.url, self.python = env["RAY_DASHBOARD_URL"], env["RAY_UP_PYTHON"]
        self.address = env["RAY_ADDRESS"]

    def stop(self) -> None:
        down = [self._up.with_name("ray-down"), "--purge", self._state]
        subprocess.run(down, capture_output=True, timeout=90, check=False)

    def signal(self, name: str, number: int, program: str = "") -> None:
        """To all processes of a node, or to one program of it."""
        leader = (self._state / "run" / f"{name}.pid").read_text().split()[0]
        words = ["pgrep", "-s", leader, *([program] if program else [])]
        found = subprocess.run(words, capture_output=True, text=True, check=False)
        for pid in found.stdout.split():
            with suppress(ProcessLookupError):  # Some end with those before them.
                os.kill(int(pid), number)

    def kill_node(self, name: str) -> None:
        self.signal(name, signal.SIGKILL)

    def inside(self, text: str, *words: str) -> str:
        """What a program prints that is connected to the cluster."""
        done = subprocess.run(
            [self.python, "-c", text, *words],
            env={**os.environ, "RAY_ADDRESS": self.address},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def jobs(self, mark: str) -> list[Any]:
        """Those in Ray's own list whose id has this in it."""
        listed = httpx.get(f"{self.url}/api/jobs/", timeout=30).json()
        return [job for job in listed if mark in (job["submission_id"] or "")]
