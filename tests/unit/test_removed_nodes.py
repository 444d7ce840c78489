"""Nodes that an operator removes while their work may still be alive."""

from __future__ import annotations

import pytest

from rota.controller.commands import commands as cmd
from rota.core.changes import events as ev
from rota.core.facts.errors import Conflict
from rota.core.facts.node import NodeSpec
from rota.core.facts.tenant import Access, Actor
from rota.rpc.messages import PROTOCOL, Hello, SessionRefused
from rota.testing.scene import Scene

OPERATOR = Actor("olga", Access.OPERATOR)
#: A beat is 10 s; jobs have a grace of 30 s, and the margin is 6 s: 96 s in all.
LEASE_S = 60.0
TRUSTED_BEATS = 9


def remove(scene: Scene, node: str) -> None:
    scene.ask(cmd.RemoveNode(actor=OPERATOR, node=node))
    scene.online.discard(node)


def node_of(scene: Scene, job: int) -> str:
    return scene.job(job).tasks[0].attempts[-1].allocation.node


def two_boxes() -> tuple[Scene, int, str]:
    scene = Scene(nodes=2, cpus=2, lease_s=LEASE_S)
    job = scene.submit("work", cpus=2, retries=1, backoff_s=0)
    return scene, job, node_of(scene, job)


def test_a_removed_node_keeps_its_work_for_its_lease_and_then_both_are_gone():
    scene, job, here = two_boxes()

    remove(scene, here)
    scene.pass_beats(TRUSTED_BEATS)
    before = (node_of(scene, job), here in scene.cluster.nodes)
    scene.pass_beats(1)

    assert before == (here, True)
    assert node_of(scene, job) != here
    assert here not in scene.cluster.nodes


def test_a_removed_node_goes_although_the_controller_was_started_anew():
    scene, job, here = two_boxes()

    remove(scene, here)
    scene.restart()
    scene.pass_beats(TRUSTED_BEATS + 2)

    assert here not in scene.cluster.nodes
    assert scene.job(job).tasks[0].attempts[0].cause == "node_lost"


def test_a_removed_node_is_not_taken_in_while_its_work_may_be_alive():
    scene, _, here = two_boxes()
    remove(scene, here)

    tick = scene.connect(here)

    (refusal,) = [m for _, m in tick.to_agents if isinstance(m, SessionRefused)]
    assert refusal.reason == f"node {here} was removed, and 1 of its jobs may be alive"


def test_an_idle_node_is_forgotten_at_once():
    scene = Scene(nodes=2, lease_s=LEASE_S)

    remove(scene, "box1")

    assert list(scene.cluster.nodes) == ["box2"]


def test_nodes_that_an_operator_removed_do_not_count_as_vanished():
    scene = Scene(nodes=4, cpus=2, lease_s=LEASE_S)
    for _ in range(3):
        scene.submit("work", cpus=2, retries=1, backoff_s=0)
    busy = [name for name, node in scene.cluster.nodes.items() if node.live]

    for name in busy:
        remove(scene, name)
    scene.pass_beats(TRUSTED_BEATS + 1)

    assert not [event for event in scene.log if isinstance(event, ev.NodesVanished)]
    assert len(scene.cluster.nodes) == 1


def test_the_controllers_own_node_is_not_removed_under_its_agent():
    scene = Scene(lease_s=LEASE_S)
    here = NodeSpec("here", 1000, 100)
    scene.dial("here", Hello(PROTOCOL, here, "i", "b", "0", local=True))

    with pytest.raises(Conflict, match="connected by the controller's own socket"):
        remove(scene, "here")
