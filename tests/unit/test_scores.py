"""How good a node is for a task, and what a placement turned out to be worth."""

import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.derived.lanes import Shape
from rota.core.facts.job import Role, ServiceClass
from rota.core.facts.node import Allocation, Device, NodeSpec
from rota.core.facts.placing import (
    Affinity,
    Operator,
    Placement,
    Selector,
    Taint,
    TaintEffect,
    Toleration,
)
from rota.core.facts.policy import DEFAULT, Mixing, PlaceRules, Policy
from rota.core.facts.resources import Request
from rota.scheduling.place.filters import Case, Neighbours, topologies_of
from rota.scheduling.place.fragments import (
    Fragmentation,
    Movable,
    Move,
    NodeUse,
    Typical,
    fragmentation,
    lost_milli,
    spare_of,
    typical_shapes,
)
from rota.scheduling.place.free import Free, Total
from rota.scheduling.place.gradient import Gradient
from rota.scheduling.place.scores import (
    STRATEGIES,
    class_score,
    class_terms,
    neighbour_score,
    placement_score,
    strategy,
)

CPU = Request()
GPU = Request(device="gpu", device_count=1)
PLAIN = NodeSpec("plain", 8000, 65536)
BOX = NodeSpec("box", 8000, 65536, devices=(Device(0, "g0"), Device(1, "g1")))


def shape(request: Request = CPU, **placement) -> Shape:
    return Shape((Role(request=request),), Placement(**placement), ServiceClass.BURSTABLE)


def terms(asked: Shape, labels=None, taints=(), dearest: float = 0.0, spec=PLAIN, policy=DEFAULT):
    request = asked.roles[0].request
    return class_terms(Case(asked, request, spec, labels or {}, taints, policy), dearest)


def test_the_best_node_has_a_million_points_with_the_usual_weights():
    everything = class_score(Case(shape(), CPU, PLAIN, {}, (), DEFAULT))
    empty = Free(1000, 65536)

    best = strategy("score", DEFAULT)(CPU, empty, Total(1000, 65536), everything)

    assert best == 1_000_000


def test_the_weights_are_thirty_twenty_twenty_twenty_and_ten():
    score = strategy("score", DEFAULT)
    full, half = Total(2000, 1024), Free(1000, 512)

    assert terms(shape()) == {"affinity": 200_000, "locality": 200_000, "cost": 100_000}
    assert score(CPU, half, full, 0) == 30 * 10_000 + 20 * 10_000
    assert score(CPU, Free(2000, 512), full, 0) == 30 * 5_000 + 20 * 10_000


def test_where_jobs_are_spread_the_fit_is_turned_round_and_the_load_counts():
    score = strategy("score", Policy(place=PlaceRules(spread=True)))
    full, half = Total(2000, 1024), Free(1000, 512)

    assert score(CPU, half, full, 0) == 20 * 5_000
    assert score(CPU, Free(2000, 1024), full, 0) == 30 * 5_000 + 20 * 10_000


def test_weights_can_be_set():
    policy = Policy(
        place=PlaceRules(
            weight_fit=0,
            weight_load=100,
            weight_affinity=0,
            weight_locality=0,
            weight_cost=0,
            spread=True,
        )
    )
    score = strategy("score", policy)
    total = Total(8000, 65536)

    assert class_score(Case(shape(), CPU, PLAIN, {}, (), policy)) == 0
    assert score(CPU, Free(8000, 65536), total, 0) == 1_000_000
    assert score(CPU, Free(4000, 32768), total, 0) == 500_000


def test_soft_selectors_count_by_their_weight():
    wishes = (
        Selector("rack", Operator.EQ, ("a",), weight=30),
        Selector("ssd", weight=10),
    )
    asked = shape(selectors=wishes)

    assert terms(asked, {"rack": "a", "ssd": "1"})["affinity"] == 200_000
    assert terms(asked, {"rack": "a"})["affinity"] == 150_000
    assert terms(asked, {"ssd": "1"})["affinity"] == 50_000
    assert terms(asked)["affinity"] == 0


def test_a_wish_with_a_negative_weight_is_a_dislike():
    asked = shape(selectors=(Selector("noisy", weight=-10),))

    assert terms(asked, {"noisy": "1"})["affinity"] == 0
    assert terms(asked)["affinity"] == 200_000


def test_a_taint_to_avoid_costs_all_affinity_unless_it_is_tolerated():
    taint = Taint("old", effect=TaintEffect.AVOID)

    assert terms(shape(), taints=(taint,))["affinity"] == 0
    assert terms(shape(tolerations=(Toleration("old"),)), taints=(taint,))["affinity"] == 200_000


def test_soft_wishes_about_neighbours_share_the_weight_of_affinity():
    asked = shape(
        selectors=(Selector("ssd", weight=10),),
        affinities=(Affinity("app", "web", weight=20), Affinity("noise", apart=True, weight=10)),
    )
    neighbours = Neighbours()
    neighbours.add("a1", {}, {"app": "web"})
    neighbours.add("a2", {}, {"noise": "much"})

    assert terms(asked, {"ssd": "1"})["affinity"] == 50_000
    assert neighbour_score(asked, "a1", {}, neighbours, DEFAULT) == 150_000
    assert neighbour_score(asked, "a2", {}, neighbours, DEFAULT) == 0
    assert neighbour_score(asked, "a3", {}, neighbours, DEFAULT) == 50_000
    assert neighbour_score(shape(), "a1", {}, neighbours, DEFAULT) == 0


def test_a_node_outside_all_racks_is_near_no_neighbour_in_any():
    asked = shape(affinities=(Affinity("app", "web", topology="rack", weight=10),))
    neighbours = Neighbours(topologies_of([asked]))
    neighbours.add("a1", {"rack": "a"}, {"app": "web"})
    neighbours.add("c1", {}, {"app": "web"})

    points = [
        neighbour_score(asked, name, labels, neighbours, DEFAULT)
        for name, labels in (("a2", {"rack": "a"}), ("b1", {"rack": "b"}), ("c2", {}))
    ]

    assert points == [200_000, 0, 0]


def test_nodes_near_the_data_are_preferred_by_the_share_that_they_have():
    asked = shape(data=("imagenet", "laion"))

    assert terms(asked, {"data": "laion, imagenet,other"})["locality"] == 200_000
    assert terms(asked, {"data": "laion"})["locality"] == 100_000
    assert terms(asked)["locality"] == 0


def test_cheap_nodes_are_preferred_against_the_dearest():
    classes = [{"cost": "4"}, {"cost": "1.0"}, {}, {"cost": "free"}, {"cost": "nan"}]

    points = [terms(shape(), labels, dearest=4.0)["cost"] for labels in classes]

    assert points == [0, 75_000, 100_000, 100_000, 100_000]


@pytest.mark.parametrize("name", STRATEGIES)
def test_gpu_nodes_are_the_last_resort_of_jobs_without_devices(name):
    place = strategy(name, DEFAULT)
    full_plain, empty_box = Free(1000, 0), Free(8000, 65536, 0, 2, (100, 100))
    asked = shape(selectors=(Selector("rack", weight=1),))

    plain = class_score(Case(asked, CPU, PLAIN, {"cost": "9"}, (), DEFAULT), 9.0)
    box = class_score(Case(asked, CPU, BOX, {"rack": "a"}, (), DEFAULT), 9.0)

    assert place(CPU, full_plain, Total(8000, 65536), plain) > place(
        CPU, empty_box, Total(8000, 65536, 0, 2, 100), box
    )


def test_the_strongest_wish_goes_before_what_a_site_only_avoids():
    wish = shape(selectors=(Selector("rack", Operator.EQ, ("a",), weight=100),))

    assert "mixing" not in terms(wish, {"rack": "a"}, spec=BOX)
    assert "mixing" in terms(wish, {"rack": "b"}, spec=BOX)


def test_gpu_nodes_are_as_good_as_others_for_jobs_with_devices_or_when_allowed():
    allow = Policy(place=PlaceRules(cpu_jobs_on_gpu_nodes=Mixing.ALLOW))

    assert "mixing" in terms(shape(), spec=BOX)
    assert "mixing" not in terms(shape(GPU), spec=BOX)
    assert "mixing" not in terms(shape(), spec=BOX, policy=allow)


EIGHT = Total(64_000, 524_288, 0, 8, 40960)


def node(idle: int, cpu_milli: int = 64_000, partly: tuple[int, ...] = ()) -> Free:
    shared = tuple(sorted((*partly, *[40960] * idle), reverse=True))
    milli = tuple(1000 * left // 40960 for left in shared)
    return Free(cpu_milli, 524_288, 0, idle, shared, milli)


def best_of(name: str, request: Request, nodes: list[Free], typical=(), total=EIGHT) -> int:
    place = strategy(name, DEFAULT, Gradient(typical) if typical else None, total)
    points = [place(request, free, total, 0) for free in nodes]
    return points.index(max(points))


def test_first_fit_finds_all_nodes_equal():
    assert best_of("first-fit", GPU, [node(1), node(8), node(4)]) == 0


def test_best_fit_takes_the_node_with_the_fewest_idle_devices():
    assert best_of("best-fit", GPU, [node(8), node(3), node(1)]) == 2


def test_best_fit_counts_cpus_and_devices_in_equal_parts_of_the_largest_node():
    # 8,000 of 64,000 millicores are an eighth, and so is one of eight devices.
    more_cpus, more_devices = node(2, cpu_milli=16_000), node(3, cpu_milli=8000)

    assert best_of("best-fit", GPU, [more_devices, more_cpus]) == 0
    assert best_of("best-fit", GPU, [more_devices, node(2, cpu_milli=14_000)]) == 1


def test_best_fit_does_not_tell_hundredths_apart():
    nodes = [node(1, cpu_milli=8640), node(1, cpu_milli=8000), node(1, cpu_milli=7000)]

    assert best_of("best-fit", GPU, nodes) == 2
    assert best_of("best-fit", GPU, nodes[:2]) == 0


def test_best_fit_without_devices_takes_the_node_with_the_fewest_cpus_left():
    nodes = [Free(60_000, 16384), Free(2000, 500_000)]

    assert best_of("best-fit", Request(cpu_milli=1000, memory_mib=16384), nodes) == 1


@pytest.mark.parametrize("name", ["spread", "worst-fit"])
def test_spread_takes_the_emptiest_node(name):
    assert best_of(name, GPU, [node(1), node(8), node(3)]) == 1


def test_best_fit_puts_a_share_on_the_fullest_device_with_room():
    share = Request(device="gpu", device_count=1, shared=True, device_memory_mib=8192)

    assert best_of("best-fit", share, [node(8), node(0, partly=(9000,)), node(1)]) == 1


def test_gpu_packing_prefers_devices_in_use_then_nodes_in_use():
    share = Request(device="gpu", device_count=1, shared=True, device_milli=250)
    too_full = node(1, partly=(4096,))

    assert best_of("gpu-packing", share, [node(1), node(7, partly=(20480,)), too_full]) == 1
    assert best_of("gpu-packing", share, [node(8), node(3)]) == 1
    assert best_of("gpu-packing", GPU, [node(8), node(2), node(5)]) == 1


def test_gpu_packing_of_a_share_takes_the_fullest_device_to_the_tenth():
    share = Request(device="gpu", device_count=1, shared=True, device_milli=100)
    fuller, full = node(3, partly=(16384,)), node(3, partly=(8192,))

    assert best_of("gpu-packing", share, [fuller, full]) == 1
    assert best_of("gpu-packing", share, [node(3, partly=(8601,)), full]) == 0


def test_the_dot_product_puts_a_job_where_what_it_wants_is_scarce():
    much_cpu, many_devices = node(2, cpu_milli=60_000), node(8, cpu_milli=8000)

    assert best_of("dotprod", Request(cpu_milli=8000), [much_cpu, many_devices]) == 1
    four = Request(cpu_milli=1000, device="gpu", device_count=2)
    assert best_of("dotprod", four, [many_devices, much_cpu]) == 1


@given(
    st.integers(1, 64_000),
    st.integers(0, 65536),
    st.integers(0, 8),
    st.integers(0, 8),
    st.booleans(),
)
def test_scores_of_what_fits_stay_between_nothing_and_a_million(cpu, memory, idle, count, shared):
    request = Request(
        cpu_milli=cpu,
        memory_mib=memory,
        device="gpu" if count else "",
        device_count=min(count, idle),
        shared=shared,
        device_memory_mib=4096 if shared else 0,
    )
    static = class_score(Case(shape(request), request, PLAIN, {}, (), DEFAULT))

    score = strategy("score", DEFAULT)(request, node(idle), EIGHT, static)

    assert 0 <= score <= 1_000_000


HALF = Request(cpu_milli=1000, device="gpu", device_count=1, shared=True, device_milli=500)
WHOLE = Request(cpu_milli=4000, device="gpu", device_count=1)
PAIR = Request(cpu_milli=8000, device="gpu", device_count=2)


def test_free_devices_are_lost_to_shapes_that_cannot_use_them():
    halves = spare_of(node(0, partly=(20480, 20480)), EIGHT)
    no_cpu = spare_of(node(2, cpu_milli=1000), EIGHT)

    assert lost_milli(halves, HALF) == 0
    assert lost_milli(halves, WHOLE) == 1000
    assert lost_milli(no_cpu, WHOLE) == 2000
    assert lost_milli(spare_of(node(2), EIGHT), PAIR) == 0
    assert lost_milli(spare_of(node(1, partly=(20480,)), EIGHT), PAIR) == 1500
    assert lost_milli(spare_of(node(3, partly=(20480,)), EIGHT), PAIR) == 500


def test_fgd_keeps_whole_devices_for_the_shapes_that_need_them():
    typical = (Typical(0.9, WHOLE), Typical(0.1, HALF))

    assert best_of("fgd", HALF, [node(4), node(3, partly=(20480,)), node(8)], typical) == 1


def test_fgd_keeps_pairs_where_pairs_are_usual_although_another_node_is_fuller():
    typical = (Typical(1, PAIR),)

    assert best_of("best-fit", WHOLE, [node(2), node(3)]) == 0
    assert best_of("fgd", WHOLE, [node(2), node(3)], typical) == 1


def test_fgd_keeps_the_cpus_that_go_with_devices():
    typical = (Typical(1, WHOLE),)
    cpu_job = Request(cpu_milli=4000)
    starving, rich = node(2, cpu_milli=6000), node(2, cpu_milli=32_000)

    assert best_of("best-fit", cpu_job, [starving, rich]) == 0
    assert best_of("fgd", cpu_job, [starving, rich], typical) == 1


def test_fgd_without_typical_shapes_packs():
    assert best_of("fgd", WHOLE, [node(8), node(1)]) == 1


def test_fgd_without_a_difference_in_whole_hundredths_takes_the_first():
    typical = (Typical(1.0, WHOLE),)

    assert best_of("fgd", WHOLE, [node(8), node(1), node(4)], typical) == 0


def test_fgd_minds_only_devices_that_the_usual_shapes_may_use():
    wanted = Request(cpu_milli=4000, device="gpu", device_count=1, device_type="T4|V100")
    other, right = EIGHT._replace(makes=(("gpu", "A10"),)), EIGHT._replace(makes=(("gpu", "T4"),))
    place = strategy("fgd", DEFAULT, Gradient((Typical(1.0, wanted),)))

    # On the other model nothing was of use before, so a device less is so much less lost.
    assert place(WHOLE, node(2), other, 0) == 730_000
    assert place(WHOLE, node(2), right, 0) == 500_000


def test_typical_shapes_are_the_most_frequent_ones_up_to_95_percent():
    counted = [(HALF, 20), (CPU, 50), (WHOLE, 20), (HALF, 6), (PAIR, 4)]

    assert typical_shapes(counted) == (
        Typical(0.5 / 0.96, CPU),
        Typical(0.26 / 0.96, HALF),
        Typical(0.2 / 0.96, WHOLE),
    )


def test_typical_shapes_that_differ_in_memory_alone_are_one():
    large = Request(cpu_milli=4000, memory_mib=8192, disk_mib=10, device="gpu", device_count=1)

    assert typical_shapes([(WHOLE, 1), (large, 3)]) == (Typical(1.0, WHOLE),)


def test_typical_shapes_as_frequent_as_others_are_taken_from_the_largest_down():
    assert typical_shapes([(WHOLE, 1), (PAIR, 1)], most=1) == (Typical(1.0, PAIR),)
    assert typical_shapes([(PAIR, 1), (WHOLE, 1)], most=1) == (Typical(1.0, PAIR),)


def test_a_cluster_without_fragments_needs_no_moves():
    nodes = [NodeUse("a", node(4), EIGHT), NodeUse("b", node(0), EIGHT)]

    report = fragmentation(nodes, (Typical(1, WHOLE),), [Movable(1, "a", WHOLE)])

    assert report == Fragmentation(0, 4000, 0, ())


def test_fragmentation_is_the_part_of_free_devices_that_is_of_no_use_and_moves_mend_it():
    nodes = [
        NodeUse("a", node(1, partly=()), EIGHT),
        NodeUse("b", node(1, partly=()), EIGHT),
        NodeUse("c", node(2), EIGHT),
    ]
    jobs = [Movable(1, "a", WHOLE), Movable(2, "b", WHOLE)]

    report = fragmentation(nodes, (Typical(1, PAIR),), jobs)

    assert (report.percent, report.free_milli, report.lost_milli) == (50, 4000, 2000)
    assert report.moves == (Move(1, "a", "b", 2000),)


def test_two_half_used_devices_are_merged_into_one():
    nodes = [
        NodeUse("a", node(0, partly=(20480,)), EIGHT),
        NodeUse("b", node(0, partly=(20480,)), EIGHT),
    ]
    jobs = [Movable(1, "a", HALF, (20480,)), Movable(2, "b", HALF, (20480,))]

    report = fragmentation(nodes, (Typical(1, WHOLE),), jobs)

    assert report.percent == 100
    assert report.moves == (Move(1, "a", "b", 1000),)


def test_moves_go_only_where_they_are_allowed():
    nodes = [NodeUse(name, node(1), EIGHT) for name in "abc"]
    jobs = [Movable(1, "a", WHOLE)]

    report = fragmentation(
        nodes, (Typical(1, PAIR),), jobs, allowed=lambda job, target: target == "c"
    )

    assert [move.target for move in report.moves] == ["c"]


def test_no_more_moves_are_named_than_asked_for():
    nodes = [NodeUse(name, node(1, partly=()), EIGHT) for name in "abcd"]
    jobs = [Movable(number, name, WHOLE) for number, name in enumerate("abcd", start=1)]

    report = fragmentation(nodes, (Typical(1, PAIR),), jobs, moves_max=1)

    assert len(report.moves) == 1
    assert len(fragmentation(nodes, (Typical(1, PAIR),), jobs).moves) == 2


def test_a_move_is_found_behind_nodes_that_have_no_room_for_the_job():
    nodes = [
        NodeUse("a", node(1, partly=()), EIGHT),
        NodeUse("b", node(0), EIGHT),
        NodeUse("c", node(1, partly=()), EIGHT),
    ]

    report = fragmentation(nodes, (Typical(1, PAIR),), [Movable(1, "a", WHOLE)])

    assert report.moves == (Move(1, "a", "c", 2000),)


def test_a_job_leaves_room_for_others_on_the_fullest_devices_of_what_it_left():
    """Behind it a whole device is free beside a half: the next move takes the half."""
    nodes = [
        NodeUse("a", node(0, partly=(20480,)), EIGHT),
        NodeUse("b", node(0, partly=(20480,)), EIGHT),
        NodeUse("c", node(0, partly=(20480,)), EIGHT),
        NodeUse("d", node(0, partly=(20480,)), EIGHT),
    ]
    jobs = [Movable(n, name, HALF, (20480,)) for n, name in enumerate("abcd", start=1)]

    report = fragmentation(nodes, (Typical(1, WHOLE),), jobs)

    assert report.moves == (Move(1, "a", "b", 1000), Move(3, "c", "d", 1000))


NUMA = NodeSpec(
    "n1",
    8000,
    1024,
    devices=tuple(Device(i, f"g{i}", numa=i // 2) for i in range(6)),
    numa_cpus=((0, 1), (2, 3)),
)
UNKNOWN = NodeSpec("n2", 8000, 1024, devices=(Device(0, "u0"), Device(1, "u1")))
SPECS = {"n1": NUMA, "n2": UNKNOWN}


def held(node: str, *devices: int, cpus: tuple[int, ...] = ()) -> Allocation:
    return Allocation(node, 1000, 0, devices=devices, cpus=cpus)


@pytest.mark.parametrize(
    ("allocations", "points"),
    [
        ([held("n1", 0, 1)], 150),
        ([held("n1", 0), held("n1", 1)], 150),
        ([held("n1", 1, 2)], 130),
        ([held("n1", 0, 2, 4)], 120),
        ([held("n2", 0)], 150),
        ([held("n2", 0, 1)], 120),
        ([held("n1", cpus=(0, 1))], 150),
        ([held("n1", cpus=(1, 2))], 130),
        ([held("n1")], 120),
        ([held("n1", 0), held("n2", 0)], 50),
        ([held("gone", 0)], 120),
        ([], 0),
    ],
)
def test_a_placement_is_worth_more_the_nearer_its_devices_are(allocations, points):
    assert placement_score(allocations, SPECS) == points


@pytest.mark.parametrize("name", ["score", "best-fit"])
def test_a_score_takes_microseconds(name):
    place, free = strategy(name, DEFAULT), node(3)

    best_s = min(timeit.repeat(lambda: place(CPU, free, EIGHT, 0), number=1000, repeat=5)) / 1000

    assert best_s < 50e-6


def test_disk_counts_where_a_request_takes_the_most_of_that():
    score, total = strategy("score", DEFAULT), Total(8000, 65536, 1000)
    nothing = score(Request(cpu_milli=0), Free(0, 0), Total(1, 1), 0)

    def fit(free: Free, **wishes: int) -> int:
        load = score(Request(cpu_milli=0), free, total, 0)
        return score(Request(**wishes), free, total, 0) - load + nothing

    half = Free(4000, 32768, 500)

    # Of every 100 points of a tight fit 30 count; an idle request has those of its CPUs.
    base = 30 * 5_000
    assert fit(half, cpu_milli=1000, disk_mib=400) == 30 * 9_000 - base + nothing
    assert fit(half, cpu_milli=1000, disk_mib=100) == 30 * 6_250 - base + nothing
    assert fit(half, cpu_milli=1000, memory_mib=16384, disk_mib=100) == 30 * 7_500 - base + nothing
    assert fit(half, cpu_milli=1000, memory_mib=16384, disk_mib=300) == 30 * 8_000 - base + nothing


def test_gpu_packing_fills_a_device_to_the_last_part():
    half = Request(device="gpu", device_count=1, shared=True, device_milli=500)

    assert best_of("gpu-packing", half, [node(3), node(3, partly=(20480,))]) == 1
