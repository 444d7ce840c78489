"""Starts that fail for the job's sake end the job; for the node's sake the job is given back."""

from __future__ import annotations

import pytest

from rota.controller.commands import commands as cmd
from rota.controller.recover import recover
from rota.core.changes import events as ev
from rota.core.changes.compare import differences, fold
from rota.core.facts.faults import NO_BUNDLE, Fault, fault_of
from rota.core.facts.node import Node
from rota.core.facts.placing import Placement
from rota.core.facts.states import Blame, Cause
from rota.rpc.messages import Seen, Sighting
from rota.testing.scene import BOB, OPERATOR, Scene

FULL = "cannot record the start: no space left on device"
#: How today's agents tell of what the job itself brought about.
OF_THE_JOB = (
    "ulimit nproc=99999999: above the hard limit",
    "bundle 0123456789ab: 'h' is a link to an absolute path",
    "image ubuntu: this node has neither podman nor apptainer",
    "user nosuchuser: no such user on this node",
    "checkpoint folder /c: permission denied",
    "working folder /none: no such directory",
    "output file /none/1.out: no such directory",
    "error output file /none/1.err: no such directory",
    "command or environment: embedded null byte",
    "no command",
)
OF_THE_NODE = (
    FULL,
    "cannot start: BlockingIOError: [Errno 11] Resource temporarily unavailable",
    "cgroup /x: permission denied",
    "terminal: too many open files",
    "port 20001, where its gang meets, is in use on this node",
)


def fail_start(scene: Scene, job: int | str, detail: str = FULL, **more: object) -> str:
    """The agent cannot start what was placed of a job; gives the node."""
    attempt = scene.job(job).live_attempts[0]
    failure = Seen(attempt.uid, Sighting.ENDED, cause=Cause.START_FAILED, detail=detail, **more)
    scene.report(failure, node=attempt.allocation.node)
    return attempt.allocation.node


def drain(scene: Scene, *, drained: bool = True) -> None:
    scene.ask(cmd.DrainNode(actor=OPERATOR, node="box1", drained=drained))


def box1(scene: Scene) -> Node:
    return scene.cluster.nodes["box1"]


def two_nodes() -> Scene:
    """Two nodes on which nothing starts by itself, and a job of each of two users for the first."""
    scene = Scene(nodes=2, cpus=4, starts=False)
    here = Placement(nodes=("box1",))
    scene.submit("of alice", placement=here)
    scene.submit("of bob", placement=here, actor=BOB)
    return scene


def one_out() -> Scene:
    """Starts of two users failed on the first node, three in all."""
    scene = two_nodes()
    for name in ("of alice", "of bob", "of alice"):
        fail_start(scene, name)
    scene.pass_time(0)
    return scene


@pytest.mark.parametrize("detail", OF_THE_JOB)
def test_what_the_job_brought_about_ends_it_and_says_nothing_about_the_node(detail: str):
    scene = Scene(starts=False)
    job = scene.submit("job")

    fail_start(scene, job, detail)

    assert (scene.state(job), scene.cause(job)) == ("failed", f"start_failed: {detail}")
    assert scene.cluster.nodes["box"].failed_starts == ()
    assert fault_of(scene.job(job).tasks[0].attempts[0]) is Fault.PROGRAM


def test_a_job_whose_packed_folder_another_head_has_waits_until_it_is_released():
    scene = Scene(starts=False)
    job = scene.submit("job", retries=0)

    fail_start(scene, job, f"bundle 0123456789ab: {NO_BUNDLE}")
    held = scene.state(job), scene.job(job).held_note
    scene.release(job)
    scene.start(job)

    assert held[0] == "held"
    assert "is not on the head that leads" in held[1]
    assert scene.is_running(job)
    assert scene.job(job).retries_used == 0


@pytest.mark.parametrize("detail", OF_THE_NODE)
def test_what_the_node_brought_about_gives_the_job_back_and_costs_no_retry(detail: str):
    scene = Scene(starts=False)
    job = scene.submit("job", retries=0)

    fail_start(scene, job, detail)
    scene.start(job)

    assert scene.is_running(job)
    assert scene.job(job).retries_used == 0
    first = scene.job(job).tasks[0].attempts[0]
    assert (first.cause, first.detail, fault_of(first)) == ("start_failed", detail, Fault.NODE)


@pytest.mark.parametrize(("fault", "state"), [(Blame.JOB, "failed"), (Blame.NODE, "scheduled")])
def test_what_the_agent_says_of_the_fault_counts_more_than_how_it_is_told(fault: Blame, state: str):
    scene = Scene(starts=False)
    job = scene.submit("job")

    fail_start(scene, job, "bundle or disk, nobody could tell by this", fault=fault)

    assert scene.state(job) == state


def test_a_start_that_no_keeper_knows_anything_of_may_have_run_and_counts_as_lost():
    scene = Scene(starts=False)
    job = scene.submit("job")

    fail_start(scene, job, "not started: keeper was killed")

    assert (scene.state(job), scene.job(job).outcome.cause) == ("node_failed", "node_lost")
    assert scene.cluster.nodes["box"].failed_starts == ()


def test_a_job_that_is_given_back_again_and_again_waits_longer_each_time():
    scene = Scene(starts=False)
    job = scene.submit("job")

    waits = []
    for _ in range(10):
        fail_start(scene, job)
        began_s = scene.now_s
        while scene.state(job) == "queued":
            scene.pass_time(1)
        waits.append(scene.now_s - began_s)

    assert waits == [0, 1, 2, 4, 8, 16, 32, 64, 120, 120]


def test_a_job_that_waits_after_it_was_given_back_says_when_it_is_tried_again():
    scene = Scene(starts=False)
    job = scene.submit("job")

    fail_start(scene, job)
    fail_start(scene, job)

    assert scene.why(job) == "next try in 1s"


def gang_of_which_one_did_not_start() -> Scene:
    scene = Scene(nodes=2, cpus=2, starts=False)
    scene.submit("gang", tasks=2, cpus=2)
    scene.start_placed(scene.job("gang").live_attempts[1:])
    fail_start(scene, "gang")
    return scene


def test_a_gang_with_a_member_that_the_node_could_not_start_goes_back_whole():
    scene = gang_of_which_one_did_not_start()

    scene.finish("gang", signal=15, task=1)

    assert scene.state("gang") == "scheduled"
    assert scene.job("gang").retries_used == 0


def test_a_job_that_is_cancelled_meanwhile_does_not_come_back():
    scene = gang_of_which_one_did_not_start()

    scene.cancel("gang")
    scene.finish("gang", signal=15, task=1)

    assert scene.state("gang") not in ("queued", "scheduled")


def test_three_starts_in_a_row_of_two_users_take_the_node_out_of_service_for_a_while():
    scene = one_out()

    (record,) = [r for r in scene.store.all_events() if isinstance(r.event, ev.NodeDrained)]

    assert box1(scene).drained
    assert box1(scene).note == (
        f"3 starts in a row failed here, the last one: {FULL}; it is tried again after 30s"
    )
    assert (record.actor, record.event.cools_s) == ("rota", record.at_s + 30)


def test_one_user_cannot_take_a_node_from_the_others():
    scene = two_nodes()

    for _ in range(8):
        fail_start(scene, "of alice")
        scene.pass_time(121)

    assert not box1(scene).drained


def test_the_only_user_with_work_is_not_sent_to_a_broken_node_for_ever():
    scene = Scene(nodes=2, starts=False)
    job = scene.submit("job")
    broken = scene.job(job).live_attempts[0].allocation.node

    for _ in range(3):
        fail_start(scene, job)
        scene.pass_time(2)

    (attempt,) = scene.job(job).live_attempts
    assert attempt.allocation.node != broken


def test_the_last_node_in_service_always_stays():
    scene = two_nodes()
    scene.disconnect("box2")

    for name in ("of alice", "of bob") * 4:
        fail_start(scene, name)
        scene.pass_time(121)

    assert not box1(scene).drained
    assert set(box1(scene).failed_starts) == {"alice", "bob"}


def test_a_node_on_trial_is_out_for_twice_as_long_when_the_next_start_fails():
    scene = one_out()

    out_s = []
    for _ in range(8):
        began_s = scene.now_s
        while box1(scene).drained:
            scene.pass_time(1)
        out_s.append(scene.now_s - began_s)
        scene.pass_time(121)
        fail_start(scene, "of bob")

    assert out_s == [30, 60, 120, 240, 480, 960, 1800, 1800]


def test_a_start_that_works_on_trial_clears_the_nodes_name():
    scene = one_out()
    scene.pass_time(30)

    scene.start("of bob")

    assert (box1(scene).drained, box1(scene).failed_starts, box1(scene).coolings) == (False, (), 0)


def test_a_node_that_an_operator_drains_meanwhile_does_not_come_back_by_itself():
    scene = one_out()

    drain(scene)
    scene.pass_time(3600)

    assert box1(scene).drained


def test_what_is_known_against_a_node_survives_a_restart():
    scene = one_out()

    scene.restart()
    out = box1(scene).drained
    scene.pass_time(30)

    assert (out, box1(scene).drained, box1(scene).coolings) == (True, False, 1)


def test_a_node_that_is_put_back_into_service_starts_with_a_clean_name():
    scene = one_out()

    drain(scene, drained=False)

    assert (box1(scene).drained, box1(scene).failed_starts, box1(scene).coolings) == (False, (), 0)


def test_replay_and_restart_know_the_same_of_a_node_that_failed():
    scene = one_out()

    log = list(scene.store.all_events())

    assert differences(fold(log, scene.cluster.ids.cluster_id), scene.cluster) == []
    assert differences(recover(scene.store.load()), scene.cluster) == []
