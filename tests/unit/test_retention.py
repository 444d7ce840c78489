"""Finished jobs are forgotten when the site no longer wants them."""

import asyncio
import logging

import pytest

from rota.believed_time import DAY_S
from rota.controller.chores.retention import forget_old_jobs, pack_old_rows, prune_once
from rota.controller.clock import Clock
from rota.controller.loop import Host
from rota.core.facts.errors import Unavailable
from rota.store.archive.reading import open_archive
from rota.store.open import open_store
from rota.store.writer import InlineWriter
from rota.testing.scene import Scene
from tests.sim.clocked import Clocked


def test_finished_jobs_go_and_what_is_needed_stays():
    scene = Scene(cpus=1)
    scene.submit("old")
    scene.finish("old")
    scene.submit("parent")
    scene.submit("child", after={"parent": "after-ok"})
    scene.finish("parent")
    scene.pass_time(10 * 86_400)

    async def prune() -> int:
        host = Host(scene.store, InlineWriter(scene.store))
        return await prune_once(host, scene.now_s - 86_400)

    went = asyncio.run(prune())

    assert went > 0
    assert scene.store.job(scene.names["old"]) is None
    assert scene.store.job(scene.names["child"]) is not None
    assert scene.is_running("child")


def a_month_later(store, folder: str) -> None:
    """The chore of a site that keeps ten days and has an archive."""

    async def chore() -> None:
        host = Host(store, InlineWriter(store))
        await forget_old_jobs(host, 10, folder)

    asyncio.run(chore())


def test_jobs_are_in_the_archive_before_they_are_forgotten(tmp_path):
    store = open_store(str(tmp_path / "rota.db"))
    scene = Clocked(store, cpus=1)
    scene.submit("old")
    scene.finish("old")
    job = store.job(scene.names["old"])

    a_month_later(store, str(tmp_path / "archive"))

    assert store.job(job.id) is None
    assert open_archive(tmp_path / "archive").job(job.id) == job
    store.close()


def test_nothing_is_forgotten_while_the_archive_cannot_be_written(tmp_path):
    store = open_store(str(tmp_path / "rota.db"))
    scene = Clocked(store, cpus=1)
    scene.submit("old")
    scene.finish("old")
    (tmp_path / "archive").touch()

    with pytest.raises(Unavailable, match="cannot write the archive"):
        a_month_later(store, str(tmp_path / "archive"))

    assert store.job(scene.names["old"]) is not None
    store.close()


def finished(store) -> Clocked:
    scene = Clocked(store, cpus=1)
    scene.submit("old")
    scene.finish("old")
    return scene


def forget(store, at_s: float, days: int = 90) -> None:
    """A round of the chore, in a process that begins by that clock."""

    async def chore() -> None:
        clock = Clock(wall=lambda: at_s, steady=lambda: 0.0, boot=lambda: str(at_s))
        await forget_old_jobs(Host(store, InlineWriter(store), clock=clock), days)

    asyncio.run(chore())


def test_a_clock_that_leaps_by_years_forgets_a_day_of_the_past_a_round(tmp_path, caplog):
    store = open_store(str(tmp_path / "rota.db"))
    scene = finished(store)
    job, then_s = scene.names["old"], scene.now_s
    forget(store, then_s + DAY_S)
    assert not caplog.records

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            forget(store, then_s + 3000 * DAY_S)
    assert store.job(job) is not None
    assert "2999 days have gone by since the last look" in caplog.messages[0]

    # Set right again, and then lived through: it goes when it is time, and not a round before.
    for day in range(2, 90, 10):
        forget(store, then_s + day * DAY_S)
        assert store.job(job) is not None
    forget(store, then_s + 91 * DAY_S)
    assert store.job(job) is None
    store.close()


def test_after_a_long_rest_and_with_another_setting_it_is_forgotten_in_the_end(tmp_path):
    store = open_store(str(tmp_path / "rota.db"))
    scene = finished(store)
    job, then_s = scene.names["old"], scene.now_s
    forget(store, then_s + DAY_S)

    rounds = 0
    while store.job(job) is not None:
        forget(store, then_s + 100 * DAY_S, days=30)
        rounds += 1

    assert 20 < rounds < 40
    store.close()


def test_what_is_dated_in_the_future_holds_nothing_up_that_came_after_it(tmp_path):
    store = open_store(str(tmp_path / "rota.db"))
    wrong = Clocked(store, cpus=1)
    then_s = wrong.now_s
    wrong.pass_time(3000 * DAY_S)
    for number in range(60):
        wrong.submit(f"wrong-{number}")
        wrong.finish(f"wrong-{number}")
    wrong.now_s = then_s + 10
    for number in range(500):
        wrong.submit(f"right-{number}")
        wrong.finish(f"right-{number}")
    said = [*store.all_events()]
    ((rows,),) = store.driver.read("SELECT count(*) FROM events")

    async def chore() -> None:
        clock = Clock(wall=lambda: then_s + DAY_S, steady=lambda: 0.0, boot=lambda: "b")
        await pack_old_rows(Host(store, InlineWriter(store), clock=clock))

    asyncio.run(chore())

    ((left,),) = store.driver.read("SELECT count(*) FROM events")
    ((plain,),) = store.driver.read(
        "SELECT count(*) FROM jobs WHERE hex(substr(body, 1, 1)) != 'C1'"
    )
    assert left < rows / 2
    assert plain == 0
    assert [*store.all_events()] == said
    store.close()
