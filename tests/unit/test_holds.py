"""Holds, begin times and updates of waiting jobs."""

import pytest

from rota.core.facts.errors import Conflict
from rota.core.facts.job import Role
from rota.core.facts.resources import Request
from rota.testing.scene import Scene


def test_a_job_submitted_held_starts_only_after_its_release():
    scene = Scene()
    scene.submit("job", hold=True)
    held = scene.state("job")

    scene.release("job")

    assert held == "held"
    assert scene.is_running("job")


def test_a_waiting_job_that_is_held_is_passed_over_and_keeps_its_place():
    scene = Scene(cpus=1)
    scene.submit("runs")
    scene.submit("held")
    scene.submit("next")
    scene.hold("held")

    scene.finish("runs")
    scene.release("held")
    scene.submit("last")
    scene.finish("next")

    assert scene.states("held", "last") == ["running", "queued"]


def test_a_running_job_cannot_be_held_and_a_job_that_is_not_held_cannot_be_released():
    scene = Scene(cpus=1)
    scene.submit("runs")
    scene.submit("waits")

    held = scene.hold("runs")
    released = scene.release("waits")

    assert "only a waiting job can be held" in held.refused[0].reason
    assert "is not held" in released.refused[0].reason
    assert scene.states("runs", "waits") == ["running", "queued"]


def test_a_job_starts_at_its_begin_time_and_not_before():
    scene = Scene()
    scene.submit("job", begin_s=scene.now_s + 60)

    scene.pass_time(59)
    before = scene.state("job")
    scene.pass_time(1)

    assert before == "queued"
    assert scene.is_running("job")
    assert scene.job("job").eligible_s == 1060.0


def test_a_begin_time_in_the_past_means_now():
    scene = Scene()

    scene.submit("job", begin_s=1.0)

    assert scene.is_running("job")


def test_a_begin_time_is_kept_over_a_restart():
    scene = Scene()
    scene.submit("job", begin_s=scene.now_s + 60)

    scene.restart()
    scene.pass_time(60)

    assert scene.is_running("job")


def test_a_job_held_past_its_begin_time_starts_when_it_is_released():
    scene = Scene()
    scene.submit("job", begin_s=scene.now_s + 60, hold=True)
    scene.pass_time(100)

    scene.release("job")

    assert scene.is_running("job")


def test_a_job_released_before_its_begin_time_still_waits_for_it():
    scene = Scene()
    scene.submit("job", begin_s=scene.now_s + 60, hold=True)
    scene.release("job")

    scene.pass_time(59)
    before = scene.state("job")
    scene.pass_time(1)

    assert before == "queued"
    assert scene.is_running("job")


def test_begin_time_and_parent_must_both_be_met():
    scene = Scene()
    scene.submit("parent")
    scene.submit("child", after={"parent": "after-ok"}, begin_s=scene.now_s + 60)

    scene.pass_time(60)
    at_its_time = scene.state("child")
    scene.finish("parent")

    assert at_its_time == "queued"
    assert scene.is_running("child")


def test_a_parent_that_ends_before_the_begin_time_does_not_start_the_child_early():
    scene = Scene()
    scene.submit("parent")
    scene.submit("child", after={"parent": "after-ok"}, begin_s=scene.now_s + 60)

    scene.finish("parent")
    early = scene.state("child")
    scene.pass_time(60)

    assert early == "queued"
    assert scene.is_running("child")


@pytest.mark.parametrize(("begin_s", "state"), [(1000.0, "running"), (1090.0, "queued")])
def test_another_begin_time_replaces_the_first_one(begin_s, state):
    scene = Scene()
    scene.submit("job", begin_s=1060.0)

    scene.update("job", begin_s=begin_s)
    scene.pass_time(60 if state == "queued" else 0)

    assert scene.state("job") == state


def test_a_waiting_job_takes_another_command_and_other_resources():
    scene = Scene(cpus=4)
    scene.submit("hog", cpus=4)
    scene.submit("job", cpus=4)

    scene.update("job", command=("new", "words"), roles=(Role(request=Request(cpu_milli=500)),))
    scene.finish("hog")

    assert scene.launch("job").argv == ("new", "words")
    assert scene.job("job").tasks[0].attempts[0].allocation.cpu_milli == 500


def test_of_a_running_job_only_what_does_not_concern_its_room_can_be_changed():
    scene = Scene()
    scene.submit("job")

    scene.update("job", priority=10, time_limit_s=60)
    with pytest.raises(Conflict, match="of a running job only"):
        scene.update("job", command=("new",))
    with pytest.raises(Conflict, match="of a running job only"):
        scene.update("job", after={})

    assert scene.job("job").spec.time_limit_s == 60
    assert scene.job("job").spec.command == ("true",)


def test_an_ended_job_cannot_be_changed():
    scene = Scene()
    scene.submit("job")
    scene.finish("job")

    with pytest.raises(Conflict, match="completed already"):
        scene.update("job", priority=10)
