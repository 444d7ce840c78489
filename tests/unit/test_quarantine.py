"""Nodes and devices on which jobs keep dying are taken out of service, for good reason only."""

from __future__ import annotations

import pytest

from rota.controller.commands import commands as cmd
from rota.core.changes import events as ev
from rota.core.facts.placing import Placement
from rota.core.facts.tenant import Access, Actor
from rota.testing.scene import ADMIN, ALICE, BOB, Scene

CARL = Actor("carl", Access.USER)


def dies(scene: Scene, actor: Actor = ALICE, *, after_s: float = 1.0, **wishes: object) -> str:
    """A job that ends with 1 so long after its start; the node that it was on."""
    job = scene.submit("job", actor=actor, **wishes)
    return end(scene, job, after_s, code=1)


def end(scene: Scene, job: int, after_s: float, code: int) -> str:
    attempt = scene.job(job).tasks[0].attempts[-1]
    scene.now_s += after_s
    scene.end(attempt.uid, code, 0)
    return attempt.allocation.node


def runs_well(scene: Scene, **wishes: object) -> None:
    job = scene.submit("well", actor=CARL, **wishes)
    end(scene, job, 1.0, code=0)


def quarantined(scene: Scene) -> list[tuple[str, tuple[str, ...]]]:
    return [(e.node, e.devices) for e in scene.log if isinstance(e, ev.NodeQuarantined)]


@pytest.fixture
def scene() -> Scene:
    """Two nodes; jobs go to the first one as long as it is in service."""
    return Scene(nodes=2)


def on(node: str) -> dict[str, object]:
    return {"placement": Placement(nodes=(node,))}


def test_jobs_of_two_users_that_die_at_once_on_one_node_take_it_out_of_service(scene: Scene):
    for actor in (ALICE, BOB) * 3:
        dies(scene, actor, **on("box1"))

    node = scene.cluster.nodes["box1"]
    assert quarantined(scene) == [("box1", ())]
    assert node.drained
    said = "quarantined: 6 jobs of 2 users died within seconds of their start"
    assert node.note == f"{said}; 'rota node resume box1' lifts it"
    assert dies(scene, CARL) == "box2"


def test_one_users_failures_never_do(scene: Scene):
    for _ in range(50):
        dies(scene, ALICE, **on("box1"))
    dies(scene, BOB, **on("box1"))
    dies(scene, BOB, **on("box1"))

    assert quarantined(scene) == []


def test_one_job_that_is_tried_again_and_again_counts_once(scene: Scene):
    for actor in (ALICE, BOB):
        job = scene.submit("loop", actor=actor, retries=9, backoff_s=0, **on("box1"))
        for _ in range(9):
            end(scene, job, 1.0, code=1)

    assert quarantined(scene) == []


def test_people_whose_jobs_die_on_other_nodes_as_well_do_not_count(scene: Scene):
    for actor in (ALICE, BOB) * 5:
        dies(scene, actor, **on("box2"))
        dies(scene, actor, **on("box1"))

    assert quarantined(scene) == []


def test_a_job_that_ran_well_clears_the_node(scene: Scene):
    for actor in (ALICE, BOB, ALICE, BOB, ALICE):
        dies(scene, actor, **on("box1"))
    runs_well(scene, **on("box1"))
    dies(scene, BOB, **on("box1"))

    assert quarantined(scene) == []
    assert len(scene.cluster.nodes["box1"].early_ends) == 1


def test_jobs_that_fail_later_are_their_own_fault(scene: Scene):
    for actor in (ALICE, BOB) * 5:
        dies(scene, actor, after_s=60.0, **on("box1"))

    assert quarantined(scene) == []


def test_the_last_node_in_service_stays_in_service():
    scene = Scene()

    for actor in (ALICE, BOB) * 5:
        dies(scene, actor)

    assert quarantined(scene) == []
    assert not scene.cluster.nodes["box"].drained


def test_a_device_on_which_all_of_them_died_is_closed_and_the_node_goes_on():
    scene = Scene(gpus=2)
    for actor in (ALICE, BOB) * 3:
        dies(scene, actor, gpus=1)

    node = scene.cluster.nodes["box"]
    assert quarantined(scene) == [("box", ("fake-0",))]
    assert not node.drained
    assert "died within seconds of their start on GPU 0" in node.note
    job = scene.submit("next", gpus=1)
    assert scene.job(job).tasks[0].attempts[-1].allocation.devices == (1,)


def test_resuming_a_node_lifts_it_and_leaves_what_an_operator_closed():
    scene = Scene(gpus=3)
    scene.ask(cmd.MarkNode(actor=ADMIN, node="box", devices=(0, 1)))
    for actor in (ALICE, BOB) * 3:
        dies(scene, actor, gpus=1)
    closed = scene.cluster.nodes["box"].closed

    scene.ask(cmd.DrainNode(actor=ADMIN, node="box", drained=False))

    assert sorted(closed) == ["fake-0", "fake-2"]
    assert scene.cluster.nodes["box"].closed == ("fake-2",)
    assert scene.cluster.nodes["box"].early_ends == ()


def test_a_restart_of_the_controller_forgets_nothing_of_it(scene: Scene):
    for actor in (ALICE, BOB, ALICE, BOB, ALICE):
        dies(scene, actor, **on("box1"))
    scene.restart()
    dies(scene, BOB, **on("box1"))

    assert quarantined(scene) == [("box1", ())]
