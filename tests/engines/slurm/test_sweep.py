"""The sweep of the examples, unchanged, on a Slurm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engines.conftest import EngineSite
from tests.engines.sweep import RESULTS, swept
from tests.journeys.box import Box

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.engines.slurm.site import Site


class SlurmSite(EngineSite):
    """A controller, and the host of a Slurm beside it."""

    def __init__(self, box: Box, folder: Path, slurm: Site) -> None:
        super().__init__(box, folder)
        table = f'[engines.lab]\nkind = "slurm"\nfolder = "{slurm.folder}"\npoll_s = 0.2\n'
        (folder / "rota.toml").write_text(table)

    def is_up(self) -> bool:
        _, page = self.box.api("GET", "/nodes")
        return [node["state"] for node in page["items"]].count("up") == 3


@pytest.fixture
def whole(slurm: Site, tmp_path: Path) -> Iterator[SlurmSite]:
    folder = tmp_path / "engine"
    folder.mkdir()
    made = SlurmSite(Box(tmp_path / "box"), folder, slurm)
    made.box.up("--no-agent")
    made.begin()
    yield made
    made.box.down("--stop-jobs")
    made.stop()


def test_the_sweep_runs_on_a_slurm(whole: SlurmSite):
    assert swept(whole.box) == RESULTS
