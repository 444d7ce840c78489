"""Agents as the controller hears them: lost, repeated and late messages change nothing."""

import pytest

from rota.controller.engine import FromLink
from rota.core.changes.events import NodeSilent
from rota.core.facts.node import ForeignUse, NodeSpec
from rota.core.facts.states import NodeState
from rota.rpc.messages import (
    PROTOCOL,
    Beat,
    Desired,
    Hello,
    Observed,
    Seen,
    SessionRefused,
    Sighting,
    Welcome,
)
from rota.testing.scene import Scene

SPEC = NodeSpec("box", 4000, 16384)


def orders(tick) -> list[Desired]:
    return [message for _, message in tick.to_agents if isinstance(message, Desired)]


def end_of(scene: Scene, job: str, code: int = 0) -> Seen:
    uid = scene.job(job).live_attempts[0].uid
    return Seen(uid, Sighting.ENDED, started_s=1000, ended_s=1000, exit_code=code)


def test_a_hello_is_answered_with_a_welcome_and_the_complete_set():
    scene = Scene()
    scene.submit("runs")
    scene.disconnect("box")

    tick = scene.connect("box")

    welcome, desired = (message for _, message in tick.to_agents)
    assert isinstance(welcome, Welcome)
    assert isinstance(desired, Desired)
    assert desired.full
    assert [(order.uid, order.started) for order in desired.attempts] == [("u2.0.1", True)]


@pytest.mark.parametrize("number", [3, 1, 0])
def test_a_gap_or_a_repeat_in_the_numbers_ends_the_session_and_changes_nothing(number):
    scene = Scene()
    scene.submit("runs")
    link = scene.link_of["box"]

    tick = scene.say("box", Observed(scene.session_of[link], number + 1, (end_of(scene, "runs"),)))

    assert tick.hang_up == [link]
    assert scene.is_running("runs")
    assert scene.cluster.nodes["box"].state is NodeState.DOWN


def test_after_a_gap_the_next_session_starts_from_complete_sets_and_loses_nothing():
    scene = Scene()
    scene.submit("runs")
    scene.say("box", Observed(scene.session_of[scene.link_of["box"]], 99, ()))

    scene.connect("box")
    scene.finish("runs")

    assert scene.state("runs") == "completed"


def test_a_report_that_got_lost_is_missed_by_the_next_beat_though_no_other_report_follows():
    scene = Scene(lease_s=60.0)
    scene.submit("runs")
    link = scene.link_of["box"]
    told = 2  # Its first full set, and the start of the job.

    heard = scene.say("box", Beat(scene.session_of[link], 7, told))
    missed = scene.say("box", Beat(scene.session_of[link], 8, told + 1))

    assert (heard.hang_up, missed.hang_up) == ([], [link])
    assert scene.cluster.nodes["box"].note == "a report of its agent got lost"


def test_a_message_of_an_earlier_session_is_not_believed():
    scene = Scene()
    scene.submit("runs")
    old = scene.session_of[scene.link_of["box"]]
    late = end_of(scene, "runs", code=1)
    scene.disconnect("box")
    scene.connect("box")

    tick = scene.say("box", Observed(old, 2, (late,)))

    assert tick.hang_up
    assert scene.is_running("runs")


def test_a_message_on_a_connection_that_is_closed_is_answered_by_hanging_up():
    scene = Scene()
    scene.submit("runs")
    link = scene.link_of["box"]
    message = Observed(scene.session_of[link], 2, (end_of(scene, "runs"),))
    scene.disconnect("box")

    tick = scene.tick(FromLink(link, message))

    assert tick.hang_up == [link]
    assert scene.is_running("runs")


def test_a_welcome_names_the_hello_that_it_answers():
    scene = Scene(nodes=0)

    first = scene.dial("box", Hello(PROTOCOL, SPEC, "i1", "b1", "0", greeting=17))
    second = scene.dial("box", Hello(PROTOCOL, SPEC, "i1", "b1", "0", greeting=18))

    welcomes = [tick.to_agents[0][1] for tick in (first, second)]
    assert [type(welcome) for welcome in welcomes] == [Welcome, Welcome]
    assert [welcome.answers for welcome in welcomes] == [17, 18]


def test_an_agent_of_another_protocol_is_refused_with_a_reason():
    scene = Scene(nodes=0)

    tick = scene.dial("box", Hello(PROTOCOL + 1, SPEC, "i1", "b1", "9"))

    refusal = tick.to_agents[0][1]
    assert isinstance(refusal, SessionRefused)
    assert f"speaks protocol {PROTOCOL}" in refusal.reason
    assert tick.hang_up == [scene.link_of["box"]]
    assert scene.cluster.nodes == {}


def test_a_second_agent_under_the_same_name_is_refused_and_the_first_stays():
    scene = Scene()
    first = scene.link_of["box"]

    tick = scene.dial("box", Hello(PROTOCOL, SPEC, "another installation", "b1", "0"))

    reason = tick.to_agents[0][1].reason
    assert "node name box is in use: agent i1 is connected" in reason
    assert "agent another installation is another agent" in reason
    assert first in scene.controller.sessions.by_link
    assert scene.cluster.nodes["box"].incarnation == "i1"


def test_the_same_agent_dialling_again_takes_the_place_of_its_old_connection():
    scene = Scene()
    old = scene.link_of["box"]
    scene.submit("runs")

    tick = scene.connect("box")
    scene.finish("runs")

    assert old in tick.hang_up
    assert scene.state("runs") == "completed"
    assert not [event for event in scene.log if isinstance(event, NodeSilent)]


def test_the_end_of_a_replaced_connection_does_not_take_the_node_down():
    scene = Scene()
    old = scene.link_of["box"]
    scene.connect("box")

    scene.tick(FromLink(old, None))

    assert scene.cluster.nodes["box"].state is NodeState.UP


def test_an_agent_that_reports_an_unknown_attempt_is_told_that_it_is_gone():
    scene = Scene()

    tick = scene.report(Seen("stray.0.1", Sighting.RUNNING, pid=7), node="box")

    assert [order.gone for order in orders(tick)] == [("stray.0.1",)]


def test_an_end_that_is_repeated_changes_nothing_and_may_be_forgotten():
    scene = Scene()
    scene.submit("job")
    end = end_of(scene, "job", code=3)
    scene.report(end, node="box")
    events = len(scene.log)

    tick = scene.report(end, node="box")

    assert len(scene.log) == events
    assert [order.gone for order in orders(tick)] == [(end.uid,)]


def test_an_end_is_confirmed_to_the_agent_so_that_it_can_forget_it():
    scene = Scene()
    scene.submit("job")
    end = end_of(scene, "job")

    tick = scene.report(end, node="box")

    assert [order.gone for order in orders(tick)] == [(end.uid,)]


def test_a_node_cannot_report_the_attempts_of_another():
    scene = Scene(nodes=2, cpus=1)
    scene.submit("a")

    tick = scene.report(end_of(scene, "a", code=1), node="box2")

    assert scene.is_running("a")
    assert orders(tick)[0].gone == ("u3.0.1",)


def test_an_attempt_that_the_agent_lost_track_of_ends_as_lost():
    scene = Scene()
    scene.submit("job")
    uid = scene.job("job").live_attempts[0].uid

    scene.report(Seen(uid, Sighting.MISSING), node="box")

    assert scene.state("job") == "node_failed"
    assert scene.cause("job") == "node_lost: the agent lost track of it"


def test_a_rebooted_node_does_not_restart_what_ran_before():
    scene = Scene()
    scene.submit("job")
    scene.disconnect("box")

    tick = scene.connect("box", boot_id="b2")

    order = orders(tick)[0].attempts[0]
    assert order.started
    assert order.launch is None
    assert scene.state("job") == "node_failed"


def test_what_was_placed_and_never_started_before_the_reboot_is_not_started_after_it():
    scene = Scene(starts=False)
    scene.submit("job")
    scene.disconnect("box")

    tick = scene.connect("box", boot_id="b2")

    assert orders(tick)[0].attempts[0].launch is None
    assert scene.state("job") == "node_failed"


def test_a_lost_job_with_retries_starts_anew_on_the_rebooted_node():
    scene = Scene()
    scene.submit("job", retries=1, backoff_s=0)
    scene.disconnect("box")

    scene.connect("box", boot_id="b2")

    assert scene.is_running("job")
    assert scene.job("job").tasks[0].attempts[1].incarnation == "i1/b2"


def test_what_was_placed_while_the_agent_was_away_for_a_moment_is_started_once():
    scene = Scene(starts=False)
    scene.submit("job")
    scene.disconnect("box")
    scene.starts = True

    scene.connect("box")

    assert scene.is_running("job")
    assert len(scene.job("job").tasks[0].attempts) == 1


def test_a_stop_asked_for_while_the_agent_was_away_is_part_of_the_next_complete_set():
    scene = Scene()
    scene.submit("job")
    scene.disconnect("box")
    scene.cancel("job")

    tick = scene.connect("box")

    assert orders(tick)[0].attempts[0].stop == "cancelled"


class Listener(Scene):
    """A scene that keeps every order that an agent got."""

    def __init__(self, **wishes) -> None:
        self.heard: list[Desired] = []
        super().__init__(**wishes)

    def heed(self, tick) -> None:
        self.heard += orders(tick)
        super().heed(tick)


def test_orders_to_an_agent_are_numbered_without_a_gap_in_each_session():
    scene = Listener(cpus=8)
    for name in ("a", "b"):
        scene.submit(name)
    scene.finish("a")
    first = [(order.session, order.number) for order in scene.heard]
    scene.heard.clear()

    scene.connect("box")
    scene.submit("c")

    assert [number for _, number in first] == [1, 2, 3, 4]
    assert [order.number for order in scene.heard] == [1, 2]
    assert {order.session for order in scene.heard}.isdisjoint(session for session, _ in first)


def test_a_tick_that_changes_nothing_for_a_node_sends_it_nothing():
    scene = Listener(nodes=2)
    scene.heard.clear()

    scene.submit("job")
    scene.pass_time(60)

    assert len(scene.heard) == 1


def test_strangers_that_came_while_the_controller_was_away_are_known_before_the_first_start():
    scene = Scene(gpus=1)
    scene.crash()
    scene.see_strangers("box", ForeignUse(0, 77, "eve", 100))
    scene.restart()

    scene.submit("job", gpus=1)

    assert scene.state("job") == "queued"


def test_the_controller_counts_no_node_as_up_before_its_agent_said_hello_again():
    scene = Scene()
    scene.crash()
    scene.controller = scene._boot()

    scene.tick()

    assert scene.cluster.nodes["box"].state is NodeState.DOWN
    assert scene.cluster.nodes["box"].note == "waiting for its agent"
