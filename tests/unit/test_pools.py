"""A pool of equal machines among which an engine chooses: what it is given, and what comes back."""

import pytest
from msgspec.structs import replace

from rota.core.changes import events as ev
from rota.core.changes.compare import differences, fold
from rota.core.derived.lanes import Shape
from rota.core.facts.errors import Rejected
from rota.core.facts.job import Role, ServiceClass
from rota.core.facts.node import Device, Machine, NodeSpec
from rota.core.facts.placing import Placement
from rota.core.facts.policy import Policy
from rota.core.facts.resources import Request
from rota.core.facts.states import Blame, Cause
from rota.rpc.messages import Seen, Sighting
from rota.scheduling.place.filters import Case, first_problem
from rota.testing.scene import Scene

FEATURES = ("gangs", "signals", "stdin", "streams", "ulimits")


def gpus(count: int) -> tuple[Device, ...]:
    return tuple(Device(index=i, uuid=f"g{i}", model="h200") for i in range(count))


def pool(name="main.hpc", *, machines=3, cpus=4, cards=2, inside_max=2, features=FEATURES):
    """Three machines of four CPUs and two GPUs, of which others use nothing."""
    return NodeSpec(
        name,
        machines * cpus * 1000,
        machines * 8000,
        devices=gpus(machines * cards),
        engine="hpc",
        features=features,
        pool=True,
        inside_max=inside_max,
        largest=Machine(cpus * 1000, 8000, devices=gpus(cards), count=machines),
    )


def site(*nodes: NodeSpec, starts: bool = True) -> Scene:
    scene = Scene(nodes=0, starts=starts)
    for spec in nodes or (pool(),):
        scene.add_node(spec)
    return scene


def say(scene: Scene, job: str, sighting: Sighting, **more) -> None:
    """What the engine shows of a job's only attempt."""
    attempt = scene.job(job).live_attempts[0]
    scene.report(Seen(attempt.uid, sighting, **more), node=attempt.allocation.node)


def give_back(scene: Scene, job: str, why: str = "it waited inside hpc: Resources") -> None:
    start_failed = {"cause": Cause.START_FAILED, "fault": Blame.NODE, "detail": why}
    say(scene, job, Sighting.ENDED, ended_s=scene.now_s, **start_failed)


def test_a_task_must_fit_one_machine_and_not_the_sum_of_a_pool():
    scene = site(pool(), NodeSpec("large", 8000, 99_000))

    scene.submit("wide", cpus=8)

    assert scene.job("wide").live_attempts[0].allocation.node == "large"
    with pytest.raises(Rejected, match=r"12.*the largest node has 8 CPUs"):
        scene.submit("wider", cpus=12)
    with pytest.raises(Rejected, match="no node has more than 2 GPUs"):
        scene.submit("cards", gpus=3)


def test_why_names_the_machines_of_a_pool_that_a_job_does_not_fit():
    scene = site(pool(), NodeSpec("large", 8000, 99_000))
    scene.submit("hog", cpus=8)

    scene.submit("wide", cpus=8, mem=20_000)

    lines = " ".join(scene.lines("wide"))
    assert "main.hpc has machines with 4 cpus, needs 8" in lines


def test_many_tasks_share_a_pool_up_to_what_its_machines_have_together():
    scene = site()

    for number in range(5):
        scene.submit(f"j{number}", cpus=3, gpus=1)

    assert [scene.state(f"j{n}") for n in range(5)].count("running") == 4


def test_devices_of_a_pool_are_counted_and_no_numbers_are_handed_out():
    scene = site()

    scene.submit("job", cpus=1, gpus=2)

    launch = scene.launch("job")
    assert launch.order is not None
    assert (launch.order.gpus, launch.order.gpu_type, launch.devices) == (2, "h200", ())
    told = {name for name in launch.environment if "VISIBLE" in name or name == "ROTA_GPUS"}
    assert told == set()


def test_what_others_take_of_a_pool_is_told_without_a_new_session_and_is_not_given_out():
    scene = site()
    scene.submit("ours", gpus=1)
    session = dict(scene.session_of)

    scene.resize(replace(pool(), cpu_milli=4000, devices=gpus(2)))
    scene.submit("second", gpus=1)
    scene.submit("third", gpus=1)

    assert scene.session_of == session
    assert scene.states("ours", "second", "third") == ["running", "running", "queued"]

    scene.resize(pool())

    assert scene.state("third") == "running"


def test_a_pool_that_shrinks_below_what_runs_there_gives_nothing_of_it_out_again():
    scene = site()
    for name in ("a", "b"):
        scene.submit(name, cpus=1, gpus=2)

    scene.resize(replace(pool(), cpu_milli=4000, devices=gpus(2)))
    scene.finish("a")
    scene.submit("next", cpus=1, gpus=1)

    assert scene.states("b", "next") == ["running", "queued"]


def test_a_pool_in_which_enough_wait_gets_no_more_until_one_starts():
    scene = site(starts=False)
    for number in range(2):
        scene.submit(f"w{number}")
        say(scene, f"w{number}", Sighting.WAITING, detail="Resources")

    scene.submit("late")

    assert scene.state("late") == "queued"
    assert scene.why("late") == "node main.hpc: 2 wait inside hpc already"

    say(scene, "w0", Sighting.RUNNING, started_s=scene.now_s, where="n3")

    assert scene.state("late") == "scheduled"
    assert scene.job("w0").live_attempts[0].where == "n3"


def test_an_attempt_that_has_its_machine_does_not_wait_for_one():
    scene = site(pool(inside_max=1), starts=False)
    scene.submit("pulls")
    say(scene, "pulls", Sighting.WAITING, detail="ContainerCreating", where="n1")

    scene.submit("next")

    assert scene.state("next") == "scheduled"


def test_why_says_since_when_a_job_waits_inside():
    scene = site(starts=False)
    scene.submit("job")
    say(scene, "job", Sighting.WAITING, detail="AssocGrpCpuLimit")

    scene.pass_time(40)

    assert scene.why("job") == "waiting inside hpc on main.hpc: AssocGrpCpuLimit, since 40s"


def test_what_a_pool_gives_back_keeps_its_age_and_the_pool_is_closed_to_its_like_for_a_minute():
    scene = site(starts=False)
    scene.submit("first", cpus=2)
    submitted_s = scene.job("first").submitted_s
    scene.pass_time(10)
    say(scene, "first", Sighting.WAITING, detail="Resources")

    give_back(scene, "first")
    scene.submit("like", cpus=2)
    scene.submit("other", cpus=1)

    assert scene.states("first", "like", "other") == ["queued", "queued", "scheduled"]
    assert scene.job("first").submitted_s == submitted_s
    closed = "node main.hpc: closed to such tasks for a minute: it waited inside hpc: Resources"
    assert scene.why("like") == closed

    scene.pass_time(59)
    assert scene.state("first") == "queued"
    scene.pass_time(1)

    assert scene.states("first", "like") == ["scheduled", "scheduled"]


def test_a_closed_pool_is_in_the_log_and_survives_a_restart():
    scene = site(starts=False)
    scene.submit("first", cpus=2)
    say(scene, "first", Sighting.WAITING, detail="Resources")
    give_back(scene, "first")
    scene.submit("waits")
    say(scene, "waits", Sighting.WAITING, detail="Priority")

    assert [e.node for e in scene.log if isinstance(e, ev.PoolClosed)] == ["main.hpc"]
    folded = fold(scene.store.all_events(), scene.cluster.ids.cluster_id)
    assert differences(folded, scene.cluster) == []

    scene.restart()

    assert scene.state("first") == "queued"
    assert list(scene.cluster.nodes["main.hpc"].inside) == [scene.job("waits").live_attempts[0].uid]
    scene.pass_time(60)
    assert scene.state("first") == "scheduled"


def test_a_pool_is_never_taken_out_of_service_for_starts_that_failed():
    scene = site(pool(), pool("side.hpc"), starts=False)

    for number in range(6):
        scene.submit(f"j{number}", cpus=1 + number % 4, mem=number)
        give_back(scene, f"j{number}", "NodeFail")

    nodes = scene.cluster.nodes.values()
    assert {node.drained for node in nodes} == {False}
    assert {node.failed_starts for node in nodes} == {()}


def test_a_gang_lies_in_one_pool_or_on_machines_of_ours_and_never_across():
    scene = site(NodeSpec("own", 2000, 4000), pool(machines=1), pool("side.hpc", machines=1))

    scene.submit("four", cpus=1, tasks=4)
    scene.submit("three", cpus=1, tasks=3)

    homes = [{a.allocation.node for a in scene.job(n).live_attempts} for n in ("four", "three")]
    assert sorted(map(len, homes)) == [1, 1]
    assert all("own" not in home for home in homes)

    scene.submit("across", cpus=1, tasks=3)

    assert scene.state("across") == "queued"


def test_a_gang_that_is_spread_over_nodes_is_spread_by_the_engine():
    scene = site()

    scene.submit("gang", cpus=2, tasks=4, placement=Placement(node_count=2))

    order = scene.launch("gang").order
    assert order is not None
    assert (order.nodes, len(order.gang)) == (2, 4)
    with pytest.raises(
        Rejected, match="2 nodes asked for, but only 0 can take 3 of its tasks each"
    ):
        scene.submit("wide", cpus=2, tasks=6, placement=Placement(node_count=2))


def test_a_pool_whose_machines_are_too_small_for_its_share_of_a_gang_is_none_for_it():
    """Four CPUs on each: two tasks of two CPUs fit there, and three do not."""
    policy, gang = Policy(), Placement(node_count=2)
    found = []
    for tasks in (4, 5):
        role = Role(count=tasks, request=Request(cpu_milli=2000))
        shape = Shape((role,), gang, ServiceClass.BURSTABLE)
        found.append(first_problem(Case(shape, role.request, pool(), {}, (), policy)).text)

    assert found == ["", "has no machine that takes 3 of its tasks"]


def test_no_job_has_a_machine_of_a_pool_to_itself():
    scene = site(pool(), NodeSpec("own", 1000, 1000))
    scene.submit("hog")

    scene.submit("alone", placement=Placement(exclusive=True))

    assert scene.state("alone") == "queued"
    assert "is a pool of engine hpc: no job has a machine of it to itself" in " ".join(
        scene.lines("alone")
    )
