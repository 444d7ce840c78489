"""The sweep of examples/sweep_anywhere, unchanged, against whatever a controller has for it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.machine import REPOSITORY

if TYPE_CHECKING:
    from tests.journeys.box import Box

SWEEP = REPOSITORY / "examples" / "sweep_anywhere"
LIMIT_S = 240
RESULTS = [
    "0.000000 rate=0.2 steps=20 x=2.9999",
    "0.001196 rate=0.9 steps=20 x=2.9654",
    "0.054420 rate=0.2 steps=5 x=2.7667",
    "0.133028 rate=0.05 steps=20 x=2.6353",
    "0.966368 rate=0.9 steps=5 x=3.9830",
    "3.138106 rate=0.05 steps=5 x=1.2285",
]


def swept(box: Box) -> list[str]:
    """What it prints."""
    commands = box.work / "bin"
    commands.mkdir()
    command = commands / "rota"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m rota.cli.main "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        [SWEEP / "run.sh"],
        cwd=box.work,
        env={**box.env, "PATH": f"{commands}:{box.env['PATH']}"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
