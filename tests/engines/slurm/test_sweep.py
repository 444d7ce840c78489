"""The sweep of the examples, by the lines of its text, on a Slurm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.engines.sweep import swept_on_engine

if TYPE_CHECKING:
    from pathlib import Path

    from tests.engines.slurm.site import Site


def test_the_sweep_runs_on_a_slurm(slurm: Site, tmp_path: Path):
    swept_on_engine(tmp_path, "a Slurm", "./run.sh", env={}, folder=str(slurm.folder))
