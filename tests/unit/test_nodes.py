"""Which nodes take work, and how room comes back: derived from what lives there, never counted."""

import pytest

from rota.controller.commands import commands as cmd
from rota.core.facts.errors import Conflict, Forbidden, NotFound
from rota.core.facts.node import NodeSpec
from rota.core.facts.resources import Amount
from rota.core.facts.states import Cause, NodeState
from rota.rpc.messages import Seen, Sighting
from rota.testing.scene import ALICE, OPERATOR, Scene


def node_of(scene: Scene, job: str) -> str:
    return scene.job(job).tasks[0].attempts[-1].allocation.node


def drain(scene: Scene, node: str, *, drained: bool = True, note: str = "") -> None:
    scene.ask(cmd.DrainNode(actor=OPERATOR, node=node, drained=drained, note=note))


def test_work_goes_to_the_first_node_that_fits_in_order_of_names():
    scene = Scene(nodes=0)
    scene.set_policy(place_strategy="first-fit")
    for name, cpus in (("d", 2), ("c", 8), ("a", 1), ("b", 8)):
        scene.add_node(NodeSpec(name, cpus * 1000, 1000))
    scene.submit("fills b", cpus=7)

    scene.submit("two", cpus=2)
    scene.submit("nine", cpus=9, scheduling_timeout_s=60)

    assert (node_of(scene, "fills b"), node_of(scene, "two")) == ("b", "c")
    assert scene.state("nine") == "queued"


def test_a_node_that_is_not_connected_is_no_candidate():
    scene = Scene(nodes=2, cpus=4)
    scene.disconnect("box1")

    scene.submit("job")

    assert node_of(scene, "job") == "box2"


def test_a_job_waits_while_every_node_is_away_and_starts_when_one_comes_back():
    scene = Scene()
    scene.disconnect("box")
    scene.submit("job")
    before = scene.state("job")

    scene.connect("box")

    assert before == "queued"
    assert scene.is_running("job")


def test_a_node_that_comes_back_smaller_keeps_its_jobs_and_takes_no_more_until_there_is_room():
    scene = Scene(nodes=0)
    scene.add_node(NodeSpec("box", 8000, 8192))
    for name in ("a", "b", "c"):
        scene.submit(name, cpus=2, mem=2048)
    scene.disconnect("box")

    scene.add_node(NodeSpec("box", 3000, 4096))
    scene.submit("new")
    over = (scene.states("a", "b", "c", "new"), scene.cluster.nodes["box"].headroom())
    scene.finish("a")
    full = scene.state("new")
    scene.finish("b")

    assert over == (["running", "running", "running", "queued"], Amount(-3000, -2048, 0))
    assert full == "queued"
    assert scene.is_running("new")


def test_a_node_that_lost_its_devices_keeps_the_job_that_has_them():
    scene = Scene(cpus=4, gpus=2)
    scene.submit("whole", gpus=1)
    scene.submit("part", gpus=1, gpu_mem=4096, shared=True)
    scene.disconnect("box")

    scene.add_node(NodeSpec("box", 4000, 16384, cpus=(0, 1, 2, 3)))
    scene.submit("new", gpus=1, scheduling_timeout_s=60)
    scene.restart()

    assert scene.states("whole", "part", "new") == ["running", "running", "queued"]


def test_less_overcommitment_leaves_what_runs_alone_and_starts_no_more():
    scene = Scene(cpus=4)
    scene.set_policy(place_overcommit_cpu=2.0)
    jobs = [scene.submit(f"j{number}", cpus=2) for number in range(4)]

    scene.set_policy(place_overcommit_cpu=1.0)
    scene.submit("new")
    for job in jobs[:2]:
        scene.finish(job)
    before = scene.state("new")
    scene.finish(jobs[2])

    assert before == "queued"
    assert scene.is_running("new")


def test_a_drained_node_takes_nothing_new_and_finishes_what_it_has():
    scene = Scene(cpus=4)
    scene.submit("old")

    drain(scene, "box", note="new fans")
    scene.submit("new")
    scene.finish("old")

    assert scene.states("old", "new") == ["completed", "queued"]


def test_a_resumed_node_takes_what_waited():
    scene = Scene()
    drain(scene, "box")
    scene.submit("job")

    drain(scene, "box", drained=False)

    assert scene.is_running("job")


def test_a_drained_node_stays_drained_when_its_agent_dials_again():
    scene = Scene()
    drain(scene, "box")

    scene.disconnect("box")
    scene.connect("box")
    scene.submit("job")

    assert scene.state("job") == "queued"


def test_headroom_is_the_total_minus_what_runs_there():
    scene = Scene(cpus=4, memory_mib=1000, disk_mib=500)

    scene.submit("a", cpus=1.5, mem=300, disk=100)
    scene.submit("b", cpus=1, mem=100)

    assert scene.cluster.nodes["box"].headroom() == Amount(1500, 600, 400)


def test_a_start_is_recorded_with_its_node_and_time_and_leaves_the_queue():
    scene = Scene(nodes=2, cpus=4, starts=False)
    job = scene.submit("job")
    placed = scene.state("job")
    scene.pass_time(3)

    scene.start("job")

    attempt = scene.job("job").tasks[0].attempts[0]
    assert placed == "scheduled"
    assert (attempt.allocation.node, attempt.placed_s, attempt.started_s) == ("box1", 1000, 1003)
    assert list(scene.cluster.nodes["box1"].live) == [attempt.uid]
    assert job not in scene.cluster.lanes.where


def test_a_start_that_fails_gives_back_everything_and_settles_the_job():
    scene = Scene(cpus=4, gpus=1, starts=False)
    scene.submit("job", cpus=4, gpus=1)
    uid = scene.job("job").live_attempts[0].uid

    failure = Seen(uid, Sighting.ENDED, cause=Cause.START_FAILED, detail="working folder /x: gone")
    scene.report(failure, node="box")

    assert scene.cause("job") == "start_failed: working folder /x: gone"
    assert scene.job("job").started_s == 0.0
    assert scene.cluster.nodes["box"].live == {}
    scene.submit("next", cpus=4, gpus=1)
    assert scene.state("next") == "scheduled"


def test_the_end_of_a_job_frees_its_room_without_any_release():
    scene = Scene(cpus=4)
    scene.submit("runs", cpus=4)
    scene.submit("waits", cpus=4)

    scene.finish("runs")

    assert scene.is_running("waits")
    assert list(scene.cluster.nodes["box"].live) == [scene.job("waits").tasks[0].attempts[0].uid]


def test_the_sum_tolerates_an_attempt_whose_job_is_gone():
    scene = Scene(cpus=4)
    scene.submit("runs", cpus=3)
    scene.finish("runs")

    scene.report(Seen("no-such-attempt.0.1", Sighting.ENDED), node="box")

    assert scene.cluster.nodes["box"].headroom() == scene.cluster.nodes["box"].spec.total


def test_a_job_on_a_node_that_went_away_keeps_its_room_and_its_state():
    scene = Scene(cpus=4)
    scene.submit("runs", cpus=3)

    scene.disconnect("box")
    scene.pass_time(3600)

    assert scene.is_running("runs")
    assert scene.cluster.nodes["box"].state is NodeState.DOWN
    assert scene.cluster.nodes["box"].headroom().cpu_milli == 1000


def test_a_job_that_ends_while_its_node_is_away_is_settled_when_it_is_back():
    scene = Scene()
    scene.submit("runs")
    scene.disconnect("box")
    scene.finish("runs", code=3)
    before = scene.state("runs")

    scene.connect("box")

    assert before == "running"
    assert scene.cause("runs") == "exit: exit code 3"


def test_a_node_that_comes_back_larger_takes_what_waited():
    scene = Scene(cpus=1)
    scene.submit("runs", cpus=1)
    scene.submit("waits", cpus=1)
    scene.disconnect("box")

    scene.add_node(NodeSpec("box", 2000, 16384, cpus=(0, 1)))

    assert scene.states("runs", "waits") == ["running", "running"]


def test_a_node_with_live_work_is_not_removed():
    scene = Scene()
    scene.submit("runs")
    scene.disconnect("box")

    with pytest.raises(Conflict, match="live work"):
        scene.ask(cmd.RemoveNode(actor=OPERATOR, node="box"))


def test_a_node_that_is_away_and_empty_can_be_removed():
    scene = Scene(nodes=2)
    scene.disconnect("box2")

    scene.ask(cmd.RemoveNode(actor=OPERATOR, node="box2"))
    scene.crash()

    assert list(scene.cluster.nodes) == ["box1"]


def test_only_operators_drain_and_unknown_nodes_are_named():
    scene = Scene()

    with pytest.raises(Forbidden, match="operator"):
        scene.ask(cmd.DrainNode(actor=ALICE, node="box", drained=True))
    with pytest.raises(NotFound, match="there is no node moon"):
        drain(scene, "moon")
