"""Nodes that are emptied: who leaves at once, who later, who at the deadline."""

from __future__ import annotations

import pytest

from rota.controller.commands import commands as cmd
from rota.controller.launches.launch import wanted
from rota.core.facts.errors import Rejected
from rota.core.facts.job import Role
from rota.core.facts.placing import Placement
from rota.core.facts.resources import Request
from rota.core.facts.states import Cause
from rota.rpc.messages import Seen, Sighting
from rota.testing.scene import ALICE, OPERATOR, Scene


def empty(scene: Scene, node: str, *, deadline_s: float = 0.0, migrate: bool = True) -> None:
    scene.ask(
        cmd.DrainNode(
            actor=OPERATOR, node=node, drained=True, migrate=migrate, deadline_s=deadline_s
        )
    )


def report(scene: Scene, job: str) -> None:
    scene.ask(cmd.ReportCheckpoint(actor=ALICE, job=scene.names[job]))


def nodes_of(scene: Scene, job: str) -> list[str]:
    """Where the tries of its first task were."""
    return [attempt.allocation.node for attempt in scene.job(job).tasks[0].attempts]


def test_a_job_with_a_checkpoint_signal_hears_it_and_goes_on_elsewhere():
    scene = Scene(nodes=2)
    scene.submit("train", checkpoint_signal="USR1", grace_s=90)
    report(scene, "train")

    empty(scene, "box1")
    record = scene.job("train")
    farewell = wanted(scene.cluster, record, 0, lambda digest: b"", {})
    scene.finish("train", 0)

    assert (farewell.stop, farewell.signal, farewell.grace_s) == (Cause.MIGRATED, "USR1", 90.0)
    assert nodes_of(scene, "train") == ["box1", "box2"]
    assert scene.launch("train").environment["ROTA_RESUME"] == "1"
    assert (record.retries_used, record.preemptions) == (0, 0)
    first = record.tasks[0].attempts[0]
    assert (first.cause, first.detail) == (Cause.MIGRATED, "node box1 is being emptied")


def test_a_drain_without_migration_lets_everything_finish():
    scene = Scene(nodes=2)
    scene.submit("train", checkpoint_signal="USR1")

    empty(scene, "box1", migrate=False)
    asked = set(scene.stopping)
    scene.finish("train")

    assert asked == set()
    assert scene.state("train") == "completed"


def test_a_job_that_only_reports_checkpoints_leaves_after_its_next_one():
    scene = Scene(nodes=2)
    scene.submit("train")

    empty(scene, "box1")
    before = set(scene.stopping)
    report(scene, "train")
    asked = set(scene.stopping)
    scene.finish("train", signal=15)

    assert before == set()
    assert len(asked) == 1
    assert nodes_of(scene, "train") == ["box1", "box2"]


def test_a_job_that_can_be_asked_to_save_is_asked_and_leaves_when_it_has():
    scene = Scene(nodes=2)
    scene.submit("train", save_signal="USR2")
    uid = scene.job("train").tasks[0].attempts[0].uid

    empty(scene, "box1")
    asked = scene.saves[uid]
    report(scene, "train")

    assert asked == 1
    assert scene.stopping == {uid}


def test_what_cannot_be_saved_stays_until_it_ends_and_others_start_elsewhere():
    scene = Scene(nodes=2, cpus=1)
    scene.submit("old")

    empty(scene, "box1")
    scene.submit("new")
    running = (nodes_of(scene, "old"), nodes_of(scene, "new"), set(scene.stopping))
    scene.finish("old")

    assert running == (["box1"], ["box2"], set())
    assert scene.state("old") == "completed"


def test_what_is_still_there_at_the_deadline_goes_back_into_the_queue():
    scene = Scene(nodes=2)
    scene.submit("job")

    empty(scene, "box1", migrate=False, deadline_s=scene.now_s + 600)
    scene.pass_time(599)
    before = set(scene.stopping)
    scene.pass_time(1)
    scene.finish("job", signal=15)

    assert before == set()
    assert nodes_of(scene, "job") == ["box1", "box2"]
    assert scene.job("job").tasks[0].attempts[0].detail == "node box1 had to be empty by now"


def test_a_deadline_holds_although_the_controller_was_away():
    scene = Scene(nodes=2)
    scene.submit("job")
    empty(scene, "box1", deadline_s=scene.now_s + 600)

    scene.crash()
    scene.now_s += 700
    scene.restart()
    scene.tick()

    assert len(scene.stopping) == 1


def test_a_deadline_that_has_passed_is_refused():
    scene = Scene()

    with pytest.raises(Rejected, match=r"deadline_at: the moment is in the past"):
        empty(scene, "box", deadline_s=scene.now_s - 1)

    assert not scene.cluster.nodes["box"].drained


def test_a_node_that_is_resumed_in_time_keeps_its_jobs():
    scene = Scene()
    scene.submit("job")
    empty(scene, "box", deadline_s=scene.now_s + 600)

    scene.ask(cmd.DrainNode(actor=OPERATOR, node="box", drained=False))
    scene.pass_time(700)
    report(scene, "job")

    assert scene.stopping == set()
    assert scene.cluster.nodes["box"].takes_work


def test_a_gang_moves_as_a_whole_although_only_one_of_its_nodes_is_emptied():
    scene = Scene(nodes=3, cpus=2)
    scene.submit("gang", tasks=4, checkpoint_signal="USR1", placement=Placement(node_count=2))

    empty(scene, "box1")
    scene.finish("gang", 0)

    nodes = [task.attempts[-1].allocation.node for task in scene.job("gang").tasks]
    assert nodes == ["box2", "box2", "box3", "box3"]


@pytest.mark.parametrize("signal", ["USR1", ""], ids=["with-a-signal", "without-one"])
def test_an_elastic_gang_gives_up_its_members_there_and_grows_elsewhere(signal: str):
    scene = Scene(nodes=2, cpus=2)
    scene.submit("hog", cpus=1)
    roles = (Role(count=3, min_count=1, request=Request()),)
    scene.submit("gang", roles=roles, checkpoint_signal=signal)
    first = [a.allocation.node for a in scene.job("gang").live_attempts]
    emptied = first[-1]

    empty(scene, emptied)
    leaving = [a.uid for a in scene.job("gang").live_attempts if a.allocation.node == emptied]
    asked = set(scene.stopping)
    for uid in sorted(asked):
        scene.end(uid, 0, 0)

    assert asked == set(leaving)
    assert scene.is_running("gang")
    assert emptied not in [a.allocation.node for a in scene.job("gang").live_attempts]


def test_an_elastic_gang_that_would_be_too_small_finishes_where_it_is():
    scene = Scene(nodes=2, cpus=2)
    scene.submit("gang", roles=(Role(count=4, min_count=3, request=Request()),))

    empty(scene, "box1")

    assert scene.stopping == set()


def test_a_job_that_had_not_begun_yet_moves_at_once():
    scene = Scene(nodes=2, starts=False)
    scene.submit("job")
    (first,) = scene.job("job").live_attempts

    empty(scene, "box1")
    scene.report(Seen(first.uid, Sighting.ENDED, ended_s=scene.now_s), node="box1")

    assert nodes_of(scene, "job") == ["box1", "box2"]


def test_a_job_that_is_cancelled_while_it_moves_ends_as_cancelled():
    scene = Scene(nodes=2)
    scene.submit("train", checkpoint_signal="USR1")
    empty(scene, "box1")

    scene.cancel("train")
    scene.finish("train", 0)

    assert scene.state("train") == "cancelled"
    assert scene.cause("train") == "cancelled: while it was moving to another node"
