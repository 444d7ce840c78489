"""Suspended jobs: they keep their room, their clocks stand still, and they hear of their end."""

import pytest

from rota.controller.commands import commands as cmd
from rota.testing.scene import ALICE, BOB, OPERATOR, VIEWER, Scene


def suspend(scene, *jobs, actor=ALICE):
    return scene.ask(cmd.Suspend(actor=actor, ids=tuple(scene.names[job] for job in jobs)))


def resume(scene, *jobs, actor=ALICE):
    return scene.ask(cmd.Resume(actor=actor, ids=tuple(scene.names[job] for job in jobs)))


def uids(scene, job):
    return {attempt.uid for attempt in scene.job(job).live_attempts}


def test_a_suspended_job_stays_running_and_keeps_its_room_until_it_is_resumed_and_ends():
    scene = Scene(cpus=2)
    scene.submit("job", cpus=2)
    scene.submit("next", cpus=1)

    suspend(scene, "job")
    stopped = (scene.states("job", "next"), scene.suspended == uids(scene, "job"))
    resume(scene, "job")
    going_on = set(scene.suspended)
    scene.finish("job")

    assert stopped == (["running", "queued"], True)
    assert going_on == set()
    assert scene.states("job", "next") == ["completed", "running"]


def test_why_says_who_suspended_a_job():
    scene = Scene()
    scene.submit("job")

    suspend(scene, "job", actor=OPERATOR)

    assert scene.why("job") == "running on box: suspended by olga"


def test_the_time_limit_does_not_count_down_while_a_job_is_suspended():
    scene = Scene()
    scene.submit("job", time_limit_s=60)
    scene.pass_time(40)
    suspend(scene, "job")
    scene.pass_time(500)
    after_long = (scene.state("job"), set(scene.stopping))

    resume(scene, "job")
    scene.pass_time(19)
    before_limit = set(scene.stopping)
    scene.pass_time(1)

    assert after_long == ("running", set())
    assert before_limit == set()
    assert scene.stopping == uids(scene, "job")


def test_a_limit_is_extended_by_every_pause_and_a_new_round_begins_afresh():
    scene = Scene()
    scene.submit("job", time_limit_s=60)
    for _ in range(2):
        suspend(scene, "job")
        scene.pass_time(30)
        resume(scene, "job")
        scene.pass_time(10)

    paused_s = scene.job("job").paused_s
    scene.requeue("job")
    scene.finish("job", None, signal=15)

    assert paused_s == 60
    assert (scene.state("job"), scene.job("job").paused_s) == ("running", 0.0)


def test_a_cancel_resumes_a_suspended_job_in_the_same_breath():
    scene = Scene()
    scene.submit("job")
    suspend(scene, "job")

    scene.cancel("job")

    assert (scene.suspended, scene.stopping) == (set(), uids(scene, "job"))
    scene.finish("job", None, signal=15)
    assert scene.state("job") == "cancelled"


def test_a_job_that_dies_while_it_is_suspended_ends_like_any_other():
    scene = Scene()
    scene.submit("job")
    suspend(scene, "job")
    scene.pass_time(5)

    scene.finish("job", None, signal=9)

    assert scene.state("job") == "failed"
    assert (scene.job("job").suspended_s, scene.job("job").paused_s) == (0.0, 5.0)


def test_a_suspension_survives_a_restart_of_the_controller():
    scene = Scene()
    scene.submit("job", time_limit_s=60)
    suspend(scene, "job")

    scene.crash()
    scene.suspended.clear()
    scene.now_s += 100
    scene.restart()
    scene.pass_time(100)

    assert scene.suspended == uids(scene, "job")
    assert scene.job("job").suspended_by == "alice"
    assert not scene.stopping


def test_every_task_of_a_gang_is_suspended():
    scene = Scene(cpus=2, nodes=2)
    scene.submit("gang", tasks=4)

    suspend(scene, "gang")

    assert scene.suspended == uids(scene, "gang")
    assert len(scene.suspended) == 4


@pytest.mark.parametrize("actor", [BOB, VIEWER])
def test_others_may_not_suspend_a_job(actor):
    scene = Scene()
    scene.submit("job")

    answer = suspend(scene, "job", actor=actor)

    assert "belongs to alice" in answer.refused[0].reason
    assert not scene.job("job").suspended_s


def test_only_a_running_job_can_be_suspended_and_only_a_suspended_one_resumed():
    scene = Scene(cpus=1)
    scene.submit("runs")
    scene.submit("waits")

    waiting = suspend(scene, "waits")
    going = resume(scene, "runs")
    twice = [suspend(scene, "runs"), suspend(scene, "runs")]
    scene.cancel("runs")
    leaving = suspend(scene, "runs")

    assert "is queued; only a running job can be suspended" in waiting.refused[0].reason
    assert "is not suspended" in going.refused[0].reason
    assert [answer.refused for answer in twice] == [(), ()]
    assert "is being stopped" in leaving.refused[0].reason


def test_all_running_jobs_of_a_user_are_suspended_and_resumed_at_once():
    scene = Scene(cpus=2)
    for name in ("one", "two", "waits"):
        scene.submit(name)

    stopped = scene.ask(cmd.Suspend(actor=ALICE, of_user="alice"))
    going = scene.ask(cmd.Resume(actor=OPERATOR, of_user="*"))

    assert (stopped.changed, stopped.refused) == ((1, 2), ())
    assert (going.changed, going.refused) == ((1, 2), ())


def test_of_an_array_the_running_elements_are_suspended():
    scene = Scene(cpus=2)
    scene.submit("array", array="0-3")

    answer = suspend(scene, "array")

    assert answer.changed == (1, 2, 3)
    assert len(scene.suspended) == 2
