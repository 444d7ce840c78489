"""Where jobs run by what they say about nodes and neighbours, told as scenes."""

import pytest

from rota.controller.commands import commands as cmd
from rota.core.facts.job import Role, ServiceClass
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.placing import (
    Affinity,
    Operator,
    Placement,
    Selector,
    Taint,
    TaintEffect,
    Toleration,
)
from rota.core.facts.policy import Mixing, PlaceRules, Policy
from rota.core.facts.resources import Request
from rota.testing.scene import OPERATOR, Scene


def a_node(
    name: str,
    *,
    cpus: int = 4,
    gpus: int = 0,
    gpu_mib: int = 40960,
    taints: tuple[Taint, ...] = (),
    **labels: str,
) -> NodeSpec:
    devices = tuple(
        Device(index=i, uuid=f"{name}-{i}", model="A100", memory_mib=gpu_mib, numa=i % 2)
        for i in range(gpus)
    )
    pins = tuple(range(cpus))
    return NodeSpec(
        name, cpus * 1000, 16384, 10240, cpus=pins, devices=devices, labels=labels, taints=taints
    )


def a_scene(*nodes: NodeSpec, **rules: object) -> Scene:
    scene = Scene(nodes=0)
    if rules:
        policy = Policy(place=PlaceRules(**rules))
        scene.controller.cluster.policy = policy
    for spec in nodes:
        scene.add_node(spec)
    return scene


def nodes_of(scene: Scene, job: int | str) -> list[str]:
    return [attempt.allocation.node for attempt in scene.job(job).live_attempts]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (Selector("zone", Operator.EQ, ("b",)), "b1"),
        (Selector("zone", Operator.NE, ("a",)), "b1"),
        (Selector("zone", Operator.IN, ("b", "c")), "b1"),
        (Selector("zone", Operator.NOT_IN, ("a", "c")), "b1"),
        (Selector("fast", Operator.EXISTS), "b1"),
        (Selector("slow", Operator.MISSING), "b1"),
        (Selector("speed", Operator.GT, ("5",)), "b1"),
        (Selector("heat", Operator.LT, ("5",)), "b1"),
    ],
)
def test_a_hard_selector_decides_the_node(selector, expected):
    scene = a_scene(
        a_node("a1", zone="a", slow="1", speed="3", heat="9"),
        a_node("b1", zone="b", fast="1", speed="9", heat="3"),
    )

    scene.submit("picky", placement=Placement(selectors=(selector,)))

    assert nodes_of(scene, "picky") == [expected]


def test_a_job_whose_label_no_node_has_waits_and_starts_when_one_gets_it():
    scene = a_scene(a_node("a1"))
    wish = Selector("ssd", Operator.EXISTS)
    scene.submit("picky", placement=Placement(selectors=(wish,)))
    assert scene.state("picky") == "queued"

    scene.ask(cmd.MarkNode(actor=OPERATOR, node="a1", labels={"ssd": "1"}))

    assert scene.is_running("picky")


def test_a_soft_selector_is_followed_as_long_as_there_is_room():
    scene = a_scene(a_node("a1", zone="a"), a_node("b1", zone="b"))
    wish = Placement(selectors=(Selector("zone", Operator.EQ, ("b",), weight=10),))

    scene.submit("first", cpus=4, placement=wish)
    scene.submit("second", cpus=4, placement=wish)

    assert nodes_of(scene, "first") == ["b1"]
    assert nodes_of(scene, "second") == ["a1"]


def test_a_taint_keeps_jobs_off_that_do_not_bear_it():
    scene = a_scene(a_node("t1", taints=(Taint("team", "x"),)))
    scene.submit("plain")
    scene.submit("wrong", placement=Placement(tolerations=(Toleration("team", "y"),)))
    scene.submit("right", placement=Placement(tolerations=(Toleration("team", "x"),)))
    scene.submit("all", placement=Placement(tolerations=(Toleration("*"),)))

    assert scene.states("plain", "wrong", "right", "all") == [
        "queued",
        "queued",
        "running",
        "running",
    ]


def test_a_node_with_a_mild_taint_is_a_last_resort():
    shy = Taint("old", effect=TaintEffect.AVOID)
    scene = a_scene(a_node("a1", taints=(shy,)), a_node("b1"))

    scene.submit("first", cpus=4)
    scene.submit("second", cpus=4)

    assert nodes_of(scene, "first") == ["b1"]
    assert nodes_of(scene, "second") == ["a1"]


def test_affinity_brings_a_job_to_its_neighbour_and_apart_keeps_it_away():
    scene = a_scene(a_node("a1"), a_node("b1"), a_node("c1"))
    scene.submit("web", labels={"app": "web"})
    (home,) = nodes_of(scene, "web")

    scene.submit("near", placement=Placement(affinities=(Affinity("app", "web"),)))
    away = Placement(affinities=(Affinity("app", "web", apart=True),))
    scene.submit("far", placement=away)

    assert nodes_of(scene, "near") == [home]
    assert nodes_of(scene, "far") != [home]


def test_neighbours_that_start_in_the_same_pass_are_seen():
    scene = a_scene(a_node("a1"), a_node("b1"))
    for name in ("a1", "b1"):
        scene.ask(cmd.DrainNode(actor=OPERATOR, node=name, drained=True))
    apart = Placement(affinities=(Affinity("app", "web", apart=True),))
    scene.submit("one", labels={"app": "web"})
    scene.submit("two", placement=apart)
    for name in ("a1", "b1"):
        scene.ask(cmd.DrainNode(actor=OPERATOR, node=name, drained=False))

    assert nodes_of(scene, "one") != nodes_of(scene, "two")


def test_affinity_by_rack_means_any_node_of_the_rack():
    scene = a_scene(
        a_node("a1", cpus=1, rack="r1"), a_node("a2", rack="r1"), a_node("b1", rack="r2")
    )
    scene.submit("web", labels={"app": "web"}, placement=Placement(nodes=("a1",)))
    wish = Affinity("app", "web", topology="rack")

    scene.submit("near", cpus=2, placement=Placement(affinities=(wish,)))

    assert nodes_of(scene, "near") == ["a2"]


def test_an_exclusive_job_gets_a_node_that_is_idle_and_keeps_it_so():
    scene = a_scene(a_node("a1"), a_node("b1"))
    scene.submit("small")
    (busy,) = nodes_of(scene, "small")

    scene.submit("alone", placement=Placement(exclusive=True))
    (own,) = nodes_of(scene, "alone")
    scene.submit("next", cpus=3)
    scene.submit("waits", cpus=1)

    assert own != busy
    assert nodes_of(scene, "next") == [busy]
    assert scene.state("waits") == "queued"


def test_a_job_that_asks_for_no_cpus_does_not_slip_onto_a_node_of_somebodys_own():
    scene = a_scene(a_node("a1", gpus=2))
    scene.submit("alone", placement=Placement(exclusive=True))

    scene.submit("tiny", cpus=0.001, gpus=1, gpu_mem=100, shared=True)

    assert scene.state("tiny") == "queued"


def test_tasks_of_an_exclusive_job_share_its_nodes():
    scene = a_scene(a_node("a1"))
    driver, worker = Role("driver", request=Request(1000)), Role("worker", 2, request=Request(1000))

    scene.submit("job", roles=(driver, worker), placement=Placement(exclusive=True))

    assert nodes_of(scene, "job") == ["a1"] * 3


@pytest.mark.parametrize(("tasks", "nodes", "spread"), [(4, 2, [2, 2]), (5, 3, [1, 2, 2])])
def test_node_count_spreads_the_tasks_evenly_over_so_many_nodes(tasks, nodes, spread):
    scene = a_scene(*(a_node(f"n{number}", cpus=8) for number in range(4)))

    scene.submit("gang", tasks=tasks, placement=Placement(node_count=nodes))

    used = nodes_of(scene, "gang")
    assert sorted(used.count(name) for name in set(used)) == spread


def test_without_node_count_a_gang_uses_as_few_nodes_as_possible():
    scene = a_scene(a_node("a1", cpus=2), a_node("b1", cpus=4), a_node("c1", cpus=8))

    scene.submit("gang", tasks=6)

    assert set(nodes_of(scene, "gang")) == {"c1"}


def test_a_topology_keeps_all_tasks_in_one_group():
    scene = a_scene(
        a_node("a1", rack="r1"),
        a_node("b1", rack="r2"),
        a_node("b2", rack="r2"),
        a_node("c1", cpus=64),
    )

    scene.submit("gang", tasks=2, cpus=4, placement=Placement(topology="rack"))
    scene.submit("large", tasks=3, cpus=4, placement=Placement(topology="rack"))

    assert sorted(nodes_of(scene, "gang")) == ["b1", "b2"]
    assert scene.state("large") == "queued"


def test_named_and_excluded_nodes_are_obeyed():
    scene = a_scene(a_node("a1"), a_node("b1"), a_node("c1"))

    scene.submit("there", placement=Placement(nodes=("b1",)))
    scene.submit("not there", placement=Placement(exclude=("a1", "b1")))

    assert nodes_of(scene, "there") == ["b1"]
    assert nodes_of(scene, "not there") == ["c1"]


@pytest.mark.parametrize("memory_mib", [40960, 143771])
def test_fractions_of_a_device_add_up_to_the_whole_and_no_further(memory_mib: int):
    scene = a_scene(a_node("g1", gpus=1, gpu_mib=memory_mib))
    half = Request(500, 0, 0, "gpu", 1, shared=True, device_milli=500)
    for name in ("one", "two", "three"):
        scene.submit(name, roles=(Role(request=half),))

    assert scene.states("one", "two", "three") == ["running", "running", "queued"]


def test_shared_and_whole_use_never_meet_on_one_device():
    scene = a_scene(a_node("g1", gpus=2))
    scene.submit("shares", cpus=0.5, gpus=1, gpu_mem=1000, shared=True)
    scene.submit("whole", cpus=0.5, gpus=1)
    scene.submit("second whole", cpus=0.5, gpus=1)

    devices = [scene.job(name).live_attempts[0].allocation.devices for name in ("shares", "whole")]
    assert devices[0] != devices[1]
    assert scene.state("second whole") == "queued"


def test_guaranteed_jobs_count_against_what_is_really_there():
    scene = a_scene(a_node("a1"), overcommit_cpu=2.0)
    for name in ("one", "two"):
        scene.submit(name, cpus=3, service=ServiceClass.GUARANTEED)
    scene.submit("burst", cpus=4, service=ServiceClass.BURSTABLE)
    scene.submit("too much", cpus=2, service=ServiceClass.BURSTABLE)

    assert scene.states("one", "two", "burst", "too much") == [
        "running",
        "queued",
        "running",
        "queued",
    ]


@pytest.mark.parametrize(("mixing", "state"), [(Mixing.NEVER, "queued"), (Mixing.AVOID, "running")])
def test_jobs_without_devices_stay_off_device_nodes_as_the_policy_says(mixing, state):
    scene = a_scene(a_node("g1", gpus=1), cpu_jobs_on_gpu_nodes=mixing)

    scene.submit("plain")

    assert scene.state("plain") == state


def test_a_drained_node_takes_nothing_and_what_waits_starts_when_it_is_back():
    scene = a_scene(a_node("a1"))
    scene.ask(cmd.DrainNode(actor=OPERATOR, node="a1", drained=True))
    scene.submit("job")
    assert scene.state("job") == "queued"

    scene.ask(cmd.DrainNode(actor=OPERATOR, node="a1", drained=False))

    assert scene.is_running("job")


def test_a_role_that_fits_in_fewer_places_is_not_crowded_out_by_another():
    scene = a_scene(a_node("a1", cpus=1), a_node("g1", cpus=1, gpus=1))
    driver = Role("driver", request=Request(1000))
    worker = Role("worker", request=Request(1000, 0, 0, "gpu", 1))

    scene.submit("first", roles=(driver, worker))

    assert nodes_of(scene, "first") == ["a1", "g1"]


def test_all_dimensions_are_taken_together_or_not_at_all():
    scene = a_scene(a_node("a1", gpus=1))
    scene.submit("disk", cpus=1, disk=10000)
    scene.submit("all", cpus=1, mem=100, disk=1000, gpus=1)
    scene.submit("gpu", cpus=1, gpus=1, time_limit_s=60)

    assert scene.states("disk", "all", "gpu") == ["running", "queued", "running"]
