"""One real Slurm for all tests, and a driver for it by each of the two ways."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.slurm.site import Bench, Site
from tests.support.machine import missing


@pytest.fixture(scope="session")
def slurm(shared_folder: Path) -> Iterator[Site]:
    if os.geteuid() != 0:
        missing("a real Slurm needs the rights of root")
    site = Site(shared_folder / "engines" / "slurm-up")
    before = dict(os.environ)
    try:
        try:
            site.start()
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            missing(f"no Slurm can be started on this machine: {error}")
        # For its commands, ours and the driver's.
        os.environ["SLURM_CONF"] = site.variables["SLURM_CONF"]
        yield site
    finally:
        site.stop()
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(params=["rest", "commands"])
def way(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def bench(slurm: Site, way: str) -> Iterator[Bench]:
    with slurm.bench(way) as bench:
        yield bench
