"""What measuring finds about GPUs is on record, told once, and counted in the next placement."""

from __future__ import annotations

import pytest

from rota.controller.commands.commands import Idle, NoteGpus
from rota.core.changes import events as ev
from rota.core.changes import gpu_events as gpu
from rota.core.facts.gpu_use import FAULT_S, Overuse
from rota.core.facts.states import JobState
from rota.testing.scene import ADMIN, Scene

GIB = 1024


def note(scene: Scene, **findings: object) -> None:
    scene.ask(NoteGpus(actor=ADMIN, node="box", **findings))


def uid_of(scene: Scene, name: str) -> str:
    return scene.job(name).tasks[0].attempts[-1].uid


def shared(scene: Scene, name: str, gib: int) -> str:
    scene.submit(name, gpus=1, gpu_mem=gib * GIB, shared=True)
    return uid_of(scene, name)


def events(scene: Scene, kind: type) -> list[ev.AnyEvent]:
    return [event for event in scene.log if isinstance(event, kind)]


@pytest.fixture
def scene() -> Scene:
    """One node with one GPU of 40 GiB."""
    return Scene(gpus=1)


def test_placement_counts_the_larger_of_declared_and_measured(scene: Scene):
    greedy = shared(scene, "greedy", 10)
    note(scene, overuse=(Overuse(greedy, 0, 31 * GIB),))

    for name, gib in (("large", 20), ("small", 8)):
        scene.submit(name, gpus=1, gpu_mem=gib * GIB, shared=True)

    assert scene.states("large", "small") == ["queued", "running"]


def test_less_than_declared_changes_nothing(scene: Scene):
    meek = shared(scene, "meek", 30)
    note(scene, overuse=(Overuse(meek, 0, 2 * GIB),))

    shared_after = scene.submit("second", gpus=1, gpu_mem=20 * GIB, shared=True)

    assert scene.job(shared_after).state is JobState.QUEUED


def test_the_room_is_there_again_when_the_job_has_gone_also_after_a_restart(scene: Scene):
    greedy = shared(scene, "greedy", 10)
    note(scene, overuse=(Overuse(greedy, 0, 31 * GIB),))
    scene.restart()
    scene.submit("large", gpus=1, gpu_mem=20 * GIB, shared=True)
    waits = scene.states("large")

    scene.finish("greedy")

    assert waits == ["queued"]
    assert scene.states("large") == ["running"]
    assert scene.cluster.nodes["box"].overuse == ()


def test_a_gpu_that_a_job_uses_without_having_it_is_not_given_to_others_alone():
    scene = Scene(gpus=2)
    scene.submit("first", gpus=1)
    uid = uid_of(scene, "first")
    other = 1 - scene.job("first").tasks[0].attempts[-1].allocation.devices[0]

    note(scene, overuse=(Overuse(uid, other, 9 * GIB),))
    scene.submit("alone", gpus=1)
    scene.submit("beside", gpus=1, gpu_mem=20 * GIB, shared=True)

    assert scene.states("alone", "beside") == ["queued", "running"]


def test_its_owner_is_told_once_however_often_it_is_found(scene: Scene):
    greedy = shared(scene, "greedy", 10)

    for gib in (20, 31, 31):
        note(scene, overuse=(Overuse(greedy, 0, gib * GIB),))

    assert len(events(scene, gpu.OveruseSeen)) == 2, "what has not changed is no event"
    assert [(e.memory_mib, e.declared_mib) for e in events(scene, gpu.GpuOverused)] == [
        (20 * GIB, 10 * GIB)
    ]


def test_a_site_that_ends_overuse_gives_the_cause(scene: Scene):
    greedy = shared(scene, "greedy", 10)

    note(scene, overuse=(Overuse(greedy, 0, 31 * GIB),), ends=True)
    scene.finish("greedy", None, signal=15)

    outcome = scene.job("greedy").outcome
    assert outcome is not None
    assert (outcome.state, outcome.cause) == ("failed", "out_of_memory")
    assert outcome.detail == "holds 31G on GPU 0, asked for 10G"


def test_what_has_ended_meanwhile_is_left_out(scene: Scene):
    greedy = shared(scene, "greedy", 10)
    scene.finish("greedy")

    note(
        scene,
        overuse=(Overuse(greedy, 0, 31 * GIB),),
        idle=(Idle(greedy, (0,), scene.now_s),),
        ends=True,
    )

    assert events(scene, gpu.GpuOverused) == events(scene, gpu.GpuIdle) == []


def test_an_owner_hears_once_of_idle_gpus_and_again_after_a_new_try(scene: Scene):
    scene.submit("idler", gpus=1, retries=1)
    for _ in range(2):
        note(scene, idle=(Idle(uid_of(scene, "idler"), (0,), scene.now_s),))
    scene.finish("idler", 1)
    scene.pass_time(3600)

    note(scene, idle=(Idle(uid_of(scene, "idler"), (0,), scene.now_s),))

    assert [event.uid[-1] for event in events(scene, gpu.GpuIdle)] == ["1", "2"]


def test_a_device_is_taken_out_after_several_failures_within_a_day_and_alone():
    scene = Scene(gpus=2)
    uuid = scene.cluster.nodes["box"].spec.devices[1].uuid

    note(scene, faults=((uuid, "Xid 79"),), failures=3)
    scene.pass_time(FAULT_S + 1)
    for _ in range(2):
        note(scene, faults=((uuid, "Xid 48"),), failures=3)
    early = scene.cluster.nodes["box"].closed
    note(scene, faults=((uuid, "Xid 79"),), failures=3)
    scene.submit("job", gpus=1)

    node = scene.cluster.nodes["box"]
    assert early == (), "the failure of the day before says nothing any more"
    assert node.closed == (uuid,)
    assert not node.drained
    assert node.note == (
        "quarantined: GPU 1 reported 3 failures within a day, the last one: Xid 79; "
        "'rota node resume box' lifts it"
    )
    assert scene.job("job").tasks[0].attempts[0].allocation.devices == (0,)


def test_without_such_a_setting_no_failure_takes_a_device_out(scene: Scene):
    uuid = scene.cluster.nodes["box"].spec.devices[0].uuid

    for _ in range(5):
        note(scene, faults=((uuid, "Xid 79"),), failures=0)

    assert scene.cluster.nodes["box"].closed == ()
    assert len(scene.cluster.nodes["box"].faults) == 5
