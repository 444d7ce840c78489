"""From an allocation to a launch: what an agent is told to run, where, and with which variables."""

import pytest

from rota.controller.commands import commands as cmd
from rota.controller.launches.launch import encode_environment, saved_work
from rota.core.facts.checkpoint import Checkpoint
from rota.core.facts.node import Device, NodeSpec
from rota.rpc.messages import Saved
from rota.testing.scene import ALICE, Scene


def variables(scene: Scene, job: int | str, task: int = 0) -> dict[str, str]:
    return scene.launch(job, task).environment


def test_a_job_finds_out_who_it_is_and_what_it_got():
    scene = Scene(cpus=4, gpus=4)

    job = scene.submit("train", cpus=2, mem=300, gpus=2)

    found = variables(scene, "train")
    expected = {
        "ROTA_JOB_ID": str(job),
        "ROTA_JOB_NAME": "train",
        "ROTA_TASK_INDEX": "0",
        "ROTA_NUM_TASKS": "1",
        "ROTA_ATTEMPT": "1",
        "ROTA_ATTEMPT_UID": "u2.0.1",
        "ROTA_NODELIST": "box",
        "ROTA_CPUS": "2",
        "ROTA_MEM_MB": "300",
        "ROTA_GPUS": "0,1",
        "ROTA_RESUME": "0",
        "SLURM_JOB_ID": str(job),
        "SLURM_JOB_NAME": "train",
        "SLURM_PROCID": "0",
        "SLURM_NTASKS": "1",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_JOB_NODELIST": "box",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert "ROTA_ARRAY_ID" not in found
    assert "ROTA_TIME_LIMIT_S" not in found


def test_a_job_knows_how_long_it_may_run() -> None:
    scene = Scene()
    scene.submit("train", time_limit_s=5400)

    assert variables(scene, "train")["ROTA_TIME_LIMIT_S"] == "5400"


def test_an_element_finds_its_array_and_index():
    scene = Scene()

    array = scene.submit("array", array="7-9:2")

    found = variables(scene, array + 2)
    assert (found["ROTA_ARRAY_ID"], found["ROTA_ARRAY_INDEX"]) == (str(array), "9")
    assert (found["SLURM_ARRAY_JOB_ID"], found["SLURM_ARRAY_TASK_ID"]) == (str(array), "9")
    assert found["ROTA_JOB_ID"] == str(array + 2)


def test_a_task_of_a_gang_finds_its_rank_and_all_nodes():
    scene = Scene(nodes=2, cpus=1)

    scene.submit("gang", tasks=2)

    found = variables(scene, "gang", task=1)
    assert (found["ROTA_TASK_INDEX"], found["ROTA_NUM_TASKS"]) == ("1", "2")
    assert found["ROTA_NODELIST"] == "box1,box2"


def test_a_second_attempt_knows_that_it_is_one():
    scene = Scene()
    scene.submit("job", retries=1, backoff_s=0)

    scene.finish("job", code=1)

    found = variables(scene, "job")
    assert (found["ROTA_ATTEMPT"], found["ROTA_RESUME"]) == ("2", "0")
    assert found["SLURM_RESTART_COUNT"] == "1"


def test_an_attempt_resumes_when_an_earlier_one_reported_a_checkpoint():
    scene = Scene()
    scene.submit("job", retries=2, backoff_s=0)
    saved = Checkpoint(0.0, step=100, path="step-100")
    scene.ask(cmd.ReportCheckpoint(actor=ALICE, job=scene.names["job"], record=saved))

    scene.finish("job", code=1)
    second = variables(scene, "job")["ROTA_RESUME"]
    scene.finish("job", code=1)

    assert (second, variables(scene, "job")["ROTA_RESUME"]) == ("1", "1")
    (record,) = scene.job("job").checkpoints
    assert (record.attempt, record.step, record.path) == (1, 100, "step-100")


def test_the_latest_checkpoints_are_remembered_and_a_path_stands_once():
    scene = Scene()
    scene.submit("job")
    job = scene.names["job"]

    for path in ("a", "b", "c", "b"):
        scene.pass_time(1)
        record = Checkpoint(0.0, path=path)
        scene.ask(cmd.ReportCheckpoint(actor=ALICE, job=job, record=record, keep=2))

    assert [record.path for record in scene.job("job").checkpoints] == ["c", "b"]


def test_the_folder_of_saved_work_stays_with_a_job_and_its_copy_has_the_same_name():
    scene = Scene()
    scene.submit("job")
    job = scene.job("job")
    places = {"ROTA_CHECKPOINT_DIR": "/ckpt", "ROTA_CHECKPOINT_STORE": "s3://b/p"}

    first, later = saved_work(job, places), saved_work(job, places, attempt=2)

    name = f"{job.id}-{job.uid[:8]}"
    assert first == Saved(f"/ckpt/{name}", f"s3://b/p/{name}")
    assert later == Saved(f"/ckpt/{name}", f"s3://b/p/{name}", attempt=2)


def test_of_a_gang_one_task_copies_what_was_saved():
    scene = Scene()
    scene.submit("gang", tasks=2)
    places = {"ROTA_CHECKPOINT_DIR": "/ckpt", "ROTA_CHECKPOINT_STORE": "s3://b"}

    tasks = [saved_work(scene.job("gang"), places, task=task) for task in (0, 1)]

    assert [task.copies for task in tasks if task is not None] == [True, False]


def test_a_job_sees_the_devices_that_it_was_granted():
    scene = Scene(gpus=4)
    scene.submit("first", gpus=2)

    scene.submit("second", gpus=2)

    assert variables(scene, "first")["CUDA_VISIBLE_DEVICES"] == "0,1"
    found = variables(scene, "second")
    assert found["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert found["HIP_VISIBLE_DEVICES"] == found["ROCR_VISIBLE_DEVICES"] == "2,3"
    assert found["NVIDIA_VISIBLE_DEVICES"] == "2,3"
    assert found["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def fenced_node(*uuids: str) -> NodeSpec:
    devices = tuple(Device(index=at, uuid=uuid) for at, uuid in enumerate(uuids))
    return NodeSpec("n1", 8000, 1000, devices=devices, fenced=True)


def test_behind_a_fence_a_job_counts_its_devices_from_0():
    scene = Scene(nodes=0)
    scene.add_node(fenced_node("a", "b", "c", "d"))
    scene.submit("first", gpus=1)

    scene.submit("second", gpus=2)

    found = variables(scene, "second")
    assert found["CUDA_VISIBLE_DEVICES"] == found["HIP_VISIBLE_DEVICES"] == "0,1"
    assert found["NVIDIA_VISIBLE_DEVICES"] == found["ROCR_VISIBLE_DEVICES"] == "0,1"
    assert found["ROTA_GPUS"] == found["SLURM_JOB_GPUS"] != "0,1"


def test_an_instance_of_a_card_is_named_by_its_uuid():
    scene = Scene(nodes=0)
    scene.add_node(fenced_node("MIG-a", "MIG-b"))

    scene.submit("job", gpus=1)

    assert variables(scene, "job")["CUDA_VISIBLE_DEVICES"] == "MIG-a"
    assert variables(scene, "job")["ROTA_GPUS"] == "0"


def test_an_agent_is_told_which_devices_an_attempt_was_given():
    scene = Scene(gpus=2)
    scene.submit("first", gpus=1)

    scene.submit("second", gpus=1)

    assert scene.launch("first").devices == (0,)
    assert scene.launch("second").devices == (1,)


def test_a_job_without_devices_on_a_node_that_has_some_sees_none():
    scene = Scene(gpus=2)

    scene.submit("plain", variables={"CUDA_VISIBLE_DEVICES": "0"})

    assert variables(scene, "plain")["CUDA_VISIBLE_DEVICES"] == ""
    assert variables(scene, "plain")["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_a_node_without_gpus_leaves_the_variables_of_devices_alone():
    scene = Scene()

    scene.submit("plain")

    assert "CUDA_VISIBLE_DEVICES" not in variables(scene, "plain")


def test_tpus_are_listed_and_are_no_cuda_devices():
    scene = Scene(nodes=0)
    chips = tuple(Device(index=i, uuid=f"t{i}", kind="tpu") for i in range(2))
    scene.add_node(NodeSpec("pod", 4000, 100, devices=chips))

    scene.submit("job", tpus=2)

    assert variables(scene, "job")["ROTA_GPUS"] == "0,1"
    assert "CUDA_VISIBLE_DEVICES" not in variables(scene, "job")


def test_the_captured_environment_is_overlaid_by_given_variables_and_then_by_ours():
    scene = Scene()
    captured = encode_environment({"HOME": "/home/alice", "MODE": "old", "ROTA_JOB_ID": "666"})

    job = scene.submit(
        "job", environment="e1", blobs={"e1": captured}, variables={"MODE": "new", "LR": "1"}
    )

    found = variables(scene, "job")
    assert (found["HOME"], found["MODE"], found["LR"]) == ("/home/alice", "new", "1")
    assert found["ROTA_JOB_ID"] == str(job)


def test_what_was_stored_is_found_again_by_a_launch_after_a_restart():
    scene = Scene(cpus=1)
    scene.submit("hog")
    blobs = {"s": b"#!/bin/sh\n", "i": b"input\0bytes", "e": encode_environment({"A": "1"})}
    scene.submit(
        "job", script="s", script_args=("x y", "z"), stdin="i", environment="e", blobs=blobs
    )

    scene.restart()
    scene.finish("hog")

    launch = scene.launch("job")
    assert (launch.script, launch.stdin) == (b"#!/bin/sh\n", b"input\0bytes")
    assert launch.argv == ("x y", "z")
    assert launch.environment["A"] == "1"


def test_arguments_reach_the_agent_word_by_word():
    scene = Scene()
    words = ("sh", "-c", "echo 'a  b' \"$X\" # not a comment", "", "ünï", "{not a slot}", "%j")

    scene.submit("job", command=words)

    assert scene.launch("job").argv == words


def sweep(**wishes) -> Scene:
    scene = Scene()
    scene.submit(
        "sweep",
        array="0-1",
        parameters=("lr", "opt"),
        rows=(("0.1", "adam"), ("0.2", "{lr}")),
        **wishes,
    )
    return scene


def test_the_values_of_a_sweep_take_the_place_of_their_names():
    scene = sweep(command=("train", "--lr={lr}", "{opt}-{index}", "{unknown}", "{lr"))

    array = scene.names["sweep"]
    assert scene.launch(array + 1).argv == ("train", "--lr=0.1", "adam-0", "{unknown}", "{lr")


def test_a_value_that_looks_like_a_slot_is_not_filled_in_again():
    scene = sweep(command=("{opt}", "{lr}"))

    assert scene.launch(scene.names["sweep"] + 2).argv == ("{lr}", "0.2")


def test_the_values_of_a_sweep_are_variables_too_and_fill_the_name():
    scene = sweep()
    array = scene.names["sweep"]
    scene.submit("run-{lr}", array="0-0", parameters=("lr",), rows=(("7",),))

    found = variables(scene, array + 1)
    named = variables(scene, scene.names["run-{lr}"] + 1)

    assert (found["ROTA_PARAM_lr"], found["ROTA_PARAM_opt"]) == ("0.1", "adam")
    assert named["ROTA_JOB_NAME"] == "run-7"


def test_a_sweep_survives_a_restart_before_its_elements_start():
    scene = Scene(cpus=1)
    scene.submit("hog")
    array = scene.submit(
        "s", array="0-1", parameters=("lr",), rows=(("0.1",), ("0.2",)), command=("{lr}",)
    )

    scene.restart()
    scene.finish("hog")
    scene.finish(array + 1)

    assert scene.launch(array + 2).argv == ("0.2",)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("", ""),
        ("/logs/%j.out", "/logs/5.out"),
        ("out-%A_%a.txt", "/home/alice/out-3_4.txt"),
        ("%x/%u/%t", "/home/alice/name/alice/0"),
        ("100%%-%q-%", "/home/alice/100%-%q-%"),
        ("{lr}/{index}.log", "/home/alice/0.%j/4.log"),
    ],
)
def test_output_goes_where_the_pattern_says(pattern, path):
    scene = Scene()
    scene.submit("one")
    scene.submit("two")

    array = scene.submit(
        "name",
        array="3-4",
        workdir="/home/alice/",
        output=pattern,
        parameters=("lr",),
        rows=(("x",), ("0.%j",)),
    )

    assert array == 3
    assert scene.launch(array + 2).stdout == path


def test_stderr_goes_its_own_way():
    scene = Scene()

    scene.submit("job", output="/logs/out", error="/logs/err-%j")

    assert scene.launch("job").stdout == "/logs/out"
    assert scene.launch("job").stderr == "/logs/err-1"


def test_what_binds_the_process_travels_with_it():
    scene = Scene(cpus=4)

    scene.submit("job", cpus=2, mem=100, umask=0o077, ulimits={"nofile": 64}, grace_s=7)

    launch = scene.launch("job")
    assert (launch.cpus, launch.cpu_milli, launch.memory_mib) == ((0, 1), 2000, 100)
    assert (launch.umask, launch.ulimits, launch.grace_s) == (0o077, {"nofile": 64}, 7.0)
    assert (launch.user, launch.workdir) == ("alice", "/")
