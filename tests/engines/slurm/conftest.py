"""A driver for Slurm by each of the two ways."""

from collections.abc import Iterator

import pytest

from tests.engines.slurm.site import Bench, Site


@pytest.fixture(params=["rest", "commands"])
def way(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def bench(slurm: Site, way: str) -> Iterator[Bench]:
    with slurm.bench(way) as bench:
        yield bench
