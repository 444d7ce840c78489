"""A job that found no room in time ends as unschedulable; what can never run is refused."""

import pytest

from rota.core.changes.events import AttemptPlaced
from rota.core.facts.errors import Rejected
from rota.core.facts.node import Device, NodeSpec
from rota.testing.scene import Scene


def test_a_job_that_found_no_room_in_time_ends_unschedulable_with_time_and_reason():
    scene = Scene(cpus=4)

    scene.submit("huge", cpus=100, scheduling_timeout_s=5)
    scene.pass_time(4.9)
    before = scene.state("huge")
    scene.pass_time(0.1)

    assert before == "queued"
    assert scene.state("huge") == "unschedulable"
    assert scene.job("huge").ended_s == 1005.0
    assert scene.cause("huge") == "scheduling_timeout: found no room within 5s"
    assert scene.names["huge"] not in scene.cluster.lanes.where


def test_the_deadline_is_looked_at_before_room_is_given():
    scene = Scene(cpus=1)
    scene.submit("runs", time_limit_s=10)
    scene.submit("waits", scheduling_timeout_s=10)

    scene.now_s += 10
    scene.finish("runs")

    assert scene.state("waits") == "unschedulable"
    assert [e.job for e in scene.log if isinstance(e, AttemptPlaced)] == [scene.names["runs"]]


def test_every_waiting_job_is_looked_at_not_only_the_first():
    scene = Scene(cpus=1)
    scene.submit("runs")
    jobs = [scene.submit(cpus=1, scheduling_timeout_s=5 + n) for n in range(3)]

    scene.pass_time(6)

    assert scene.states(*jobs) == ["unschedulable", "unschedulable", "queued"]


def test_no_timeout_waits_for_ever():
    scene = Scene(cpus=1)
    scene.submit("runs")
    scene.submit("patient", scheduling_timeout_s=0)

    scene.pass_time(10 * 365 * 86_400)

    assert scene.state("patient") == "queued"


def test_time_spent_held_or_waiting_for_a_parent_does_not_count():
    scene = Scene(cpus=1)
    scene.submit("parent")
    scene.submit("child", after={"parent": "after-ok"}, scheduling_timeout_s=5)
    scene.submit("held", hold=True, scheduling_timeout_s=5)

    scene.pass_time(100)

    assert scene.states("child", "held") == ["queued", "held"]


def test_a_job_that_was_held_has_its_whole_time_again_after_its_release():
    scene = Scene(cpus=1)
    scene.submit("runs")
    scene.submit("job", scheduling_timeout_s=10)
    scene.pass_time(9)
    scene.hold("job")
    scene.release("job")

    scene.pass_time(9)
    before = scene.state("job")
    scene.pass_time(1)

    assert before == "queued"
    assert scene.state("job") == "unschedulable"


def test_a_running_job_is_not_ended_by_its_scheduling_timeout():
    scene = Scene()
    scene.submit("job", scheduling_timeout_s=5)

    scene.pass_time(60)

    assert scene.is_running("job")


def test_a_timeout_given_by_an_update_counts_from_when_the_job_became_ready():
    scene = Scene(cpus=1)
    scene.submit("runs")
    scene.submit("job")
    scene.pass_time(7)

    scene.update("job", scheduling_timeout_s=10)
    scene.pass_time(3)

    assert scene.state("job") == "unschedulable"


def test_the_untouched_rest_of_an_array_times_out_as_a_whole():
    scene = Scene(cpus=2)
    array = scene.submit("array", array="0-9", scheduling_timeout_s=5)

    scene.pass_time(5)

    assert scene.states(array + 1, array + 2) == ["running", "running"]
    assert set(scene.states(*range(array + 3, array + 11))) == {"unschedulable"}


@pytest.mark.parametrize(
    ("wishes", "field", "says"),
    [
        ({"gpus": 99}, "resources.gpus", "no node has more than 4 GPUs"),
        ({"cpus": 9}, "resources.cpus", "the largest node has 8 CPUs"),
        ({"mem": 1001}, "resources.memory_mib", "the largest node has 1000 MiB"),
        ({"disk": 501}, "resources.disk_mib", "the largest node has 500 MiB"),
        ({"tpus": 1}, "resources.tpus", "no node has more than 4 GPUs"),
        ({"gpus": 1, "gpu_type": "H100"}, "resources.gpu_type", "A100"),
        ({"gpus": 1, "gpu_mem": 40961}, "resources.gpu_memory_mib", "A100"),
        ({"tasks": 3, "cpus": 4}, "tasks", "do not fit here"),
    ],
)
def test_what_no_node_can_ever_run_is_refused_naming_the_dimension(wishes, field, says):
    scene = Scene(cpus=8, memory_mib=1000, disk_mib=500, gpus=4)

    with pytest.raises(Rejected, match=says) as refusal:
        scene.submit("never", **wishes)

    assert refusal.value.field == field
    assert scene.cluster.ids.next == 1


def test_a_job_for_a_busy_or_drained_or_absent_node_is_possible_and_taken():
    scene = Scene(nodes=1, cpus=4)
    scene.submit("runs", cpus=4)
    scene.disconnect("box")

    scene.submit("later", cpus=4)

    assert scene.state("later") == "queued"


def test_before_any_node_has_registered_everything_is_taken():
    scene = Scene(nodes=0)

    scene.submit("early", gpus=99)

    assert scene.state("early") == "queued"


def test_an_impossible_job_that_sets_a_timeout_may_wait_for_a_larger_node():
    scene = Scene(cpus=4)
    scene.submit("big", cpus=8, scheduling_timeout_s=60)

    scene.add_node(NodeSpec("larger", 8000, 1000, cpus=tuple(range(8))))

    assert scene.is_running("big")


def test_an_update_cannot_make_a_job_impossible():
    scene = Scene(cpus=4)
    scene.submit("runs", cpus=4)
    scene.submit("job", cpus=4)
    scene.submit("hopeful", cpus=5, scheduling_timeout_s=60)

    with pytest.raises(Rejected, match=r"resources\.cpus"):
        scene.update("job", roles=scene.submission(cpus=5).spec.roles)
    with pytest.raises(Rejected, match=r"resources\.cpus"):
        scene.update("hopeful", scheduling_timeout_s=0)

    assert scene.job("job").spec.request.cpu_milli == 4000


def test_several_nodes_together_can_hold_a_gang_that_none_of_them_could():
    scene = Scene(nodes=2, cpus=4)

    scene.submit("gang", tasks=4, cpus=2)

    assert scene.is_running("gang")


def test_the_other_kinds_of_device_do_not_make_a_job_possible():
    scene = Scene(nodes=0)
    scene.add_node(NodeSpec("pod", 4000, 1000, devices=(Device(index=0, uuid="t", kind="tpu"),)))

    scene.submit("tpu job", tpus=1)

    assert scene.is_running("tpu job")
    with pytest.raises(Rejected):
        scene.submit("gpu job", gpus=1)
