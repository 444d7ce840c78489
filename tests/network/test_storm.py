"""A controller and agents with addresses of their own, on a network that fails in every way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.network import witness
from tests.network.ether import lacking
from tests.network.site import Site
from tests.network.storm import Database, Storm
from tests.support.machine import missing
from tests.support.postgres import PostgresServer

#: So many storms, half of them on PostgreSQL: ``script/test storms`` has twenty.
STORMS = int(os.environ.get("ROTA_STORMS", "2"))
SEEDS = range(5, 5 + (STORMS + 1) // 2)
SEEDS_POSTGRES = range(5, 5 + STORMS // 2)
LEASE_S = 2
JOBS, PAUSE_S = 200, 0.7


@pytest.fixture
def new_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """Make sites that are taken down, jobs and all, when the test ends."""
    reason = lacking()
    if reason:
        missing(reason)
    sites: list[Site] = []

    def make(seed: int, database: str = "") -> Site:
        root = tmp_path / f"site{len(sites)}"
        sites.append(Site(root, agents=3, cpus=6, lease_s=LEASE_S, seed=seed, database=database))
        return sites[-1]

    yield make
    for site in sites:
        site.close()


def judge(storm: Storm, book: witness.Book) -> None:
    try:
        faults = storm.run(book)
    finally:
        print("\n".join(storm.story), storm.tally(book), sep="\n", flush=True)

    assert "\n".join(faults) == ""
    assert len(storm.story) >= 5


@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_job_is_lost_or_live_twice_whatever_breaks_in_between(
    seed: int, new_site: Callable[..., Site], tmp_path: Path
) -> None:
    site = new_site(seed)

    judge(Storm(site, jobs=JOBS, seed=seed, pause_s=PAUSE_S), witness.Book(tmp_path / "book"))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", SEEDS_POSTGRES)
def test_no_job_is_lost_or_live_twice_when_the_database_breaks_too(
    seed: int,
    new_site: Callable[..., Site],
    postgres_server: PostgresServer,
    postgres_url: str,
    tmp_path: Path,
) -> None:
    database = Database(postgres_server, postgres_url)
    site = new_site(seed, database.address)
    storm = Storm(site, jobs=JOBS, seed=seed, pause_s=PAUSE_S, database=database)

    judge(storm, witness.Book(tmp_path / "book"))
