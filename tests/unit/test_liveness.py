"""Silent nodes: when their work is given up, and when it is not."""

from __future__ import annotations

import pytest

from rota.controller.commands import commands as cmd
from rota.controller.recover import recover
from rota.core.changes import events as ev
from rota.core.facts.errors import Rejected
from rota.core.facts.node import NodeSpec
from rota.core.facts.placing import Placement
from rota.core.facts.states import NodeState
from rota.rpc.messages import PROTOCOL, Beat, BeatSeen, Hello, Welcome
from rota.testing.scene import ADMIN, Scene

#: A beat is 10 s; jobs have a grace of 30 s, and the margin is 6 s: 96 s in all.
LEASE_S = 60.0
TRUSTED_BEATS = 9


def two_boxes(**wishes: object) -> tuple[Scene, int, str, str]:
    """A job on one of two nodes: the scene, the job, its node and the other one."""
    scene = Scene(nodes=2, cpus=2, lease_s=LEASE_S)
    job = scene.submit("work", cpus=2, backoff_s=0, **wishes)
    here = node_of(scene, job)
    return scene, job, here, "box2" if here == "box1" else "box1"


def node_of(scene: Scene, job: int) -> str:
    return scene.job(job).tasks[0].attempts[-1].allocation.node


def lost(scene: Scene) -> list[str]:
    return [event.node for event in scene.log if isinstance(event, ev.NodeLost)]


def test_an_agent_is_told_its_lease_and_every_beat_is_answered():
    scene = Scene(lease_s=LEASE_S)

    welcome = next(m for _, m in scene.connect("box").to_agents if isinstance(m, Welcome))
    answers = [m for _, m in scene.say("box", Beat(welcome.session, 7)).to_agents]

    assert (welcome.lease_s, welcome.beat_s) == (60.0, 10.0)
    assert answers == [BeatSeen(welcome.session, 7)]


def test_a_beat_of_an_earlier_session_is_not_answered():
    scene = Scene(lease_s=LEASE_S)
    old = scene.session_of[scene.link_of["box"]]
    scene.connect("box")

    tick = scene.say("box", Beat(old, 7))

    assert not [m for _, m in tick.to_agents if isinstance(m, BeatSeen)]


def test_an_agent_on_the_controllers_own_machine_has_no_lease():
    scene = Scene(lease_s=LEASE_S)
    scene.add_node(NodeSpec("far", 1000, 100))
    here = NodeSpec("here", 1000, 100)

    tick = scene.dial("here", Hello(PROTOCOL, here, "i", "b", "0", local=True))

    assert tick.to_agents[0][1].lease_s == 0.0
    assert scene.cluster.nodes["here"].lease_s == 0.0
    assert scene.cluster.nodes["far"].lease_s == 60.0


def test_a_node_that_is_silent_for_less_than_its_lease_keeps_its_work():
    scene, job, here, _ = two_boxes(retries=1)
    scene.disconnect(here)

    scene.pass_beats(TRUSTED_BEATS)
    scene.connect(here)

    assert scene.is_running(job)
    assert lost(scene) == []
    assert len(scene.job(job).tasks[0].attempts) == 1


def test_a_node_that_stays_away_gives_its_work_to_another_one():
    scene, job, here, there = two_boxes(retries=1)
    scene.disconnect(here)

    scene.pass_beats(TRUSTED_BEATS + 1)

    assert lost(scene) == [here]
    assert scene.is_running(job)
    assert node_of(scene, job) == there
    assert scene.job(job).tasks[0].attempts[0].cause == "node_lost"


def test_a_job_without_retries_ends_as_node_failed_and_says_why():
    scene, job, here, _ = two_boxes()
    scene.disconnect(here)

    scene.pass_beats(TRUSTED_BEATS + 1)

    assert scene.state(job) == "node_failed"
    why = f"node_lost: node {here} was silent for 1m40s, longer than its lease of 1m"
    assert scene.cause(job) == why
    assert scene.cluster.nodes[here].note == "lost: silent for 1m40s, longer than its lease of 1m"


def test_a_longer_grace_makes_the_controller_wait_longer():
    scene, job, here, _ = two_boxes(retries=1, grace_s=300)
    scene.disconnect(here)

    scene.pass_beats(TRUSTED_BEATS + 20)

    assert lost(scene) == []
    assert scene.is_running(job)


def test_a_grace_that_is_shortened_while_a_job_runs_is_for_later_attempts():
    scene, job, here, there = two_boxes(retries=1, grace_s=300)
    scene.update(job, grace_s=1)
    scene.disconnect(here)

    scene.pass_beats(TRUSTED_BEATS + 20)
    early = lost(scene)
    scene.pass_beats(10)

    assert early == []
    assert lost(scene) == [here]
    assert [a.grace_s for a in scene.job(job).tasks[0].attempts] == [300, 1]
    assert (node_of(scene, job), scene.launch(job).grace_s) == (there, 1.0)


def test_a_grace_that_is_lengthened_while_a_job_runs_holds_nothing_up():
    scene, job, here, there = two_boxes(retries=1)
    scene.update(job, grace_s=3000)
    scene.disconnect(here)

    scene.pass_beats(TRUSTED_BEATS + 1)

    assert node_of(scene, job) == there


def test_the_grace_of_one_job_holds_up_no_other_one():
    scene = Scene(nodes=2, cpus=2, lease_s=LEASE_S)
    here = Placement(nodes=("box1",))
    slow = scene.submit("slow", grace_s=3600, placement=here)
    quick = scene.submit("quick", grace_s=1, placement=here)
    scene.disconnect("box1")

    scene.pass_beats(7)
    half = (scene.state(slow), scene.state(quick), lost(scene))
    scene.cancel(slow)
    scene.pass_beats(361)

    assert half == ("running", "node_failed", [])
    assert lost(scene) == ["box1"]
    assert scene.state(slow) == "cancelled"


def test_a_grace_above_the_maximum_of_the_site_is_refused():
    scene = Scene()

    with pytest.raises(Rejected) as refusal:
        scene.submit("work", grace_s=3601)
    scene.submit("work", grace_s=3600)
    with pytest.raises(Rejected):
        scene.update("work", grace_s=86_400)

    assert str(refusal.value) == (
        "grace_s: 3601 is not valid; 0 to 3600 (grace_max_s of this site)"
    )


def test_a_job_from_before_the_maximum_was_lowered_is_launched_with_no_more():
    scene = Scene(cpus=1)
    scene.submit("first", cpus=1)
    scene.submit("second", cpus=1, grace_s=600)
    scene.ask(cmd.SetPolicy(actor=ADMIN, rules={"grace_max_s": 60}))

    scene.finish("first")

    assert scene.launch("second").grace_s == 60.0


def test_without_a_maximum_any_grace_is_taken():
    scene = Scene()
    scene.ask(cmd.SetPolicy(actor=ADMIN, rules={"grace_max_s": 0}))

    scene.submit("work", grace_s=86_400)

    assert scene.launch("work").grace_s == 86_400.0


def test_an_attempt_from_an_older_database_has_the_grace_of_its_job():
    scene = Scene()
    scene.submit("work", grace_s=77)
    snapshot = scene.store.load()
    for attempt in snapshot.jobs[0].tasks[0].attempts:
        attempt.grace_s = -1

    cluster = recover(snapshot)

    assert [a.grace_s for a in cluster.jobs[scene.names["work"]].live_attempts] == [77]


class TestShortenedLease:
    """Counts only once the agent has said something that it says after the welcome."""

    def shortened(self) -> tuple[Scene, int, str]:
        """A lease of 10 min was made one of 1 min, and the node has said hello since."""
        scene = Scene(nodes=2, cpus=2, lease_s=600.0)
        job = scene.submit("work", cpus=2, retries=1, backoff_s=0, grace_s=0)
        here = node_of(scene, job)
        scene.lease_s = LEASE_S
        scene.restart()
        return scene, job, here

    def test_a_node_whose_agent_may_not_have_heard_of_it_is_trusted_as_before(self):
        scene, job, here = self.shortened()

        scene.disconnect(here)
        scene.pass_beats(10)
        scene.restart()
        scene.disconnect(here)
        scene.pass_beats(60)

        assert lost(scene) == []
        assert scene.is_running(job)

    def test_after_its_first_beat_it_counts(self):
        scene, job, here = self.shortened()
        scene.beat(here)

        scene.disconnect(here)
        scene.pass_beats(8)

        assert lost(scene) == [here]
        assert node_of(scene, job) != here

    def test_a_node_without_work_has_it_at_once(self):
        scene, _, here = self.shortened()

        idle = next(name for name in scene.cluster.nodes if name != here)

        assert scene.cluster.nodes[idle].lease_s == LEASE_S

    def test_work_from_before_there_were_leases_is_not_given_up_without_a_beat(self):
        scene = Scene(nodes=2, cpus=2)
        job = scene.submit("work", cpus=2, retries=1)
        scene.lease_s = LEASE_S
        scene.restart()

        scene.disconnect(node_of(scene, job))
        scene.pass_beats(60)

        assert lost(scene) == []
        assert scene.is_running(job)


def test_a_job_that_was_being_cancelled_on_a_lost_node_ends_as_cancelled():
    scene, job, here, _ = two_boxes(retries=1)
    scene.disconnect(here)
    scene.cancel(job)

    scene.pass_beats(TRUSTED_BEATS + 1)

    assert scene.state(job) == "cancelled"


def test_a_gang_with_one_task_on_a_lost_node_starts_again_as_one():
    scene = Scene(nodes=3, cpus=2, lease_s=LEASE_S)
    job = scene.submit("gang", tasks=2, cpus=2, retries=1, backoff_s=0)
    nodes = [task.attempts[-1].allocation.node for task in scene.job(job).tasks]
    scene.disconnect(nodes[0])

    scene.pass_beats(TRUSTED_BEATS + 1)
    scene.finish(job, signal=15, task=1)
    scene.pass_beats(1)

    assert scene.is_running(job)
    again = {task.attempts[-1].allocation.node for task in scene.job(job).tasks}
    assert again == {"box1", "box2", "box3"} - {nodes[0]}


def test_a_connection_without_beats_is_dropped_after_three_of_them():
    scene = Scene(lease_s=LEASE_S)
    scene.pass_beats(2, silent=("box",))
    before = scene.cluster.nodes["box"].state

    scene.pass_beats(2, silent=("box",))

    assert before is NodeState.UP
    assert scene.cluster.nodes["box"].state is NodeState.DOWN
    assert scene.cluster.nodes["box"].note == "its agent is silent"
    assert "box" not in scene.online


def test_a_controller_that_stood_still_for_long_does_not_blame_the_nodes():
    scene, job, here, _ = two_boxes(retries=1)
    scene.disconnect(here)

    scene.pass_time(86_400)
    scene.pass_time(10)

    assert lost(scene) == []
    scene.connect(here)
    assert scene.is_running(job)


def test_after_a_restart_of_the_controller_the_time_of_a_silent_node_begins_anew():
    scene, job, here, there = two_boxes(retries=1)
    scene.disconnect(here)
    scene.pass_beats(TRUSTED_BEATS - 1)
    scene.crash()
    scene.controller = scene._boot()
    scene.connect(there)

    scene.pass_beats(TRUSTED_BEATS - 1)
    early = lost(scene)
    scene.pass_beats(2)

    assert early == []
    assert lost(scene) == [here]
    assert node_of(scene, job) == there


def test_a_lost_node_that_comes_back_is_up_again_and_forgets_what_was_given_up():
    scene, job, here, there = two_boxes(retries=1)
    first = scene.job(job).tasks[0].attempts[0].uid
    scene.disconnect(here)
    scene.pass_beats(TRUSTED_BEATS + 1)

    scene.connect(here)

    assert scene.cluster.nodes[here].state is NodeState.UP
    assert not scene.cluster.nodes[here].lost
    assert first not in scene.alive
    assert node_of(scene, job) == there


def test_without_a_lease_a_silent_node_keeps_its_work_for_ever():
    scene = Scene(nodes=2, cpus=2)
    job = scene.submit("work", cpus=2, retries=1)
    scene.disconnect(node_of(scene, job))

    for _ in range(10):
        scene.pass_time(86_400)

    assert scene.is_running(job)
    assert lost(scene) == []


class TestManyAtOnce:
    """Half of the nodes gone at once is a broken network, not so many broken nodes."""

    def scene(self, nodes: int, gone: int) -> Scene:
        scene = Scene(nodes=nodes, cpus=1, lease_s=LEASE_S)
        for number in range(nodes):
            scene.submit(f"job{number + 1}", cpus=1)
        for number in range(gone):
            scene.disconnect(f"box{number + 1}")
        return scene

    def vanished(self, scene: Scene) -> list[tuple[str, ...]]:
        return [event.nodes for event in scene.log if isinstance(event, ev.NodesVanished)]

    def test_they_are_given_up_one_per_beat_and_people_are_told(self):
        scene = self.scene(nodes=5, gone=3)
        scene.pass_beats(TRUSTED_BEATS)
        warning = scene.controller.liveness.warning
        note = scene.cluster.nodes["box1"].note

        one_by_one = []
        for _ in range(3):
            scene.pass_beats(1)
            one_by_one.append(len(lost(scene)))

        told = "3 of 5 nodes fell silent together; at most 1 at a time are given up"
        assert (warning, note) == (told, told)
        assert one_by_one == [1, 2, 3]
        assert self.vanished(scene)[0] == ("box1", "box2", "box3")

    def test_the_warning_ends_with_the_last_of_them(self):
        scene = self.scene(nodes=5, gone=3)
        scene.pass_beats(TRUSTED_BEATS)

        for number in range(3):
            scene.connect(f"box{number + 1}")
        scene.pass_beats(1)

        assert scene.controller.liveness.warning == ""
        assert self.vanished(scene)[-1] == ()
        assert lost(scene) == []

    def test_the_last_of_them_is_told_to_be_alone(self):
        scene = self.scene(nodes=5, gone=3)
        scene.pass_beats(TRUSTED_BEATS)

        for number in range(2):
            scene.connect(f"box{number + 1}")
        scene.pass_beats(1)

        told = [event for event in scene.log if isinstance(event, ev.NodesVanished)]
        note = "the last of several nodes that fell silent together"
        assert (told[1].nodes, told[1].note) == (("box3",), note)

    def test_less_than_half_are_given_up_together(self):
        scene = self.scene(nodes=8, gone=3)

        scene.pass_beats(TRUSTED_BEATS + 1)

        assert lost(scene) == ["box1", "box2", "box3"]
        assert self.vanished(scene) == []

    def test_two_of_two_are_no_crowd(self):
        scene = self.scene(nodes=2, gone=2)

        scene.pass_beats(TRUSTED_BEATS + 1)

        assert lost(scene) == ["box1", "box2"]
        assert self.vanished(scene) == []


class TestIdentity:
    """A name belongs to one installation on one machine."""

    def scene(self) -> tuple[Scene, int]:
        scene = Scene(lease_s=LEASE_S)
        scene.connect("box", home="alpha:/var/lib/rota")
        return scene, scene.submit("work", retries=1, backoff_s=0)

    def refusal(self, tick) -> str:
        return str(tick.to_agents[0][1].reason)

    def test_a_copied_folder_is_refused_and_both_are_named(self):
        scene, job = self.scene()

        reason = self.refusal(scene.connect("box", home="beta:/var/lib/rota"))

        assert "agent i1 (alpha:/var/lib/rota) is connected" in reason
        assert "agent i1 (beta:/var/lib/rota) is a copy of it" in reason
        assert scene.is_running(job)
        assert scene.cluster.nodes["box"].home == "alpha:/var/lib/rota"

    def test_a_cloned_disk_with_another_boot_is_refused_while_the_first_one_beats(self):
        scene, job = self.scene()
        scene.pass_beats(3)

        reason = self.refusal(scene.connect("box", boot_id="b2", home="alpha:/var/lib/rota"))

        assert "was heard 0 s ago" in reason
        assert "a copy of its disk?" in reason
        assert scene.is_running(job)

    def test_the_same_agent_after_a_restart_takes_its_own_place(self):
        scene, job = self.scene()

        scene.connect("box", home="alpha:/var/lib/rota")

        assert scene.is_running(job)
        assert scene.cluster.nodes["box"].state is NodeState.UP

    def test_a_machine_that_was_set_up_anew_waits_until_the_lease_of_the_old_one_is_over(self):
        scene, job = self.scene()
        scene.disconnect("box")
        scene.pass_beats(3)

        early = self.refusal(scene.connect("box", incarnation="i2", home="alpha:/var/lib/rota"))
        scene.online.discard("box")
        scene.pass_beats(TRUSTED_BEATS)
        scene.connect("box", incarnation="i2", home="alpha:/var/lib/rota")

        assert "belongs to agent i1 (alpha:/var/lib/rota)" in early
        assert "may still run 1 of our jobs" in early
        assert early.endswith("may take it over in 1m7s")
        assert scene.cluster.nodes["box"].incarnation == "i2"
        assert scene.is_running(job)
        assert scene.job(job).tasks[0].attempts[0].cause == "node_lost"

    def test_a_machine_that_was_set_up_anew_without_jobs_takes_over_at_once(self):
        scene = Scene(lease_s=LEASE_S)
        scene.disconnect("box")

        scene.connect("box", incarnation="i2")

        assert scene.cluster.nodes["box"].incarnation == "i2"
        assert scene.cluster.nodes["box"].state is NodeState.UP
