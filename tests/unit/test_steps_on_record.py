"""Steps of jobs: who may begin one, which number it gets, and that its end is on record."""

import pytest

from rota.controller.commands import commands as cmd
from rota.core.changes import events as ev
from rota.core.facts.errors import Conflict, Forbidden
from rota.testing.scene import ALICE, BOB, Scene


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.submit("job")
    scene.start("job")
    return scene


def begin(scene: Scene) -> int:
    step: int = scene.ask(cmd.BeginStep(actor=ALICE, job=scene.names["job"], name="train"))
    return step


def test_steps_are_counted_through_a_restart_of_the_controller(scene: Scene):
    first = begin(scene)
    scene.restart()
    second = begin(scene)

    assert (first, second) == (0, 1)
    assert scene.job("job").steps == 2


def test_the_end_of_a_step_is_on_record_even_if_its_job_is_over(scene: Scene):
    step, job = begin(scene), scene.names["job"]
    scene.finish("job")

    scene.ask(cmd.EndStep(actor=ALICE, job=job, step=step, state="FAILED", exit_code=3))

    told = [record.event for record in scene.store.events(job=job)]
    assert told[-1] == ev.StepEnded(job=job, step=0, state="FAILED", exit_code=3)


def test_a_job_that_waits_has_no_steps():
    scene = Scene()
    job = scene.submit("waits", hold=True)

    with pytest.raises(Conflict, match="only a running job can have steps"):
        scene.ask(cmd.BeginStep(actor=ALICE, job=job, name="train"))


def test_nobody_starts_steps_in_the_jobs_of_others(scene: Scene):
    with pytest.raises(Forbidden, match="belongs to alice"):
        scene.ask(cmd.BeginStep(actor=BOB, job=scene.names["job"], name="train"))
