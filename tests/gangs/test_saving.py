"""Saves that somebody asks for, saves that come by themselves, and what a job does meanwhile."""

from __future__ import annotations

import pytest

from rota.controller.commands import commands as cmd
from rota.core.facts.errors import Conflict, Forbidden
from rota.core.facts.phases import phase_of
from rota.core.facts.states import Cause
from rota.testing.scene import ALICE, BOB, OPERATOR, Scene


def ask(scene: Scene, job: str = "job") -> None:
    scene.ask(cmd.AskSave(actor=ALICE, job=scene.names[job]))


def report(scene: Scene, job: str = "job") -> None:
    scene.ask(cmd.ReportCheckpoint(actor=ALICE, job=scene.names[job]))


def saves(scene: Scene, job: str = "job") -> int:
    """How often its agent was told to have it save its work."""
    return scene.saves[scene.job(job).tasks[0].attempts[-1].uid]


def phase(scene: Scene, job: str = "job") -> str:
    return phase_of(scene.job(job))


def test_a_job_that_is_asked_to_save_hears_of_it_and_goes_on():
    scene = Scene()
    scene.submit("job", save_signal="USR2")

    ask(scene)
    during = (saves(scene), phase(scene), scene.state("job"))
    report(scene)

    assert during == (1, "checkpointing", "running")
    assert phase(scene) == "running"
    assert scene.stopping == set()


def test_a_job_without_a_save_signal_cannot_be_asked():
    scene = Scene()
    job = scene.submit("job")

    with pytest.raises(Conflict, match=f"job {job} has no save signal; give it one: rota update"):
        ask(scene)


def test_a_job_that_waits_cannot_be_asked():
    scene = Scene(cpus=1)
    scene.submit("hog")
    job = scene.submit("job", save_signal="USR2")

    with pytest.raises(Conflict, match=f"job {job} is queued; only a running job"):
        ask(scene)


def test_only_its_owner_and_operators_may_ask():
    scene = Scene()
    job = scene.submit("job", save_signal="USR2")

    with pytest.raises(Forbidden):
        scene.ask(cmd.AskSave(actor=BOB, job=job))
    scene.ask(cmd.AskSave(actor=OPERATOR, job=job))

    assert saves(scene) == 1


def test_a_job_is_asked_at_its_interval_and_a_report_of_its_own_puts_that_off():
    scene = Scene()
    scene.submit("job", save_signal="USR2", save_every_s=600)

    counts = []
    for passed_s in (599, 1, 600, 300):
        scene.pass_time(passed_s)
        counts.append(saves(scene))
    report(scene)
    for passed_s in (599, 1):
        scene.pass_time(passed_s)
        counts.append(saves(scene))

    assert counts == [0, 1, 2, 2, 2, 3]


def test_the_interval_goes_on_after_the_controller_was_away():
    scene = Scene()
    scene.submit("job", save_signal="USR2", save_every_s=600)
    scene.pass_time(400)

    scene.restart()
    scene.pass_time(200)

    assert saves(scene) == 1


def test_a_running_job_is_asked_at_the_new_interval_and_with_the_new_signal():
    scene = Scene()
    job = scene.submit("job")

    scene.update("job", save_signal="USR2", save_every_s=600)
    scene.pass_time(600)
    first = saves(scene)
    for every_s in (900, 300, 200, 100):
        scene.update("job", save_every_s=every_s)
    counts = []
    for passed_s in (99, 1, 100, 100, 100):
        scene.pass_time(passed_s)
        counts.append(saves(scene))

    assert first == 1
    assert counts == [1, 2, 3, 4, 5]
    assert scene.job(job).spec.save_signal == "USR2"


def test_changes_of_the_interval_leave_one_timer_behind():
    scene = Scene()
    scene.submit("job", save_signal="USR2", save_every_s=600)
    for every_s in (500, 400, 300, 200):
        scene.update("job", save_every_s=every_s)

    for _ in range(5):
        scene.pass_time(200)

    assert [timer.kind for timer in scene.cluster.agenda.timers].count("save") == 1


def test_a_suspended_job_is_left_alone_until_it_goes_on():
    scene = Scene()
    job = scene.submit("job", save_signal="USR2", save_every_s=600)
    scene.ask(cmd.Suspend(actor=ALICE, ids=(job,)))

    scene.pass_time(700)
    asleep = (saves(scene), phase(scene))
    scene.ask(cmd.Resume(actor=ALICE, ids=(job,)))
    scene.pass_time(599)

    assert asleep == (0, "suspended")
    assert saves(scene) == 1


def test_the_phase_of_a_job_says_what_it_does_from_its_submission_to_its_end():
    scene = Scene(cpus=1, nodes=2, starts=False)
    scene.submit("parent", hold=True)
    scene.submit("job", checkpoint_signal="USR1", after={"parent": "after"})
    seen = [phase(scene)]

    scene.update("job", after={})
    scene.tick()
    seen.append(phase(scene))
    scene.start("job")
    seen.append(phase(scene))
    drain = cmd.DrainNode(actor=OPERATOR, node="box1", drained=True, migrate=True)
    scene.ask(drain)
    seen.append(phase(scene))
    scene.ask(cmd.DrainNode(actor=OPERATOR, node="box2", drained=True))
    scene.finish("job", 0)
    seen.append(phase(scene))
    scene.cancel("job")
    seen.append(phase(scene))

    assert seen == [
        *("pending", "provisioning", "running", "migrating", "migrating", "cancelled"),
    ]
    assert scene.job("job").tasks[0].attempts[0].cause is Cause.MIGRATED


def test_a_job_that_saves_before_it_gives_way_is_checkpointing():
    scene = Scene(cpus=1)
    scene.set_policy(preempt_enabled=True, preempt_min_runtime_s=0, preempt_gap=1)
    scene.submit("low", checkpoint_signal="USR1", preemptible=True, priority=10)

    scene.submit("high", priority=75)

    assert (phase(scene, "low"), phase(scene, "high")) == ("checkpointing", "scheduled")
    scene.finish("low", 0)
    assert (phase(scene, "low"), phase(scene, "high")) == ("preempted", "running")
