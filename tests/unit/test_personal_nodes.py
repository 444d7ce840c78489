"""Nodes whose agent is not root: they start the jobs of one user, and the scheduler knows."""

from __future__ import annotations

from msgspec.structs import replace

from rota.controller.commands import commands as cmd
from rota.core.facts.node import NodeSpec
from rota.core.facts.tenant import Access, Actor
from rota.testing.scene import Scene

ANN, BOB = Actor("ann", Access.USER), Actor("bob", Access.USER)
OPERATOR = Actor("olga", Access.OPERATOR)
ANNS = NodeSpec("anns", 4000, 16384, 10240, user="ann")


def one_of_ann() -> Scene:
    """Only the node of ann is up."""
    scene = Scene()
    scene.ask(cmd.DrainNode(actor=OPERATOR, node="box", drained=True))
    scene.add_node(ANNS)
    return scene


def node_of(scene: Scene, job: int) -> str:
    return scene.job(job).tasks[0].attempts[-1].allocation.node


def test_a_node_of_one_user_gets_the_jobs_of_that_user_only():
    scene = one_of_ann()

    mine, other = scene.submit("mine", actor=ANN), scene.submit("other", actor=BOB)

    assert node_of(scene, mine) == "anns"
    assert scene.state(other) == "queued"
    scene.ask(cmd.DrainNode(actor=OPERATOR, node="box", drained=False))
    assert node_of(scene, other) == "box"


def test_why_says_whose_jobs_the_node_runs():
    scene = Scene()
    scene.ask(cmd.DrainNode(actor=OPERATOR, node="box", drained=True))
    scene.disconnect("box")
    scene.ask(cmd.RemoveNode(actor=OPERATOR, node="box"))
    scene.add_node(ANNS)

    job = scene.submit("other", actor=BOB)

    assert scene.why(job) == "node anns: runs only jobs of ann"


def test_what_waited_before_the_node_came_is_judged_by_its_user():
    scene = Scene(cpus=1)
    scene.submit("full", actor=BOB)
    theirs = scene.submit("theirs", actor=BOB)
    mine = scene.submit("mine", actor=ANN)

    scene.add_node(ANNS)

    assert node_of(scene, mine) == "anns"
    assert scene.state(theirs) == "queued"


def test_a_node_whose_agent_has_become_root_takes_everybodys_jobs():
    scene = one_of_ann()
    job = scene.submit("other", actor=BOB)

    scene.disconnect("anns")
    scene.add_node(replace(ANNS, user=""))

    assert node_of(scene, job) == "anns"


def test_whose_jobs_a_node_runs_is_known_after_a_restart():
    scene = one_of_ann()
    other = scene.submit("other", actor=BOB)

    scene.restart()
    scene.connect("anns")
    mine = scene.submit("mine", actor=ANN)

    assert scene.state(other) == "queued"
    assert node_of(scene, mine) == "anns"
