"""Finished jobs are forgotten when the site no longer wants them."""

import asyncio

import pytest

from rota.controller.chores.retention import forget_old_jobs, prune_once
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
