"""A controller and agents with addresses of their own, on a network that fails in every way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.network import witness
from tests.network.ether import lacking
from tests.network.site import Site
from tests.network.storm import Storm
from tests.support.machine import missing

SEED = 5
LEASE_S = 2


@pytest.fixture
def new_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """Make sites that are taken down, jobs and all, when the test ends."""
    reason = lacking()
    if reason:
        missing(reason)
    sites: list[Site] = []

    def make(**options: int) -> Site:
        sites.append(Site(tmp_path / f"site{len(sites)}", lease_s=LEASE_S, **options))
        return sites[-1]

    yield make
    for site in sites:
        site.close()


@pytest.mark.timeout(300)
def test_no_job_is_lost_or_live_twice_whatever_breaks_in_between(
    new_site: Callable[..., Site], tmp_path: Path
) -> None:
    site = new_site(agents=3, cpus=6, seed=SEED)
    storm = Storm(site, jobs=150, seed=SEED, pause_s=1.2)
    book = witness.Book(tmp_path / "book")

    faults = storm.run(book)

    print(f"seed {SEED}: {storm.tally(book)}")
    assert faults == [], "\n".join(storm.story)
    assert len(storm.story) >= 5
