"""What a keeper is given at its start. It runs this file without the package around it."""

from __future__ import annotations

import os
from contextlib import suppress

#: How long it stays without an agent and without work; how long a job may take to come to its
#: program, and no process may be to be had; when the journal is written anew; what starts jobs.
OPTIONS = {
    "--idle-s": "60",
    "--start-s": "60",
    "--hold-s": "30",
    "--compact-bytes": str(8 << 20),
    "--starter": "",
}
USAGE = "usage: keeper.py FOLDER " + " ".join(f"[{name} VALUE]" for name in OPTIONS)
#: As a starter: the one in Python, whatever there is beside it.
PYTHON = "python"
#: Not the least that there is: what the system itself needs may be dearer to it.
OOM_SCORE = "-900"


class Means:
    """Its folder and its options, and what it starts jobs with."""

    def __init__(self, arguments: list[str]) -> None:
        options = dict(OPTIONS)
        if not arguments or len(arguments) % 2 == 0:
            raise SystemExit(USAGE)
        for name, value in zip(arguments[1::2], arguments[2::2], strict=True):
            if name not in options:
                raise SystemExit(f"keeper.py: unknown option {name}; known: {', '.join(options)}")
            options[name] = value
        self.folder = os.path.abspath(arguments[0])
        self.idle_s = float(options["--idle-s"])
        self.start_s = float(options["--start-s"])
        self.hold_s = float(options["--hold-s"])
        self.compact_bytes = int(float(options["--compact-bytes"]))
        #: The path of a compiled starter, or ``PYTHON``; empty: as this machine offers.
        self.starter = options["--starter"]
        #: The OOM score of jobs.
        self.score = "0"

    def outlive_jobs(self) -> None:
        """When memory is short the kernel takes a job, if we may ask for that."""
        with suppress(OSError), open("/proc/self/oom_score_adj", "r+", encoding="ascii") as file:
            self.score = file.read().strip()
            file.seek(0)
            file.write(OOM_SCORE)
