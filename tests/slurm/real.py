"""The commands as they are installed, against a real Rota on this machine."""

import os
import subprocess
import sys
from pathlib import Path

from tests.journeys.box import Box

WAIT_S = 100.0


class Slurm:
    """A folder of commands in front of PATH, and a place to call them in."""

    def __init__(self, box: Box, folder: Path, work: Path) -> None:
        self.box = box
        self.folder = folder
        self.work = work
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "USER") if name in os.environ}
        python = str(Path(sys.executable).parent)
        self.env = {**kept, "PATH": f"{folder}:{python}:/usr/bin:/bin"}

    def run(
        self,
        *argv: str,
        stdin: str = "",
        env: dict[str, str] | None = None,
        timeout_s: float = WAIT_S,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            cwd=self.work,
            env={**self.env, **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def text(self, *argv: str, stdin: str = "") -> str:
        done = self.run(*argv, stdin=stdin)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done.stdout

    def script(self, body: str, *options: str, code: int = 0) -> str:
        """Run a batch script to its end; what it printed."""
        words = ("sbatch", "--wait", "--parsable", "-o", "out-%j", *options)
        done = self.run(*words, stdin=f"#!/bin/bash\n{body}\n")
        assert done.returncode == code, (done.stderr, self._output(done.stdout))
        return self._output(done.stdout)

    def _output(self, printed: str) -> str:
        path = self.work / f"out-{printed.strip()}"
        return path.read_text() if path.exists() else ""
