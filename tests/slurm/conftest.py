"""A pretended cluster, new for each module that asks for one, and a real box with the commands."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.box import Box
from tests.slurm.cluster import Cluster, recorded_cluster
from tests.slurm.real import Slurm


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with recorded_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def slurm_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """A Rota on this machine, the commands installed with each of the two relays."""
    box = Box(tmp_path_factory.mktemp("slurm"), gpus=4)
    box.up()
    box.rota("slurm", "install", str(box.work / "compiled"))
    box.rota("slurm", "install", "--no-compile", str(box.work / "python"))
    yield box
    box.down("--stop-jobs")


@pytest.fixture
def slurm(slurm_box: Box, tmp_path: Path) -> Slurm:
    """The commands, with whichever relay this machine can build."""
    return Slurm(slurm_box, slurm_box.work / "compiled", tmp_path)


@pytest.fixture(params=["compiled", "python"])
def either(request: pytest.FixtureRequest, slurm_box: Box, tmp_path: Path) -> Slurm:
    """With each of the two relays."""
    return Slurm(slurm_box, slurm_box.work / request.param, tmp_path)
