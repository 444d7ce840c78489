"""GPUs that are kept for one job: it gets these, and nobody else does, until it has ended."""

from typing import Any

import pytest

from rota.controller.commands import commands as cmd
from rota.core.facts.errors import Conflict, Forbidden, NotFound, Rejected
from rota.core.facts.tenant import Access, Actor
from rota.testing.scene import ALICE, Scene

ROOT = Actor("root", Access.ADMIN)
OLGA = Actor("olga", Access.OPERATOR)


def keep(scene: Scene, job: object, *devices: str, actor: Actor = OLGA) -> Any:
    return scene.ask(cmd.ReserveForJob(actor=actor, job=scene.job(str(job)).id, devices=devices))


def held(scene: Scene, job: str) -> tuple[str, tuple[int, ...]]:
    allocation = scene.job(job).tasks[0].attempts[-1].allocation
    return allocation.node, allocation.devices


def devices_of(scene: Scene) -> list[str]:
    return sorted(
        f"{n.name}:{d.index}" for n in scene.cluster.nodes.values() for d in n.spec.devices
    )


def test_kept_gpus_wait_for_their_job_while_others_take_the_rest():
    scene = Scene(gpus=4)
    scene.submit("mine", gpus=2, hold=True)
    (place,) = {name.partition(":")[0] for name in devices_of(scene)}

    made = keep(scene, "mine", f"{place}:2", f"{place}:3")
    for number in range(3):
        scene.submit(f"other{number}", gpus=1)
    waiting = scene.states("other0", "other1", "other2")
    why = scene.why("other2")
    scene.release("mine")

    assert [(one.job, one.devices) for one in made] == [(scene.job("mine").id, (2, 3))]
    assert waiting == ["running", "running", "queued"]
    assert f"of job {scene.job('mine').id}" in why
    assert scene.state("mine") == "running"
    assert held(scene, "mine") == (place, (2, 3))


def test_a_job_behind_its_equals_in_the_line_gets_what_is_kept_for_it():
    scene = Scene(gpus=2)
    scene.submit("hog", gpus=2)
    scene.submit("first", gpus=1)
    scene.submit("second", gpus=1)
    place = scene.job("hog").tasks[0].attempts[-1].allocation.node
    keep(scene, "second", f"{place}:0", f"{place}:1")

    scene.finish("hog")

    assert scene.states("first", "second") == ["queued", "running"]
    scene.finish("second")
    assert scene.state("first") == "running"
    assert scene.cluster.reservations == {}


def test_a_job_does_not_leave_its_gpus_for_others_that_are_free():
    scene = Scene(gpus=2, nodes=2)
    scene.submit("hog", gpus=2)
    node = scene.job("hog").tasks[0].attempts[-1].allocation.node
    scene.submit("mine", gpus=1, hold=True)
    keep(scene, "mine", f"{node}:0")
    scene.release("mine")

    before = scene.state("mine")
    scene.finish("hog")

    assert before == "queued"
    assert held(scene, "mine") == (node, (0,))


def test_removing_by_job_frees_the_gpus_and_the_job():
    scene = Scene(gpus=1, nodes=2)
    scene.submit("hog", gpus=1)
    node = scene.job("hog").tasks[0].attempts[-1].allocation.node
    scene.submit("mine", gpus=1, hold=True)
    keep(scene, "mine", f"{node}:0")
    scene.release("mine")
    waits = scene.state("mine")

    scene.ask(cmd.RemoveReservation(actor=OLGA, reservation=scene.job("mine").id))

    assert waits == "queued"
    assert scene.state("mine") == "running"
    assert scene.cluster.reservations == {}
    with pytest.raises(NotFound):
        scene.ask(cmd.RemoveReservation(actor=OLGA, reservation=scene.job("mine").id))


def test_new_gpus_for_the_same_job_replace_the_old_ones_and_a_restart_keeps_them():
    scene = Scene(gpus=2)
    scene.submit("mine", gpus=1, hold=True)
    node = devices_of(scene)[0].partition(":")[0]
    keep(scene, "mine", f"{node}:0")
    keep(scene, "mine", f"{node}:1")

    scene.restart()
    scene.submit("other", gpus=1)
    scene.release("mine")

    assert held(scene, "other")[1] == (0,)
    assert held(scene, "mine")[1] == (1,)


@pytest.mark.parametrize(
    ("wish", "devices", "problem"),
    [
        ({"gpus": 2}, ("{n}:0",), "needs 1 x 2 GPUs"),
        ({"gpus": 1}, ("{n}:9",), "no GPU of this site"),
        ({"gpus": 1}, ("nonsense",), "no GPU of this site"),
        ({}, ("{n}:0",), "asks for no GPUs"),
    ],
)
def test_what_would_not_serve_the_job_is_refused_by_name(
    wish: dict[str, int], devices: tuple[str, ...], problem: str
):
    scene = Scene(gpus=2)
    scene.submit("mine", hold=True, **wish)
    node = devices_of(scene)[0].partition(":")[0]

    with pytest.raises((Rejected, Conflict), match=problem):
        keep(scene, "mine", *(name.format(n=node) for name in devices))

    assert scene.cluster.reservations == {}


def test_a_gpu_is_kept_once_and_only_operators_keep_any():
    scene = Scene(gpus=2)
    scene.submit("mine", gpus=1, hold=True)
    scene.submit("other", gpus=1, hold=True)
    node = devices_of(scene)[0].partition(":")[0]
    keep(scene, "mine", f"{node}:0")

    with pytest.raises(Conflict, match=f"promised to job {scene.job('mine').id}"):
        keep(scene, "other", f"{node}:0")
    with pytest.raises(Forbidden):
        keep(scene, "mine", f"{node}:1", actor=ALICE)


def test_a_gang_runs_on_the_gpus_that_are_kept_for_it_on_several_nodes():
    scene = Scene(gpus=2, nodes=2)
    scene.submit("gang", gpus=1, tasks=2, hold=True)
    kept = [name for name in devices_of(scene) if name.endswith(":1")]
    keep(scene, "gang", *kept)

    scene.release("gang")

    gang = scene.job("gang")
    found = [task.attempts[-1].allocation for task in gang.tasks]
    assert sorted(f"{one.node}:{one.devices[0]}" for one in found) == kept
