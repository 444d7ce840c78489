"""Which devices Rota may use: what operators close, which strangers count, how it chooses."""

import pytest

from rota.controller.commands import commands as cmd
from rota.core.facts.errors import Forbidden, Rejected
from rota.core.facts.node import ForeignUse
from rota.testing.scene import ALICE, OPERATOR, Scene

XORG = ForeignUse(0, 4242, "bob", 9000)
PEER = ForeignUse(1, 4343, "bob", 100)


def mark(scene, *, actor=OPERATOR, **marks):
    return scene.ask(cmd.MarkNode(actor=actor, node="box", **marks))


def granted(scene, job):
    return [attempt.allocation.devices for attempt in scene.job(job).live_attempts]


def test_jobs_get_only_the_devices_that_are_open():
    scene = Scene(cpus=8, gpus=4)

    mark(scene, devices=(1, 3))
    scene.submit("one", gpus=1)
    scene.submit("two", gpus=1)
    scene.submit("three", gpus=1)

    assert granted(scene, "one") + granted(scene, "two") == [(1,), (3,)]
    assert scene.state("three") == "queued"


def test_what_runs_on_a_device_that_is_closed_goes_on_and_nothing_follows_it():
    scene = Scene(cpus=8, gpus=2)
    scene.submit("runs", gpus=2)

    mark(scene, devices=(0,))
    scene.submit("next", gpus=1)
    scene.submit("last", gpus=1)
    kept = granted(scene, "runs")
    scene.finish("runs")

    assert kept == [(0, 1)]
    assert granted(scene, "next") == [(0,)]
    assert scene.state("last") == "queued"


def test_shared_jobs_stay_off_closed_devices_too():
    scene = Scene(cpus=8, gpus=2)
    mark(scene, devices=(1,))

    scene.submit("a", gpus=1, shared=True, gpu_mem=1024)
    scene.submit("b", gpus=1, shared=True, gpu_mem=1024)

    assert granted(scene, "a") == granted(scene, "b") == [(1,)]


def test_opening_all_devices_again_lets_waiting_jobs_start():
    scene = Scene(cpus=8, gpus=2)
    scene.submit("pair", gpus=2, hold=True)
    mark(scene, devices=(0,))
    scene.release("pair")
    before = (scene.state("pair"), scene.why("pair"))

    mark(scene, devices=())

    assert before[0] == "queued"
    assert "1 closed" in before[1]
    assert granted(scene, "pair") == [(0, 1)]


def test_a_device_that_others_have_is_said_to_be_used_elsewhere():
    scene = Scene(cpus=8, gpus=3)
    scene.submit("three", gpus=3, hold=True)
    mark(scene, devices=(0, 1))
    scene.ask(cmd.SetElsewhere(actor=OPERATOR, nodes={"box": ("fake-1",)}))

    scene.release("three")

    assert "has 1 of the 3 gpus (1 closed, 1 used elsewhere)" in scene.why("three")


def test_more_than_the_open_devices_is_refused_at_submit():
    scene = Scene(cpus=8, gpus=2)
    mark(scene, devices=(0,))

    with pytest.raises(Rejected, match="no node has more than 1 GPU"):
        scene.submit("pair", gpus=2)


def test_the_choice_survives_restarts_of_controller_and_agent():
    scene = Scene(cpus=8, gpus=2)
    mark(scene, devices=(1,))

    scene.restart()
    scene.disconnect("box")
    scene.connect("box", boot_id="b2")
    scene.submit("job", gpus=1)

    assert granted(scene, "job") == [(1,)]
    assert [device.closed for device in scene.cluster.nodes["box"].spec.devices] == [True, False]


def test_a_device_that_does_not_exist_cannot_be_chosen():
    scene = Scene(gpus=2)

    with pytest.raises(Rejected, match="node box has no device 7; it has 0, 1"):
        mark(scene, devices=(0, 7))


def test_only_operators_choose_devices_and_ignore_processes():
    scene = Scene(gpus=2)
    scene.see_strangers("box", XORG)

    with pytest.raises(Forbidden):
        mark(scene, actor=ALICE, devices=(0,))
    with pytest.raises(Forbidden):
        mark(scene, actor=ALICE, ignore=(4242,))


def test_a_process_that_is_ignored_does_not_keep_a_job_from_its_device():
    scene = Scene(cpus=8, gpus=1)
    scene.see_strangers("box", XORG)
    scene.submit("job", gpus=1)
    before = scene.state("job")

    mark(scene, ignore=(4242,))

    assert before == "queued"
    assert granted(scene, "job") == [(0,)]


def test_a_process_that_counts_again_keeps_the_next_job_away():
    scene = Scene(cpus=8, gpus=1)
    scene.see_strangers("box", XORG)
    mark(scene, ignore=(4242,))
    scene.submit("job", gpus=1)

    mark(scene, unignore=(4242,))
    scene.submit("next", gpus=1)
    scene.finish("job")

    assert scene.state("next") == "queued"
    assert "1 in use by processes outside Rota" in scene_lines(scene, "next")


def scene_lines(scene, job):
    from rota.scheduling.answers.explain import explain

    return "\n".join(explain(scene.controller.scheduler, scene.names[job], scene.now_s).lines)


def test_a_pid_that_went_and_came_back_counts_again():
    scene = Scene(cpus=8, gpus=2)
    scene.see_strangers("box", XORG, PEER)
    mark(scene, ignore=(4242, 4343))

    scene.see_strangers("box", PEER)
    scene.see_strangers("box", XORG, PEER)
    scene.submit("one", gpus=1)
    scene.submit("two", gpus=1)

    assert granted(scene, "one") == [(1,)]
    assert scene.state("two") == "queued"


def test_only_a_process_that_is_there_can_be_ignored():
    scene = Scene(gpus=1)
    scene.see_strangers("box", XORG)

    with pytest.raises(Rejected, match="processes outside Rota on node box: 4242"):
        mark(scene, ignore=(1,))
    with pytest.raises(Rejected, match="ignored processes on node box: none"):
        mark(scene, unignore=(4242,))


def test_a_process_that_the_agent_does_not_mind_takes_no_device_and_no_memory():
    scene = Scene(cpus=8, gpus=1, gpu_memory_mib=40960)
    scene.see_strangers("box", ForeignUse(0, 1, "root", 300, ignored=True))

    scene.submit("job", gpus=1, shared=True, gpu_mem=40960)

    assert granted(scene, "job") == [(0,)]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("numa", [(0,), (2, 3)]),
        ("sequential", [(0,), (1, 2)]),
    ],
)
def test_the_policy_says_how_devices_are_chosen(how, expected):
    """Four devices, two in each domain: a pair stays together unless low numbers come first."""
    scene = Scene(cpus=8, gpus=4)
    scene.set_policy(place_devices=how)

    scene.submit("one", gpus=1)
    scene.submit("pair", gpus=2)

    assert granted(scene, "one") + granted(scene, "pair") == expected


def test_a_random_choice_differs_between_jobs_and_is_the_same_in_every_replay():
    def play():
        scene = Scene(cpus=32, gpus=8)
        scene.set_policy(place_devices="random")
        firsts = []
        for number in range(12):
            scene.submit(f"job{number}", gpus=1)
            firsts += granted(scene, f"job{number}")
            scene.finish(f"job{number}")
        return firsts

    first, second = play(), play()

    assert first == second
    assert len(set(first)) > 2
