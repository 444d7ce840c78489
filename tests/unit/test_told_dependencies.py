"""Jobs that wait for what a running parent says: that its work is saved, that data are there."""

import pytest

from rota.controller.commands import commands as cmd
from rota.core.changes.compare import differences, fold
from rota.core.facts.job import JobSpec
from rota.core.facts.parents import Dependency, DependencyKind
from rota.testing.scene import ALICE, Scene


def tell(scene: Scene, job: str, *data: str) -> None:
    """The job says that its work is saved and which data it made."""
    scene.ask(cmd.ReportCheckpoint(actor=ALICE, job=scene.names[job], data=data))


def submit_after_data(scene: Scene, name: str, parent: str, data: str) -> None:
    spec = scene.submission(name).spec
    waits = Dependency(DependencyKind.AFTER_DATA, scene.names[parent], data=data)
    fields = {field: getattr(spec, field) for field in spec.__struct_fields__}
    submission = cmd.Submission(spec=JobSpec(**(fields | {"dependencies": (waits,)})))
    scene.names[name] = scene.ask(cmd.Submit(actor=ALICE, submissions=(submission,))).ids[0]


def test_a_job_starts_when_its_parent_has_saved_its_work_and_runs_on():
    scene = Scene()
    scene.submit("train")
    scene.submit("evaluate", after={"train": "after-checkpoint"})
    before = (scene.state("evaluate"), scene.why("evaluate"))

    tell(scene, "train")

    assert before == ("queued", "waits for job 1 (running)")
    assert scene.states("train", "evaluate") == ["running", "running"]


def test_a_job_starts_when_the_data_that_it_waits_for_are_there_and_not_for_others():
    scene = Scene()
    scene.submit("prepare")
    submit_after_data(scene, "fit", "prepare", "features")

    tell(scene, "prepare", "labels")
    before = scene.state("fit")
    tell(scene, "prepare", "features")

    assert (before, scene.state("fit")) == ("queued", "running")


def test_data_that_were_there_before_the_submission_are_enough_also_after_a_restart():
    scene = Scene()
    scene.submit("prepare")
    tell(scene, "prepare", "features")
    scene.restart()

    submit_after_data(scene, "fit", "prepare", "features")

    assert scene.state("fit") == "running"
    log = list(scene.store.all_events())
    assert differences(fold(log, scene.cluster.ids.cluster_id), scene.cluster) == []


@pytest.mark.parametrize("kind", ["after-checkpoint", "after-data"])
@pytest.mark.parametrize(("code", "state"), [(0, "running"), (1, "cancelled")])
def test_a_parent_that_ends_without_a_word_counts_by_its_end(kind: str, code: int, state: str):
    scene = Scene()
    scene.submit("parent")
    if kind == "after-data":
        submit_after_data(scene, "child", "parent", "features")
    else:
        scene.submit("child", after={"parent": kind})

    scene.finish("parent", code)

    assert scene.state("child") == state
