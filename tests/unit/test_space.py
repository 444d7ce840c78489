"""The free room by node: what a want sees as nodes fill, empty, come and go."""

import pytest

from rota.core.changes import events as ev
from rota.core.cluster import Cluster
from rota.core.derived.lanes import shape_of
from rota.core.facts.node import Allocation
from rota.core.facts.policy import DEFAULT, PlaceRules, Policy
from rota.core.facts.resources import Amount
from rota.scheduling.place.node_index import Space
from rota.scheduling.place.numbers import SPARE, Numbers
from rota.testing.stage import Stage, node, spec


def a_space(*nodes) -> tuple[Space, Cluster]:
    cluster = Stage(nodes).cluster
    space = Space(DEFAULT)
    for name in cluster.nodes:
        space.refresh(cluster, name)
    return space, cluster


def open_to(space: Space, **wishes) -> list[str]:
    shape = shape_of(spec(**wishes))
    (want,) = space.wants(hash(shape), shape)
    return sorted(space.open_nodes(want))


def test_nodes_are_open_to_what_fits_in_every_dimension():
    space, _ = a_space(node("a", cpus=2, mem=100), node("b", cpus=8, mem=10), node("c", gpus=1))

    assert open_to(space, cpus=2, mem=50) == ["a", "c"]
    assert open_to(space, cpus=8) == ["b"]
    assert open_to(space, gpus=1) == ["c"]
    assert open_to(space, cpus=9) == []


def test_what_is_taken_is_missing_until_it_is_given_back():
    space, _ = a_space(node("a", cpus=4))
    held = Allocation("a", 3000, 0)

    space.take("a", held)
    assert open_to(space, cpus=2) == []

    space.give_back("a", held)
    assert open_to(space, cpus=2) == ["a"]


def test_a_node_that_somebody_has_to_himself_is_open_to_nobody():
    space, _ = a_space(node("a", cpus=4, gpus=1))

    space.take("a", Allocation("a", 1000, 0, exclusive=True))

    assert open_to(space, cpus=0) == []
    assert open_to(space, cpus=0, gpus=1, gpu_mem=1) == []


def test_a_node_that_is_drained_or_removed_is_open_to_nobody():
    space, cluster = a_space(node("a"), node("b"))
    cluster.nodes["a"].drained = True
    del cluster.nodes["b"]

    for name in ("a", "b"):
        space.refresh(cluster, name)

    assert open_to(space, cpus=1) == []


def test_whole_and_shared_devices_are_told_apart():
    space, _ = a_space(node("a", gpus=2, gpu_mem=1000))
    space.take("a", Allocation("a", 0, 0, devices=(0,), device_memory_mib=600, shared=True))

    assert open_to(space, gpus=1) == ["a"]
    assert open_to(space, gpus=2) == []
    assert open_to(space, gpus=2, gpu_mem=400) == ["a"]
    assert open_to(space, gpus=2, gpu_mem=401) == []
    assert open_to(space, gpus=1, gpu_mem=1000) == ["a"]


def test_labels_that_an_operator_adds_change_what_a_node_is_open_to():
    stage = Stage([node("a")])
    stage.run()
    stage.tell(ev.NodeMarked(node="a", labels={"rack": "r1"}))

    stage.scheduler.catch_up(stage.now_s)

    assert stage.scheduler.space.class_of["a"].labels == {"rack": "r1"}


def test_a_number_that_was_dropped_is_not_given_out_again():
    used = {0}
    numbers = Numbers[str](16, lambda: used)

    given = [numbers.number(f"value {n}") for n in range(3 * SPARE)]

    assert given == [*range(3 * SPARE)]
    assert len(numbers.of) <= 2 * SPARE
    assert numbers.number("value 0") == 0
    assert numbers.number("value 1") == 3 * SPARE


def test_numbers_that_run_out_are_no_others():
    numbers = Numbers[int](2, set)
    for value in range(4):
        numbers.number(value)

    with pytest.raises(OverflowError):
        numbers.number(4)


def test_many_states_of_devices_that_came_and_went_leave_a_shared_device_as_it_was():
    space, _ = a_space(node("a", gpus=1, gpu_mem=40_000))

    for mib in range(1, 4 * SPARE):
        held = Allocation("a", 0, 0, devices=(0,), device_memory_mib=mib, shared=True)
        space.take("a", held)
        space.give_back("a", held)

    assert open_to(space, gpus=1, gpu_mem=40_000) == ["a"]


def test_the_dearest_node_is_no_measure_once_it_has_left():
    space, cluster = a_space(node("a", cost="9"), node("b", cost="1"))
    del cluster.nodes["a"]

    space.refresh(cluster, "a")

    fresh = Space(DEFAULT)
    fresh.refresh(cluster, "b")
    shape = shape_of(spec(cpus=1))
    lived, new = (one.wants(1, shape)[0] for one in (space, fresh))
    for one, want in ((space, lived), (fresh, new)):
        one.catch_up(want)
    assert [key >> 48 for key in lived.heaps[1]] == [key >> 48 for key in new.heaps[1]]


def test_what_is_known_of_kinds_of_nodes_that_are_gone_is_forgotten():
    space, cluster = a_space(node("a"), node("b"))
    shape = shape_of(spec(cpus=1))

    for number in range(1_000):
        cluster.nodes["a"].labels = {"round": str(number)}
        space.refresh(cluster, "a")
        (want,) = space.wants(1, shape)
        assert sorted(space.open_nodes(want)) == ["a", "b"]

    assert len(space.classes_for([want])) < 200
    assert len(want.standings) < 200


def test_of_nodes_that_differ_only_in_their_shared_devices_the_same_one_is_best_in_any_order():
    even = [Allocation("a", 0, 0, devices=(0, 1), device_memory_mib=400, shared=True)]
    uneven = [
        Allocation("b", 0, 0, devices=(index,), device_memory_mib=mib, shared=True)
        for index, mib in ((0, 200), (1, 600))
    ]
    found = []

    for taken in (even + uneven, uneven + even):
        space, _ = a_space(node("a", gpus=2, gpu_mem=1000), node("b", gpus=2, gpu_mem=1000))
        for one in taken:
            space.take(one.node, one)
        shape = shape_of(spec(cpus=1))
        (want,) = space.wants(1, shape)
        space.catch_up(want)
        found.append(space.best(want, 1, 0.0, space.rooms.get)[0])

    assert found[0] == found[1]


def test_what_a_want_knows_of_amounts_that_are_gone_is_dropped_though_no_job_is_placed():
    space, _ = a_space(node("a", mem=10_000), node("b", mem=10_000))
    (want,) = space.wants(1, shape_of(spec(cpus=1)))

    for mib in range(1, 3_000):
        held = Allocation("a", 0, mib)
        space.take("a", held)
        space.catch_up(want)
        space.give_back("a", held)

    assert sum(map(len, want.heaps)) < 1_000
    assert sorted(space.open_nodes(want)) == ["a", "b"]


def test_a_scorer_is_shown_what_a_node_has_left_and_what_it_adds_decides():
    space, _ = a_space(node("a", cpus=4, mem=70, disk=50, gpus=3), node("b", cpus=4, mem=70))
    space.take("a", Allocation("a", 1000, 20, 5, devices=(1,)))
    seen = {}

    def wishes(shape, view) -> int:
        seen[view.spec.name] = view.free
        return 10**9 * (view.spec.name == "b")

    space.score_with(wishes)
    (want,) = space.wants(1, shape_of(spec(cpus=1)))
    space.catch_up(want)

    assert seen["a"] == Amount(3000, 50, 45, 2000)
    assert space.best(want, 1, 0.0, space.rooms.get)[0] == "b"


def test_where_names_decide_a_want_remembers_a_bounded_number_of_states():
    policy = Policy(place=PlaceRules(strategy="best-fit"))
    cluster = Stage([node("a", mem=10_000)], policy).cluster
    space = Space(policy)
    space.refresh(cluster, "a")
    (want,) = space.wants(1, shape_of(spec(cpus=1)))

    for mib in range(1, 3_000):
        held = Allocation("a", 0, mib)
        space.take("a", held)
        space.catch_up(want)
        space.give_back("a", held)

    assert len(want.points) <= 1_024
    assert [*space.open_nodes(want)] == ["a"]


def test_what_was_found_out_about_shapes_that_no_job_waits_with_is_dropped_once_they_are_many():
    space, _ = a_space(node("a", cpus=4))
    first = space.wants(0, shape_of(spec(cpus=1)))
    for number in range(1, 700):
        space.wants(number, shape_of(spec(cpus=1, mem=number)))

    space.forget_unused({0: first[0].shape})

    assert space.wants(0, first[0].shape) is first
    (again,) = space.wants(1, shape_of(spec(cpus=1, mem=1)))
    assert again.seen == 0
