"""The text of examples/sweep_anywhere, followed line by line on whatever a site has."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.journeys.box import Box
from tests.support.machine import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

SWEEP = REPOSITORY / "examples" / "sweep_anywhere"
TEXT = (SWEEP / "README.md").read_text()
LIMIT_S = 240
RESULTS = [
    "0.000000 rate=0.2 steps=20 x=2.9999",
    "0.001196 rate=0.9 steps=20 x=2.9654",
    "0.054420 rate=0.2 steps=5 x=2.7667",
    "0.133028 rate=0.05 steps=20 x=2.6353",
    "0.966368 rate=0.9 steps=5 x=3.9830",
    "3.138106 rate=0.05 steps=5 x=1.2285",
]


def lines_for(where: str) -> list[str]:
    """What the table tells its reader to type there."""
    (row,) = re.findall(rf"^\| {where} \|(.*)\|$", TEXT, re.MULTILINE)
    return re.findall("`([^`]+)`", row)


class Reader:
    """Has a copy of the example and a Rota of their own; ``site`` is what this place has instead of
    the values of the example, in its file of settings or in a line.
    """

    def __init__(self, root: Path, where: str, **site: str) -> None:
        self.folder, self._site = root / "example", site
        shutil.copytree(SWEEP, self.folder)
        self.lines = lines_for(where)
        self.box = Box(root / "box")
        self.box.env.pop("ROTA_SERVER_LISTEN")
        commands = root / "bin"
        commands.mkdir()
        command = commands / "rota"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m rota.cli.main "$@"\n')
        command.chmod(0o755)
        self.box.env["PATH"] = f"{commands}:{self.box.env['PATH']}"

    def settle(self, name: str) -> None:
        """Write what this place has into a file of settings, as its reader has to."""
        path = self.folder / name
        text = path.read_text()
        for key, value in self._site.items():
            text, count = re.subn(rf"^{key} = .*$", f'{key} = "{value}"', text, flags=re.MULTILINE)
            assert count == 1, f"{name} has no {key}"
        path.write_text(text)

    def type(self, line: str) -> list[str]:
        """What it prints."""
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder,
            env=self.box.env,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        return done.stdout.splitlines()

    def close(self) -> None:
        self.box.down("--stop-jobs")


def swept_on_engine(root: Path, where: str, *lines: str, env: dict[str, str], **site: str) -> None:
    """Rota is started by the line for this engine, and the sweep by each of the ``lines``."""
    reader = Reader(root, where, **site)
    reader.box.env |= env
    (start,) = reader.lines
    reader.settle(re.findall(r"ROTA_CONFIG=(\S+)", start)[0])
    try:
        reader.type(start)
        for line in lines:
            assert reader.type(line) == RESULTS
    finally:
        reader.close()
