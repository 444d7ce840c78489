"""Groups and queues: how many run at once, who takes and starts jobs."""

import pytest

from rota.controller.commands import commands as cmd
from rota.core.changes import events as ev
from rota.core.facts.errors import Conflict, Forbidden, NotFound, Rejected
from rota.core.facts.states import QueueState
from rota.core.facts.tenant import Group, Queue
from rota.testing.scene import ALICE, BOB, OPERATOR, VIEWER, Scene
from rota.testing.stage import Stage, node, spec


def set_queue(scene: Scene, name: str = "side", **fields) -> None:
    scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name=name, **fields)))


def set_group(scene: Scene, cap: int, actor=ALICE) -> None:
    scene.ask(cmd.SetGroup(actor=actor, group=Group("g", "whoever", cap)))


def test_a_group_runs_no_more_than_its_cap():
    scene = Scene(cpus=8)

    jobs = [scene.submit(group="g", group_cap=2) for _ in range(4)]

    assert scene.states(*jobs) == ["running", "running", "queued", "queued"]


def test_jobs_of_different_shapes_share_the_cap_of_their_group():
    scene = Scene(cpus=8)

    scene.submit("small", group="g", group_cap=1, cpus=1)
    scene.submit("large", group="g", cpus=2)

    assert scene.states("small", "large") == ["running", "queued"]


def test_a_raised_group_cap_starts_waiting_jobs_at_once():
    scene = Scene(cpus=8)
    jobs = [scene.submit(group="g", group_cap=1) for _ in range(4)]

    set_group(scene, 3)

    assert scene.states(*jobs) == ["running", "running", "running", "queued"]


def test_a_lowered_group_cap_stops_nobody_and_starts_nobody_until_enough_have_ended():
    scene = Scene(cpus=8)
    jobs = [scene.submit(group="g", group_cap=3) for _ in range(4)]

    set_group(scene, 1)
    scene.finish(jobs[0])
    scene.finish(jobs[1])
    between = scene.states(*jobs[2:])
    scene.finish(jobs[2])

    assert between == ["running", "queued"]
    assert scene.is_running(jobs[3])


def test_a_later_member_does_not_change_the_cap_unless_it_says_so():
    scene = Scene(cpus=8)
    scene.submit("one", group="g", group_cap=1)

    scene.submit("two", group="g")

    assert scene.state("two") == "queued"


def test_a_group_belongs_to_whoever_made_it():
    scene = Scene(cpus=8)
    scene.submit("mine", group="g", group_cap=1)

    with pytest.raises(Forbidden, match="belongs to alice"):
        scene.submit("theirs", group="g", actor=BOB)
    with pytest.raises(Forbidden, match="operator"):
        set_group(scene, 9, actor=BOB)
    set_group(scene, 2, actor=OPERATOR)

    assert scene.cluster.groups["g"] == Group("g", "alice", 2)


def test_an_update_cannot_move_a_job_into_the_group_of_another():
    scene = Scene(cpus=1)
    scene.submit("mine", group="g")
    scene.submit("theirs", actor=BOB)

    with pytest.raises(Forbidden, match="belongs to alice"):
        scene.update("theirs", group="g", actor=BOB)


def test_the_cap_of_a_group_that_does_not_exist_cannot_be_set():
    with pytest.raises(NotFound, match="there is no group g"):
        set_group(Scene(), 3)


def test_a_queue_runs_no_more_than_its_cap():
    scene = Scene(cpus=8)
    set_queue(scene, max_running=2)

    jobs = [scene.submit(queue="side") for _ in range(3)]
    scene.submit("elsewhere")

    assert scene.states(*jobs, "elsewhere") == ["running", "running", "queued", "running"]


def test_a_job_blocked_by_a_cap_lets_others_pass_and_starts_when_the_cap_allows():
    scene = Scene(cpus=8)
    set_queue(scene, max_running=1)
    scene.submit("a", queue="side")
    scene.submit("b", queue="side")

    scene.finish("a")

    assert scene.is_running("b")


def test_a_paused_queue_takes_jobs_and_starts_none_until_it_is_active():
    scene = Scene(cpus=8)
    set_queue(scene, state=QueueState.PAUSED)
    scene.submit("job", queue="side")
    paused = scene.state("job")

    set_queue(scene, state=QueueState.ACTIVE)

    assert paused == "queued"
    assert scene.is_running("job")


def test_a_job_in_a_queue_that_starts_nothing_waits_for_no_moment():
    stage = Stage([node("a")])
    stage.tell(ev.QueueSet(queue=Queue("side", state=QueueState.PAUSED)))
    stage.submit(spec(queue="side"))

    plan = stage.run()

    assert plan.wake_s == 0
    assert not plan.more


def test_a_draining_queue_starts_what_it_has_and_takes_nothing_new():
    scene = Scene(cpus=1)
    set_queue(scene)
    scene.submit("hog")
    scene.submit("has", queue="side")
    set_queue(scene, state=QueueState.DRAINING)

    with pytest.raises(Conflict, match="side is draining"):
        scene.submit("late", queue="side")
    scene.finish("hog")

    assert scene.is_running("has")


def test_a_closed_queue_neither_takes_nor_starts():
    scene = Scene(cpus=1)
    set_queue(scene)
    scene.submit("hog")
    scene.submit("has", queue="side")
    set_queue(scene, state=QueueState.CLOSED)

    with pytest.raises(Conflict, match="side is closed"):
        scene.submit("late", queue="side")
    scene.finish("hog")

    assert scene.state("has") == "queued"


def test_running_jobs_of_a_paused_queue_go_on():
    scene = Scene()
    set_queue(scene)
    scene.submit("job", queue="side")

    set_queue(scene, state=QueueState.PAUSED)
    scene.finish("job")

    assert scene.state("job") == "completed"


def test_an_unknown_queue_is_refused_naming_the_known_ones():
    scene = Scene(cpus=1)
    scene.submit("hog")
    scene.submit("job")

    with pytest.raises(Rejected, match="known queues: default") as refusal:
        scene.submit("lost", queue="nowhere")
    with pytest.raises(Rejected, match="known queues: default"):
        scene.update("job", queue="nowhere")

    assert refusal.value.field == "queue"


def test_a_job_moves_to_another_queue_and_its_cap():
    scene = Scene(cpus=1)
    set_queue(scene, max_running=1, priority=90)
    scene.submit("hog")
    scene.submit("first")
    scene.submit("second")

    scene.update("second", queue="side")
    scene.finish("hog")

    assert scene.states("first", "second") == ["queued", "running"]


def test_a_queue_with_waiting_jobs_is_not_removed_and_an_empty_one_is():
    scene = Scene(cpus=2)
    set_queue(scene)
    array = scene.submit("array", queue="side", array="0-2")

    with pytest.raises(Conflict, match="still has jobs"):
        scene.ask(cmd.RemoveQueue(actor=OPERATOR, queue="side"))
    for job in range(array + 1, array + 4):
        scene.finish(job)
    scene.ask(cmd.RemoveQueue(actor=OPERATOR, queue="side"))

    assert list(scene.cluster.queues) == ["default"]


def test_a_queue_that_is_removed_is_a_change_of_the_rules():
    scene = Scene(cpus=2)
    set_queue(scene)
    before = scene.cluster.agenda.rules_version

    scene.ask(cmd.RemoveQueue(actor=OPERATOR, queue="side"))

    assert scene.cluster.agenda.rules_version == before + 1


def test_the_default_queue_stays():
    with pytest.raises(Conflict, match="default"):
        Scene().ask(cmd.RemoveQueue(actor=OPERATOR, queue="default"))


@pytest.mark.parametrize("actor", [ALICE, VIEWER])
def test_queues_are_for_operators(actor):
    with pytest.raises(Forbidden, match="operator"):
        Scene().ask(cmd.SetQueue(actor=actor, queue=Queue(name="mine")))


def test_a_job_at_a_cap_finds_the_room_that_came_back_in_the_meantime_elsewhere():
    stage = Stage([node("a", cpus=4), node("b", cpus=2)])
    stage.tell(ev.QueueSet(queue=Queue("side", max_running=2)))
    large = stage.submit(spec(cpus=4))
    stage.run()
    first = stage.submit(spec(cpus=1, queue="side"))
    stage.run()
    waits = stage.submit(spec(cpus=4, queue="side"))
    stage.run()
    stage.submit(spec(cpus=1, queue="side", time_limit_s=60))
    stage.run()
    # There is room again while the cap keeps it from being used.
    stage.end(large)
    stage.run()
    assert stage.waiting == [waits]

    stage.end(first)
    stage.run()

    assert stage.waiting == []
