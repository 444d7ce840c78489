"""Finished jobs are forgotten when the site no longer wants them."""

import asyncio

from rota.controller.chores.retention import prune_once
from rota.controller.loop import Host
from rota.store.writer import InlineWriter
from rota.testing.scene import Scene


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
