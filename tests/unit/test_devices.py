"""Which devices of a node a task gets."""

import itertools
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.facts.node import Device
from rota.core.facts.resources import Request
from rota.scheduling.place.devices import choose_devices, open_devices
from rota.scheduling.place.node_room import DeviceRoom
from rota.scheduling.place.pins import near_cpus


def rooms(*devices: Device) -> list[DeviceRoom]:
    return [DeviceRoom(device) for device in devices]


def gpus(*numa: int, links: dict[int, tuple[int, ...]] | None = None) -> list[DeviceRoom]:
    return rooms(
        *(
            Device(i, f"gpu-{i}", memory_mib=40960, numa=domain, links=(links or {}).get(i, ()))
            for i, domain in enumerate(numa)
        )
    )


def want(count: int = 1, **more) -> Request:
    return Request(device="gpu", device_count=count, **more)


def pick(request: Request, node: list[DeviceRoom], how: str = "numa", seed: int = 0):
    return choose_devices(request, open_devices(request, node), how, seed)


def test_devices_of_one_numa_domain_are_preferred():
    node = gpus(0, 1, 0, 1)

    assert pick(want(2), node) in {(0, 2), (1, 3)}


def test_the_smallest_domain_that_suffices_is_used_so_that_large_ones_stay_whole():
    node = gpus(0, 0, 0, 0, 1, 1)

    assert pick(want(2), node) == (4, 5)
    assert pick(want(1), node) == (4,)
    assert pick(want(3), node) == (0, 1, 2)


def test_when_no_domain_suffices_the_fewest_domains_are_used():
    node = gpus(0, 1, 1, 2, 2, 2)

    chosen = pick(want(4), node)

    assert {node[index].device.numa for index in chosen} == {0, 2}


def test_within_a_domain_linked_devices_go_together():
    pairs = {0: (2,), 2: (0,), 1: (3,), 3: (1,)}

    assert pick(want(2), gpus(0, 0, 0, 0, links=pairs)) == (0, 2)


def test_among_equal_domains_the_one_with_more_links_wins():
    links = {2: (3,), 3: (2,)}

    assert pick(want(2), gpus(0, 0, 1, 1, links=links)) == (2, 3)


def test_a_single_task_leaves_linked_pairs_whole():
    links = {0: (1,), 1: (0,)}

    assert pick(want(1), gpus(0, 0, 0, links=links)) == (2,)


def test_links_are_followed_greedily_where_there_are_too_many_subsets():
    ring = {i: ((i - 1) % 16, (i + 1) % 16) for i in range(16)}

    chosen = pick(want(5), gpus(*[0] * 16, links=ring))

    assert sum(other in chosen for index in chosen for other in ring[index]) == 8


def test_a_task_for_all_devices_gets_all_and_one_for_more_gets_none():
    node = gpus(0, 0, 1)

    assert pick(want(3), node) == (0, 1, 2)
    assert pick(want(4), node) == ()


def test_a_task_over_several_domains_gets_each_device_once():
    assert pick(want(3), gpus(0, 0, 1, 1)) == (0, 1, 2)
    assert pick(want(5), gpus(0, 0, 1, 1, 2, 2)) == (0, 1, 2, 3, 4)


def test_unknown_domains_count_as_one():
    assert pick(want(2), gpus(-1, -1, -1)) == (0, 1)


def test_shared_tasks_fill_the_fullest_device_that_still_fits():
    node = gpus(0, 0, 0)
    node[1].sharers, node[1].shared_mib = 1, 20480
    node[2].sharers, node[2].shared_mib = 1, 35840

    assert pick(want(shared=True, device_memory_mib=8192), node) == (1,)
    assert pick(want(shared=True, device_memory_mib=4096), node) == (2,)
    assert pick(want(shared=True, device_memory_mib=40000), node) == (0,)


def test_a_shared_task_on_two_devices_gets_two_different_ones():
    node = gpus(0, 0, 0)
    node[2].sharers, node[2].shared_mib = 1, 1024

    assert pick(want(2, shared=True, device_memory_mib=1024), node) == (0, 2)


def test_exclusive_and_shared_tasks_never_sit_on_one_device():
    node = gpus(0, 0)
    node[0].taken = 1
    node[1].sharers, node[1].shared_mib = 1, 1024

    assert pick(want(), node) == ()
    assert pick(want(shared=True, device_memory_mib=1024), node) == (1,)


def test_broken_devices_are_not_handed_out():
    node = rooms(Device(0, "a", healthy=False), Device(1, "b"))

    assert pick(want(), node) == (1,)
    assert pick(want(2), node) == ()


CUT_IN_THREE = tuple(
    device
    for card in (0, 4, 8)
    for device in (
        Device(card, f"card-{card}", model="A100", memory_mib=40960),
        *(Device(card + n, f"part-{card + n}", memory_mib=10240, parent=card) for n in (1, 2, 3)),
    )
)


def test_no_more_whole_devices_are_cut_than_needed():
    """Three whole ones, or one cut and two whole: five; two cut and one whole would be seven."""
    assert pick(want(5), rooms(*CUT_IN_THREE)) == (1, 2, 3, 4, 8)


CARDS = (
    Device(0, "card-0", model="A100", memory_mib=40960),
    Device(1, "card-1", model="A100", memory_mib=40960),
    Device(2, "part-0", model="A100 3g.20gb", memory_mib=20480, parent=0),
    Device(3, "part-1", model="A100 3g.20gb", memory_mib=20480, parent=0),
)


def test_a_whole_device_is_not_available_while_a_part_of_it_is_used():
    node = rooms(*CARDS)
    node[2].taken = 1

    assert pick(want(device_memory_mib=40960), node) == (1,)
    assert pick(want(2, device_memory_mib=40960), node) == ()


def test_parts_are_not_available_while_the_whole_device_is_used():
    node = rooms(*CARDS)
    node[0].taken = 1

    assert pick(want(device_type="3g.20gb"), node) == ()
    assert pick(want(), node) == (1,)


def test_whole_devices_are_cut_into_parts_only_when_too_few_are_left():
    assert pick(want(2), rooms(*CARDS)) == (0, 1)
    assert pick(want(3), rooms(*CARDS)) == (1, 2, 3)
    assert pick(want(4), rooms(*CARDS)) == ()
    assert pick(want(2, device_type="3g.20gb"), rooms(*CARDS)) == (2, 3)


def test_sequential_takes_low_indices_whatever_their_domain():
    assert pick(want(2), gpus(0, 1, 1), "sequential") == (0, 1)


def test_random_depends_on_the_seed_alone():
    node = gpus(*[0] * 8)

    picks = [pick(want(2), node, "random", seed) for seed in range(20)]

    assert picks == [pick(want(2), node[::-1], "random", seed) for seed in range(20)]
    assert len(set(picks)) > 5


@pytest.mark.slow
def test_random_is_the_same_under_every_hash_seed():
    code = (
        "from tests.unit.test_devices import gpus, pick, want;"
        "print([pick(want(2), gpus(*[0] * 8), 'random', seed) for seed in range(5)])"
    )

    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("0", "1")
    }

    assert len(answers) == 1


@st.composite
def nodes(draw) -> list[DeviceRoom]:
    count = draw(st.integers(1, 7))
    node = []
    for index in range(count):
        device = Device(
            index,
            f"uuid-{index}",
            memory_mib=draw(st.sampled_from([0, 16384, 40960])),
            numa=draw(st.integers(-1, 2)),
            links=tuple(draw(st.sets(st.integers(0, count - 1)))),
            healthy=draw(st.booleans()),
            parent=draw(st.integers(-1, index - 1)) if draw(st.booleans()) else -1,
        )
        if device.parent >= 0 and node[device.parent].device.parent >= 0:
            device = Device(index, device.uuid, memory_mib=device.memory_mib)
        node.append(DeviceRoom(device))
        if draw(st.integers(0, 3)) == 0:
            node[-1].taken = 1
    return node


def fits(chosen: tuple[DeviceRoom, ...], node: list[DeviceRoom], request: Request) -> bool:
    """The rule itself: each one offers, and no whole device is used beside a part of it."""
    used = {r.device.index for r in node if r.taken or r.sharers}
    used |= {r.device.index for r in chosen}
    overlap = any(r.device.index in used and r.device.parent in used for r in node)
    return not overlap and all(r.offers(request) and r.device.healthy for r in chosen)


@given(nodes(), st.integers(1, 4), st.booleans(), st.sampled_from(["numa", "sequential", "random"]))
def test_devices_are_found_exactly_when_some_choice_is_possible(node, count, shared, how):
    request = want(count, shared=shared, device_memory_mib=8192 if shared else 0)
    broken_already = not fits((), node, request)

    chosen = pick(request, node, how)

    possible = any(fits(c, node, request) for c in itertools.combinations(node, count))
    assert bool(chosen) == possible or broken_already
    if chosen and not broken_already:
        assert len(set(chosen)) == count
        assert fits(tuple(node[index] for index in chosen), node, request)


@pytest.mark.parametrize(
    ("free", "count", "domains", "pinned"),
    [
        # One domain with numbers in a row: the lowest free ones of it, while there are enough.
        ([0, 1, 2, 3, 4, 5], 2, [(2, 3, 4)], (2, 3)),
        ([0, 1, 2, 4, 5], 2, [(2, 3, 4)], (2, 4)),
        ([0, 1, 4, 5], 2, [(2, 3, 4)], (0, 4)),
        # CPUs of a domain that come in turns with others, and two domains.
        ([0, 1, 2, 3, 5], 2, [(1, 3, 5)], (1, 3)),
        ([0, 1, 2, 6, 7], 3, [(6, 7), (2, 3)], (2, 6, 7)),
        ([0, 1, 2, 6, 7], 4, [(6, 7), (2, 3)], (0, 2, 6, 7)),
        # Not near any device: the lowest numbers.
        ([3, 4, 5], 2, [], (3, 4)),
    ],
)
def test_a_task_is_pinned_to_cpus_near_its_devices_first(free, count, domains, pinned):
    assert near_cpus(free, count, domains) == pinned
