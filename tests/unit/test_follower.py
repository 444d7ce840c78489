"""A head that stands by knows what the one that leads has committed, and takes nothing in."""

import asyncio

import pytest

from rota.controller.commands.commands import Cancel
from rota.controller.follower import Follower
from rota.controller.recover import read_state
from rota.core.changes.compare import differences
from rota.core.facts.errors import Unavailable
from rota.testing.scene import ALICE
from tests.unit.story import stage, steps


def test_it_has_the_state_of_the_leader_after_every_step_of_a_long_story():
    async def follow() -> int:
        scene, count = stage(), 0
        follower = Follower(scene.store, scene.store)
        for step in steps(scene):
            step()
            await follower.catch_up()
            assert differences(follower.cluster, scene.cluster) == []
            count += 1
        assert follower.newest_seq == scene.controller.next_seq - 1
        return count

    assert asyncio.run(follow()) > 50


def test_the_next_leader_goes_on_from_the_ends_that_it_knows():
    async def follow() -> None:
        scene = stage()
        follower = Follower(scene.store, scene.store)
        for step in steps(scene):
            step()
        await follower.catch_up()
        ended = follower.cluster.ids.ended
        follower.let_go()

        warm, cold = read_state(scene.store, ended), read_state(scene.store)

        assert sum(ended.counts.values()) > 10
        assert differences(warm.cluster, cold.cluster) == []
        assert warm.next_seq == cold.next_seq

    asyncio.run(follow())


def test_it_takes_nothing_in():
    async def ask() -> None:
        scene = stage()
        follower = Follower(scene.store, scene.store)
        with pytest.raises(Unavailable, match="this head stands by"):
            await follower.ask(Cancel(actor=ALICE, ids=(1,)))
        with pytest.raises(Unavailable, match="this head stands by"):
            await follower.write(lambda store: store.set_bookmark("x", "y"))

    asyncio.run(ask())


def test_a_log_with_a_hole_is_not_followed():
    async def follow() -> None:
        scene = stage()
        follower = Follower(scene.store, scene.store)
        scene.submit("one")
        del scene.store.disk.tables.seqs[follower.newest_seq]
        with pytest.raises(Unavailable, match="read anew"):
            await follower.catch_up()

    asyncio.run(follow())
