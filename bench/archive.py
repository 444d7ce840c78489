"""What an archive takes: ``python -m bench.archive [FINISHED ...]``.

For each size a database as of ``bench.years``; then a fresh process archives all that has ended, as
the chore of a controller does. Not a section of ``script/bench``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import gauge, years
from rota.store.archive.writing import write
from rota.store.open import open_store

SIZES = (100_000, 1_000_000)


def archive(path: Path) -> None:
    """In a process of its own: its memory is the figure."""
    store = open_store(str(path))
    before_mib = gauge.memory_mib("VmHWM")
    began_s = time.monotonic()
    written = write(store, path.parent / "archive", time.time())
    took_s = time.monotonic() - began_s
    size = sum(file.stat().st_size for file in (path.parent / "archive").iterdir()) >> 20
    print(f"{written.jobs:,} jobs in {took_s:.0f} s, {size} MiB on disk;", end=" ")
    most_mib = gauge.memory_mib("VmHWM")
    print(f"{most_mib:.0f} MiB of memory at the most, {before_mib:.0f} MiB before", flush=True)
    store.close()


def main(words: list[str]) -> None:
    if words[:1] == ["archive"]:
        archive(Path(words[1]))
        return
    for size in map(int, words or SIZES):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rota.db"
            years.write(path, size, 0)
            command = [sys.executable, "-m", "bench.archive", "archive", str(path)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
