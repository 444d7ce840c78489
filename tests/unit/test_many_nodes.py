"""What agents do costs what it is about, however many other nodes there are."""

from collections.abc import Callable, Iterable
from functools import partial

import pytest

from rota.controller.commands import commands as cmd
from rota.controller.engine import Asked, FromLink, Tick
from rota.rpc.messages import Desired
from rota.testing.scene import OPERATOR, Scene
from tests.support.effort import counted

pytestmark = pytest.mark.slow

SMALL, LARGE = 10, 60
LEASE_S = 300.0


def calls_in_ticks(scene: Scene, deed: Callable[[], object]) -> int:
    """How many Python functions the controller calls meanwhile: no load disturbs this measure."""
    count = 0
    plain = scene.controller.tick

    def noted(now_s: float, inbox: Iterable[FromLink | Asked]) -> Tick:
        nonlocal count
        tick, calls = counted(partial(plain, now_s, inbox))
        count += calls
        return tick

    scene.tick()
    scene.controller.tick = noted
    deed()
    scene.controller.tick = plain
    return count


def test_a_beat_costs_the_same_on_a_large_site_as_on_a_small_one():
    work = {}

    for nodes in (SMALL, LARGE):
        scene = Scene(nodes=nodes, lease_s=LEASE_S)
        work[nodes] = calls_in_ticks(scene, partial(scene.beat, "box3"))

    assert 0 < work[LARGE] == work[SMALL]


def test_a_job_that_starts_is_told_to_its_own_node_as_a_change_and_to_nobody_else():
    scene = Scene(nodes=LARGE)
    one = cmd.Submit(actor=OPERATOR, submissions=(scene.submission("one"),))

    tick = scene.controller.tick(scene.now_s, [Asked(1, one)])

    [(uid, (job, _))] = scene.cluster.live.where.items()
    [(link, order)] = tick.to_agents
    assert link == scene.link_of[scene.cluster.jobs[job].round[0].allocation.node]
    assert isinstance(order, Desired)
    assert ([wanted.uid for wanted in order.attempts], order.full) == ([uid], False)


def test_a_failure_costs_the_same_where_many_nodes_have_seen_some_as_where_few_have():
    work = {}

    for nodes in (SMALL, LARGE):
        scene = Scene(nodes=nodes, cpus=1)
        scene.submit("broken", array=f"0-{4 * nodes}")
        for uid in list(scene.alive):
            scene.end(uid, 1, 0)
        work[nodes] = calls_in_ticks(scene, partial(scene.end, next(iter(scene.alive)), 1, 0))

    # One call more per node would be 4 % more: fifty nodes, some twelve hundred calls.
    assert 0 < work[LARGE] <= work[SMALL] * 1.04


def test_the_next_element_of_an_array_costs_the_same_however_many_have_gone_before_it():
    work = {}

    for gone in (50, 800):
        scene = Scene(nodes=2, cpus=1)
        scene.submit("many", array="0-9999")
        for _ in range(gone):
            scene.end(next(iter(scene.alive)), 0, 0)
        work[gone] = calls_in_ticks(scene, partial(scene.end, next(iter(scene.alive)), 0, 0))

    assert 0 < work[800] <= work[50] + 5
