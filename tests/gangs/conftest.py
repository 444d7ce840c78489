"""Two machines for gangs: a controller and two agents, each in a network namespace of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.network.ether import lacking
from tests.network.site import Site
from tests.support.machine import missing

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if lack := lacking():
        missing(f"gangs over nodes: {lack}")
    site = Site(tmp_path_factory.mktemp("gangs"), agents=2, cpus=2, lease_s=60)
    try:
        yield site
    finally:
        site.close()
