"""A quota that is nearly used up, or wholly, is put on record once."""

import asyncio

import pytest

from rota.api.site.quota_alerts import QUIET_S, QuotaWatch
from tests.api.pretended import PretendedAgent
from tests.api.running import WAIT_S, Caller, Running


@pytest.fixture
def project(caller: Caller, agent: PretendedAgent) -> Caller:
    """May hold five jobs at once."""
    quota = {"hard": {"jobs": 5}}
    assert caller.put("/projects/vision", {"quota": quota}).status == 200
    return caller


def look(server: Running, watch: QuotaWatch) -> None:
    asyncio.run_coroutine_threadsafe(watch.look(), server.loop).result(WAIT_S)


def run_jobs(caller: Caller, count: int) -> None:
    size = {"cpus": 0.1, "memory_mb": 1}
    for _ in range(count):
        caller.until(caller.submit(project="vision", resources=size), "scheduled", "running")


def notes(server: Running) -> list[tuple[int, str, str]]:
    found = server.store.events(limit=10_000)
    told = [one.event for one in found if type(one.event).__name__ == "QuotaReached"]
    return [(event.level, event.project, event.note) for event in told]


def test_each_level_is_told_once(server: Running, project: Caller) -> None:
    watch = QuotaWatch(server.host)

    for count in (3, 1, 0, 1, 0):
        run_jobs(project, count)
        look(server, watch)

    assert notes(server) == [
        (80, "vision", "4 of 5 jobs (80 %)"),
        (100, "vision", "5 of 5 jobs (100 %)"),
    ]


def test_a_restart_repeats_nothing(server: Running, project: Caller) -> None:
    run_jobs(project, 5)
    look(server, QuotaWatch(server.host))
    again = QuotaWatch(server.host)

    asyncio.run_coroutine_threadsafe(again.recall(), server.loop).result(WAIT_S)
    look(server, again)

    assert [level for level, _, _ in notes(server)] == [100]


def test_use_that_swings_is_told_again_only_after_a_quiet_time(
    server: Running, project: Caller
) -> None:
    watch = QuotaWatch(server.host)
    run_jobs(project, 4)
    look(server, watch)

    look(server, watch)
    once = len(notes(server))
    for one in watch._told.values():
        one.so_s -= QUIET_S + 1
    look(server, watch)

    assert (once, len(notes(server))) == (1, 2)
