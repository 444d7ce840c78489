"""Nodes that end at a known moment: who starts there, who leaves in time, and how they go."""

import pytest

from rota.core.changes import events as ev
from rota.core.facts.node import NodeSpec
from rota.core.facts.policy import Backfill
from rota.rpc.messages import Farewell
from rota.testing.scene import Scene

HOUR_S = 3600


def a_scene(lasts_s: float = HOUR_S, **spec) -> Scene:
    scene = Scene(nodes=0)
    scene.add_node(NodeSpec("guest", 4000, 8000, 1000, ends_s=scene.now_s + lasts_s, **spec))
    return scene


@pytest.mark.parametrize("kind", [Backfill.NONE, Backfill.EASY, Backfill.CONSERVATIVE])
def test_no_job_begins_whose_limit_goes_past_the_end_of_the_node(kind):
    scene = a_scene()
    scene.set_policy(**{"backfill.kind": kind})

    long = scene.submit("long", time_limit_s=2 * HOUR_S)
    short = scene.submit("short", time_limit_s=HOUR_S // 2)

    assert scene.states(long, short) == ["queued", "running"]
    assert "the node ends at 1970-01-01T01:" in scene.why(long)


def test_a_job_without_a_limit_waits_unless_the_node_takes_such_jobs():
    strict, lenient = a_scene(), a_scene(unlimited=True)

    waits, runs = strict.submit("endless"), lenient.submit("endless")

    assert (strict.state(waits), lenient.state(runs)) == ("queued", "running")


def test_a_job_without_a_limit_that_can_save_its_work_begins_on_a_node_that_ends():
    scene = a_scene()

    job = scene.submit("saves", checkpoint_signal="USR1")

    assert scene.state(job) == "running"


def test_a_job_too_long_for_a_node_that_ends_is_never_promised_a_start_there():
    scene = a_scene()
    scene.set_policy(**{"backfill.kind": "conservative"})
    scene.submit("filler", cpus=4, time_limit_s=600)

    long = scene.submit("long", cpus=4, time_limit_s=2 * HOUR_S)

    assert scene.controller.scheduler.promise_of(long) is None


def test_before_its_end_a_node_takes_nothing_new_and_its_jobs_are_told_to_leave():
    scene = a_scene(lasts_s=600, unlimited=True)
    job = scene.submit("endless", checkpoint_signal="USR1", grace_s=60)

    scene.pass_time(600 - 10 - 60 - 60 + 1)

    assert scene.cluster.nodes["guest"].drained
    assert "the node ends at" in scene.cluster.nodes["guest"].note
    assert scene.job(job).tasks[0].attempts[-1].stop_cause is not None


def test_what_cannot_save_its_work_is_put_back_in_time_for_its_grace():
    scene = a_scene(lasts_s=600, unlimited=True)
    job = scene.submit("endless", grace_s=60)
    scene.pass_time(600 - 10 - 60 - 60 + 1)
    before = scene.job(job).tasks[0].attempts[-1].stop_cause

    scene.pass_time(60)

    assert before is None
    assert str(scene.job(job).tasks[0].attempts[-1].stop_cause) == "migrated"


def test_the_end_of_a_node_is_looked_at_after_a_restart():
    scene = a_scene(lasts_s=600, unlimited=True)
    scene.submit("endless")
    scene.restart()
    scene.connect("guest")

    scene.pass_time(560)

    assert scene.cluster.nodes["guest"].drained


def test_a_node_that_says_good_bye_is_off_the_list_at_once_and_its_jobs_go_on_elsewhere():
    scene = a_scene()
    job = scene.submit("work", time_limit_s=60, retries=1, backoff_s=0)
    session = scene.session_of[scene.link_of["guest"]]

    tick = scene.say("guest", Farewell(session, "told to"))

    assert "guest" not in scene.cluster.nodes
    assert tick.hang_up
    assert scene.state(job) == "queued"
    assert any(isinstance(event, ev.NodeRemoved) for event in scene.log)


def test_an_idle_node_that_was_just_given_a_job_stays():
    scene = a_scene()
    scene.submit("work", time_limit_s=60)
    session = scene.session_of[scene.link_of["guest"]]

    tick = scene.say("guest", Farewell(session, "idle", idle=True))

    assert not tick.hang_up
    assert not scene.cluster.nodes["guest"].drained


def test_a_node_that_is_about_to_go_takes_nothing_new():
    scene = a_scene()
    session = scene.session_of[scene.link_of["guest"]]

    scene.say("guest", Farewell(session, "told to", soon=True))

    assert scene.state(scene.submit("late", time_limit_s=60)) == "queued"


def test_a_farewell_of_an_earlier_session_is_not_heard():
    scene = a_scene()
    old = scene.session_of[scene.link_of["guest"]]
    scene.connect("guest")

    scene.say("guest", Farewell(old, "told to"))

    assert "guest" in scene.cluster.nodes
