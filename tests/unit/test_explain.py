"""Every job that waits can say why, and says the true cause."""

import pytest

from rota.controller import commands as cmd
from rota.core.node import Device, ForeignUse, NodeSpec
from rota.core.states import QueueState
from rota.core.tenant import Queue
from rota.scheduling.explain import Explanation, explain
from rota.testing.scene import OPERATOR, Scene


def story(scene: Scene, job: str | int) -> Explanation:
    return explain(scene.cluster, scene.names.get(job, job), scene.now_s)


def test_a_held_job_says_so_and_how_to_release_it():
    scene = Scene()
    job = scene.submit("job", hold=True)

    told = story(scene, "job")

    assert told.reason == "held"
    assert told.help == [f"release it: rota release {job}"]


def test_a_job_names_the_parent_that_it_waits_for_and_its_state():
    scene = Scene()
    done = scene.submit("done")
    scene.finish("done")
    parent = scene.submit("parent")
    scene.submit("child", after={"done": "after-ok", "parent": "after-ok"})

    told = story(scene, "child")

    assert told.reason == f"waits for job {parent} (running)"
    assert told.lines == [f"it depends on job {parent} (after-ok), which is running"]
    assert str(done) not in told.reason


def test_a_job_without_hope_that_keeps_waiting_says_that_it_can_never_start():
    scene = Scene()
    parent = scene.submit("parent")
    scene.finish("parent", code=1)
    scene.submit("child", after={"parent": "after-ok"}, keep_waiting=True)

    assert scene.why("child") == f"job {parent} failed: can never start"


@pytest.mark.parametrize(("wait_s", "words"), [(90, "1m30s"), (3600, "1h")])
def test_a_begin_time_is_told_as_the_time_that_is_left(wait_s, words):
    scene = Scene()

    scene.submit("job", begin_s=scene.now_s + wait_s)

    assert scene.why("job") == f"begin time in {words}"


def test_a_job_between_two_tries_says_when_the_next_one_is():
    scene = Scene()
    scene.submit("job", retries=1, backoff_s=30)
    scene.finish("job", code=1)

    assert scene.why("job") == "next try in 30s"


@pytest.mark.parametrize("state", [QueueState.PAUSED, QueueState.CLOSED])
def test_a_queue_that_does_not_start_jobs_is_named(state):
    scene = Scene(cpus=1)
    scene.submit("hog")
    scene.submit("job")

    scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="default", state=state)))

    assert scene.why("job") == f"queue default is {state}"


def test_a_full_group_is_named_with_its_cap():
    scene = Scene(cpus=8)
    scene.submit("a", group="g", group_cap=1)
    scene.submit("b", group="g")

    told = story(scene, "b")

    assert told.reason == "group g runs 1 of at most 1"
    assert told.help == ["raise the cap of group g"]


def test_a_full_array_and_a_full_queue_are_named():
    scene = Scene(cpus=8)
    scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="side", max_running=1)))
    array = scene.submit("array", array="0-3%2")
    scene.submit("a", queue="side")
    scene.submit("b", queue="side")

    assert scene.why(array + 3) == f"array {array} runs 2 of at most 2"
    assert scene.why("b") == "queue side runs 1 of at most 1"


@pytest.mark.parametrize(
    ("wishes", "reason", "line"),
    [
        ({"cpus": 3}, "not enough free cpus", "needs 3 CPUs, 2 of 4 free"),
        ({"mem": 600}, "not enough free memory", "needs 600M of memory, 500M of 1000M free"),
        ({"disk": 600}, "not enough free disk", "needs 600M of disk, 500M free"),
        ({"gpus": 2}, "not enough free gpus", "needs 2 x gpu, 1 of 2 free for it"),
        (
            {"gpus": 1, "gpu_mem": 30000, "shared": True, "cpus": 1, "priority": 1},
            "not enough free gpus",
            "needs 1 x gpu, 0 of 2 free for it",
        ),
    ],
)
def test_the_dimension_that_is_short_is_named_with_need_and_rest(wishes, reason, line):
    scene = Scene(cpus=4, memory_mib=1000, disk_mib=1000, gpus=2)
    scene.submit("hog", cpus=2, mem=500, disk=500, gpus=1)
    if wishes.get("shared"):
        scene.submit("sharer", cpus=1, gpus=1, gpu_mem=20000, shared=True)

    scene.submit("job", **({"cpus": 1} | wishes))

    told = story(scene, "job")
    assert told.reason == reason
    assert told.lines[0] == f"node box: {line}"


def test_a_card_that_strangers_use_is_part_of_the_story():
    scene = Scene(gpus=1)
    scene.see_strangers("box", ForeignUse(0, 77, "eve", 100))

    scene.submit("job", gpus=1)

    assert story(scene, "job").lines == [
        "node box: needs 1 x gpu, 0 of 1 free for it; 1 in use by processes outside Rota"
    ]


def test_a_node_that_could_never_take_the_job_is_not_the_reason():
    scene = Scene(nodes=0)
    scene.add_node(NodeSpec("a-plain", 8000, 100))
    scene.add_node(NodeSpec("b-cards", 2000, 100, devices=(Device(index=0, uuid="g"),)))
    scene.submit("hog", cpus=2, gpus=1)

    scene.submit("job", cpus=1, gpus=1)

    told = story(scene, "job")
    assert told.reason == "not enough free cpus"
    assert told.lines[0] == "node a-plain: needs 1 x gpu, 0 of 0 free for it"


def test_the_only_node_with_the_devices_being_drained_is_the_reason():
    scene = Scene(nodes=0)
    scene.add_node(NodeSpec("a-plain", 8000, 100))
    scene.add_node(NodeSpec("b-cards", 2000, 100, devices=(Device(index=0, uuid="g"),)))
    scene.ask(cmd.DrainNode(actor=OPERATOR, node="b-cards", drained=True, note="new fans"))

    scene.submit("job", gpus=1)

    assert scene.why("job") == "node b-cards is drained (new fans)"


def test_a_type_that_nobody_has_is_named():
    scene = Scene(gpus=1, gpu_model="A100")

    scene.submit("job", gpus=1, gpu_type="H100", scheduling_timeout_s=60)

    assert scene.why("job") == "no gpu of type H100"
    assert story(scene, "job").help == ["ask for another gpu type"]


def test_nodes_that_are_away_are_named():
    scene = Scene()
    scene.disconnect("box")
    scene.submit("job")

    told = story(scene, "job")

    assert told.reason == "node box is down (its agent is not connected)"
    assert told.help == ["bring a node back: rota nodes, rota doctor"]


def test_before_any_node_has_registered_that_is_the_reason():
    scene = Scene(nodes=0)
    scene.submit("job")

    assert scene.why("job") == "no node has registered"


def test_a_gang_says_that_there_is_room_for_some_of_it_only():
    scene = Scene(cpus=4)
    scene.submit("hog", cpus=2)
    scene.submit("gang", tasks=3)

    told = story(scene, "gang")

    assert told.reason == "no room for all of its 3 tasks"
    assert told.lines[0] == "node box has room for some of its 3 tasks"


def test_those_ahead_are_counted_one_by_one_by_queue_and_priority():
    scene = Scene(cpus=1)
    scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="express", priority=90)))
    scene.submit("hog")
    scene.submit("array", array="0-8")
    scene.submit("behind", priority=10)
    scene.submit("job", priority=40)
    scene.submit("express", queue="express", priority=0)

    assert story(scene, "job").lines[-1] == "10 waiting jobs are ahead of it"
    assert story(scene, "express").lines == ["node box: needs 1 CPUs, 0 of 1 free"]


def test_the_latest_end_of_a_running_job_is_told_as_a_time_from_now():
    scene = Scene(cpus=1)
    scene.submit("hog", time_limit_s=100)
    scene.submit("job")
    scene.pass_time(40)

    assert story(scene, "job").help == [
        "ask for fewer cpus",
        "wait: the first running job with a limit ends within 1m",
    ]


def test_active_jobs_say_where_they_are_and_what_stops_them():
    scene = Scene(starts=False)
    scene.submit("job")
    starting = scene.why("job")
    scene.start("job")
    running = scene.why("job")

    scene.cancel("job")

    assert (starting, running) == ("starting on box", "running on box")
    assert scene.why("job") == "stopping on box: cancelled"


def test_an_ended_job_says_how_it_ended():
    scene = Scene()
    scene.submit("job")
    scene.finish("job")

    assert scene.why("job") == "it is completed"
