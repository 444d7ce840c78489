"""psij-python's own tests of executors, unmodified, against the installed commands.

It asks for a psutil that is older than ours, so it has an environment of its own, which
``script/test`` makes. Left out is what its source package does not bring whole (node files) or
what takes two nodes or MPI.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.box import Box
from tests.slurm.real import Slurm
from tests.support.machine import missing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FOLDER = Path(sys.prefix) / "psij"
#: Only against hanging for ever.
LIMIT_S = 280.0


@pytest.fixture
def psij() -> Path:
    """The folder with its environment and its source."""
    if not (FOLDER / "ready").exists():
        missing("psij-python is not installed; script/test does it")
    return FOLDER


@pytest.fixture
def own_slurm(tmp_path: Path) -> Iterator[Slurm]:
    """A box without jobs of others: psij lists them, too, and breaks at ends it has no word for."""
    box = Box(tmp_path / "box")
    box.up()
    box.rota("slurm", "install", str(box.work / "commands"))
    work = tmp_path / "work"
    work.mkdir()
    yield Slurm(box, box.work / "commands", work)
    box.down("--stop-jobs")


def test_psij_python_passes_its_own_tests_of_executors(psij: Path, own_slurm: Slurm) -> None:
    slurm = own_slurm
    (tests,) = psij.glob("source/psij*/tests")
    chosen = [str(tests / name) for name in ("test_executor.py", "test_issue_435.py")]
    memory = f"{tests / 'test_resources.py'}::test_memory"
    env = {"HOME": str(slurm.work), "PYTHONPATH": str(Path(__file__).parent)}

    # Nothing of our own settings: without a name, pytest finds those above its folder.
    words = ["-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(tests), "-p", "psij_stage"]
    done = subprocess.run(
        [str(psij / "bin/python"), *words, *chosen, memory],
        cwd=slurm.work,
        env={**slurm.env, **env, "PSIJ_LAUNCHERS": "single,srun"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
