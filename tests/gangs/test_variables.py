"""What the tasks of a job find in their environment about each other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rota.controller.commands import commands as cmd
from rota.controller.launches.launch import encode_environment
from rota.core.facts.job import Role
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.placing import Placement
from rota.core.facts.resources import Request
from rota.core.facts.states import Cause
from rota.testing.scene import ADMIN, OPERATOR, Scene


def site(*names: str, cpus: int = 2, gpus: int = 0) -> Scene:
    """Nodes with addresses 10.0.0.1, 10.0.0.2 and so on."""
    scene = Scene(nodes=0)
    devices = tuple(Device(index=i, uuid=f"d{i}") for i in range(gpus))
    for number, name in enumerate(names, start=1):
        address = f"10.0.0.{number}"
        scene.add_node(NodeSpec(name, cpus * 1000, 8192, devices=devices, address=address))
    return scene


def found(scene: Scene, job: str, *names: str) -> list[tuple[str, ...]]:
    """The values of these variables in every task."""
    tasks = scene.job(job).tasks
    environments = [scene.launch(job, task.index).environment for task in tasks if task.attempts]
    return [tuple(environment.get(name, "-") for name in names) for environment in environments]


def test_the_members_of_a_gang_know_where_to_meet_and_who_they_are():
    scene = site("n1", "n2")

    job = scene.submit("gang", tasks=4, placement=Placement(node_count=2))

    port = str(20_000 + job)
    assert found(scene, "gang", "MASTER_ADDR", "MASTER_PORT") == [("10.0.0.1", port)] * 4
    assert found(
        scene, "gang", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK"
    ) == [
        ("0", "4", "0", "2", "0"),
        ("1", "4", "1", "2", "0"),
        ("2", "4", "0", "2", "1"),
        ("3", "4", "1", "2", "1"),
    ]
    assert [address for (address,) in found(scene, "gang", "ROTA_NODE_ADDRESS")] == [
        *("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2")
    ]


def test_the_members_of_a_gang_find_the_words_of_slurm():
    scene = site("n01", "n02", "n03")

    job = scene.submit("gang", tasks=5, project="vision", placement=Placement(node_count=3))

    first = scene.launch("gang", 0).environment
    expected = {
        "SLURM_JOB_ID": str(job),
        "SLURM_JOBID": str(job),
        "SLURM_NTASKS": "5",
        "SLURM_NPROCS": "5",
        "SLURM_NNODES": "3",
        "SLURM_JOB_NUM_NODES": "3",
        "SLURM_JOB_NODELIST": "n[01-03]",
        "SLURM_NODELIST": "n[01-03]",
        "SLURM_STEP_NODELIST": "n[01-03]",
        "SLURM_TASKS_PER_NODE": "2(x2),1",
        "SLURM_CPUS_ON_NODE": "2",
        "SLURM_JOB_CPUS_PER_NODE": "2(x2),1",
        "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1",
        "SLURM_JOB_ACCOUNT": "vision",
        "SLURM_JOB_PARTITION": "default",
        "SLURM_JOB_USER": "alice",
        "SLURM_GTIDS": "0,1",
        "ROTA_NODELIST": "n01,n02,n03",
    }
    assert {name: first.get(name) for name in expected} == expected
    assert found(scene, "gang", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID") == [
        *[("0", "0", "0"), ("1", "1", "0"), ("2", "0", "1"), ("3", "1", "1"), ("4", "0", "2")]
    ]
    assert found(scene, "gang", "SLURMD_NODENAME")[4] == ("n03",)
    # Programs that want to know it take uneven nodes for a mistake.
    assert "SLURM_NTASKS_PER_NODE" not in first


def test_a_gang_that_lies_evenly_is_told_how_many_are_on_each_node():
    scene = site("n1", "n2")

    scene.submit("gang", tasks=4)

    assert set(found(scene, "gang", "SLURM_NTASKS_PER_NODE")) == {("2",)}


def test_a_gang_on_one_node_needs_no_network():
    scene = site("n1")

    scene.submit("gang", tasks=2)

    assert set(found(scene, "gang", "MASTER_ADDR")) == {("127.0.0.1",)}


def test_a_job_of_one_task_has_the_same_words_and_nobody_to_meet():
    scene = site("n1", gpus=2)

    array = scene.submit("alone", cpus=2, gpus=1, array="3-9:3")

    environment = scene.launch(array + 1).environment
    expected = {
        "SLURM_NTASKS": "1",
        "SLURM_NNODES": "1",
        "SLURM_PROCID": "0",
        "SLURM_NODEID": "0",
        "SLURM_JOB_NODELIST": "n1",
        "SLURM_CPUS_ON_NODE": "2",
        "SLURM_JOB_CPUS_PER_NODE": "2",
        "SLURM_GPUS_ON_NODE": "1",
        "SLURM_ARRAY_TASK_COUNT": "3",
        "SLURM_ARRAY_TASK_MIN": "3",
        "SLURM_ARRAY_TASK_MAX": "9",
        "SLURM_ARRAY_TASK_STEP": "3",
    }
    assert {name: environment.get(name) for name in expected} == expected
    assert "MASTER_ADDR" not in environment


def test_two_gangs_on_one_node_meet_at_different_ports():
    scene = site("n1", cpus=8)
    scene.ask(cmd.SetPolicy(actor=ADMIN, rules={"port_first": 30_000, "port_count": 2}))

    for name in ("a", "b", "c"):
        scene.submit(name, tasks=2)

    ports = [scene.job(name).tasks[0].attempts[0].port for name in ("a", "b", "c")]
    assert sorted(ports) == [0, 30_000, 30_001]


def test_a_gang_meets_at_the_same_port_when_it_is_tried_again_as_one():
    scene = site("n1", "n2")
    scene.submit("gang", tasks=4, retries=1, backoff_s=0)
    before = found(scene, "gang", "MASTER_PORT", "ROTA_ATTEMPT")

    scene.finish("gang", code=1, task=2)
    scene.finish("gang", signal=15)

    after = found(scene, "gang", "MASTER_PORT", "ROTA_ATTEMPT")
    assert len({port for port, _ in before + after}) == 1
    assert (set(before), set(after)) == ({(before[0][0], "1")}, {(before[0][0], "2")})


def test_a_port_that_some_other_program_has_is_not_tried_twice():
    scene = Scene(cpus=4)
    job = scene.submit("gang", tasks=2, retries=1, backoff_s=0)

    scene.finish("gang", code=None, task=0, cause=Cause.START_FAILED, detail="port is in use")
    scene.finish("gang", signal=15)

    ports = [attempt.port for attempt in scene.job("gang").tasks[0].attempts]
    assert ports == [20_000 + job, 20_001 + job]


def test_a_member_knows_its_role():
    scene = site("n1", cpus=8)
    one, two = Request(cpu_milli=1000), Request(cpu_milli=2000)

    scene.submit("job", roles=(Role("driver", 1, request=one), Role("worker", 2, request=two)))

    names = ("ROTA_ROLE", "ROTA_ROLE_INDEX", "ROTA_ROLE_SIZE", "ROTA_CPUS", "RANK")
    assert found(scene, "job", *names) == [
        ("driver", "0", "1", "1", "0"),
        ("worker", "0", "2", "2", "1"),
        ("worker", "1", "2", "2", "2"),
    ]


def test_a_job_that_was_submitted_inside_a_gang_does_not_take_itself_for_it():
    scene = Scene()
    inside = {"ROTA_JOB_ID": "7", "RANK": "3", "SLURM_JOB_UID": "1", "HOME": "/home/ann"}
    body = encode_environment(inside)

    scene.submit("child", environment="digest", blobs={"digest": body})

    environment = scene.launch("child").environment
    assert environment["HOME"] == "/home/ann"
    assert environment["ROTA_JOB_ID"] == str(scene.names["child"])
    assert "RANK" not in environment
    assert "SLURM_JOB_UID" not in environment


def test_variables_of_the_job_win_over_those_for_meeting():
    scene = site("n1", "n2")

    scene.submit("gang", tasks=4, variables={"MASTER_PORT": "29500"})

    assert set(found(scene, "gang", "MASTER_PORT")) == {("29500",)}


@pytest.fixture
def elastic() -> Scene:
    """An elastic gang of two to four on two nodes of two CPUs, one of them busy."""
    scene = site("n1", "n2")
    scene.submit("hog", cpus=2)
    scene.submit("gang", roles=(Role(count=4, min_count=2, request=Request()),))
    return scene


def worlds(scene: Scene) -> list[dict[str, Any]]:
    """What the live members of the gang were told last."""
    live = scene.job("gang").live_attempts
    return [json.loads(scene.worlds[attempt.uid]) for attempt in live]


def test_an_elastic_gang_is_told_its_size_at_the_start(elastic: Scene):
    (first, second) = worlds(elastic)

    assert first == second
    assert (first["world_size"], first["master_addr"]) == (2, "10.0.0.2")
    assert found(elastic, "gang", "WORLD_SIZE", "ROTA_MIN_TASKS", "ROTA_MAX_TASKS") == [
        ("2", "2", "4"),
        ("2", "2", "4"),
    ]


def test_all_members_hear_of_it_when_a_gang_grows(elastic: Scene):
    before = worlds(elastic)[0]

    elastic.finish("hog")

    told = worlds(elastic)
    assert [world["world_size"] for world in told] == [4, 4, 4, 4]
    assert len({json.dumps(world) for world in told}) == 1
    assert told[0]["version"] > before["version"]
    ranks = [(member["rank"], member["node"]) for member in told[0]["members"]]
    assert ranks == [(0, "n2"), (1, "n2"), (2, "n1"), (3, "n1")]
    # Those that joined were started with the new size.
    assert found(elastic, "gang", "RANK", "WORLD_SIZE")[2:] == [("2", "4"), ("3", "4")]


def test_the_others_hear_of_it_as_soon_as_members_are_asked_to_leave(elastic: Scene):
    elastic.finish("hog")
    drain = cmd.DrainNode(actor=OPERATOR, node="n2", drained=True, migrate=True, deadline_s=2000.0)
    elastic.ask(drain)

    elastic.pass_time(1000)

    leaving = {attempt.uid for attempt in elastic.job("gang").tasks[0].attempts}
    staying = elastic.job("gang").tasks[2].attempts[-1].uid
    world = json.loads(elastic.worlds[staying])
    assert leaving <= elastic.stopping
    assert (world["world_size"], world["nodes"]) == (2, ["n1"])
    # The first of those that stay is where they meet now.
    assert (world["master_addr"], [m["rank"] for m in world["members"]]) == ("10.0.0.1", [0, 1])
    assert world["master_port"] != 0


def test_a_gang_that_keeps_its_size_is_told_nothing_about_it():
    scene = site("n1")

    scene.submit("gang", tasks=2)

    assert {scene.worlds[attempt.uid] for attempt in scene.job("gang").live_attempts} == {b""}


def test_a_new_world_is_told_again_after_the_controller_was_away(elastic: Scene):
    elastic.finish("hog")
    before = worlds(elastic)

    elastic.restart()

    assert worlds(elastic) == before
