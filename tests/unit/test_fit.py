"""Whether a job fits on a node, dimension by dimension, and what exactly it gets there."""

import pytest

from rota.core.facts.errors import Rejected
from rota.core.facts.node import Device, ForeignUse, NodeSpec
from rota.core.facts.resources import Request
from rota.scheduling.place.node_room import Room, is_variant
from rota.testing.scene import Scene


def cards(
    count: int, *, memory_mib: int = 1000, kind: str = "gpu", first: int = 0
) -> tuple[Device, ...]:
    return tuple(
        Device(index=i, uuid=f"{kind}{i}", kind=kind, memory_mib=memory_mib)
        for i in range(first, first + count)
    )


def scene_with(*devices: Device, cpus: int = 8) -> Scene:
    scene = Scene(nodes=0)
    scene.add_node(NodeSpec("box", cpus * 1000, 1000, 1000, tuple(range(cpus)), devices))
    return scene


@pytest.mark.parametrize(
    ("dimension", "hog", "next_one"),
    [
        ("cpus", {"cpus": 3}, {"cpus": 2}),
        ("memory", {"mem": 700}, {"mem": 301}),
        ("disk", {"disk": 700}, {"disk": 301}),
        ("gpus", {"gpus": 1}, {"gpus": 2}),
        ("tpus", {"tpus": 1}, {"tpus": 2}),
    ],
)
def test_a_job_waits_for_the_dimension_that_is_short(dimension, hog, next_one):
    scene = scene_with(*cards(2), *cards(2, kind="tpu", first=2), cpus=4)
    scene.submit("hog", **({"cpus": 1} | hog))

    scene.submit("waits", **({"cpus": 1} | next_one))

    assert scene.state("waits") == "queued"
    assert scene.why("waits") == f"not enough free {dimension}"


@pytest.mark.parametrize("exact", [{"cpus": 1}, {"mem": 300}, {"disk": 300}, {"gpus": 1}])
def test_a_request_equal_to_what_is_left_fits(exact):
    scene = scene_with(*cards(2), cpus=4)
    scene.submit("hog", cpus=3, mem=700, disk=700, gpus=1)

    scene.submit("fits", **({"cpus": 1} | exact))

    assert scene.is_running("fits")


def test_room_is_counted_by_what_was_asked_for_not_by_what_is_used():
    scene = scene_with(cpus=4)
    scene.submit("idle", cpus=1, mem=900)
    scene.job("idle").tasks[0].attempts[0].peak_memory_mib = 1

    scene.submit("second", cpus=1, mem=200)

    assert scene.state("second") == "queued"


def test_a_gpu_job_starts_only_on_the_node_that_has_gpus():
    scene = Scene(nodes=0)
    scene.add_node(NodeSpec("a-plain", 8000, 1000))
    scene.add_node(NodeSpec("b-cards", 8000, 1000, devices=cards(1)))

    scene.submit("train", gpus=1)

    assert scene.job("train").tasks[0].attempts[0].allocation.node == "b-cards"


def test_a_tpu_is_no_gpu():
    scene = scene_with(*cards(4, kind="tpu"))

    with pytest.raises(Rejected, match=r"resources\.gpus"):
        scene.submit("train", gpus=1)


def test_a_named_variant_takes_that_model_and_waits_while_only_others_are_free():
    scene = scene_with(
        Device(index=0, uuid="a", model="NVIDIA A100-SXM4-80GB"),
        Device(index=1, uuid="b", model="NVIDIA H100 80GB HBM3"),
    )

    scene.submit("first", gpus=1, gpu_type="H100")
    scene.submit("second", gpus=1, gpu_type="H100")

    assert scene.job("first").tasks[0].attempts[0].allocation.devices == (1,)
    assert scene.state("second") == "queued"


@pytest.mark.parametrize("anything", ["", "auto"])
def test_no_variant_and_auto_match_any_model(anything):
    scene = scene_with(Device(index=0, uuid="a", model="Whatever 9000"))

    scene.submit("train", gpus=1, gpu_type=anything)

    assert scene.is_running("train")


@pytest.mark.parametrize(
    ("model", "wanted", "same"),
    [
        ("A100", "A100", True),
        ("NVIDIA A100-SXM4-80GB", "a100", True),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB", True),
        ("NVIDIA GeForce RTX 4090", "RTX4090", True),
        ("NVIDIA GeForce RTX 4090", "rtx 4090", True),
        ("v5litepod-16", "v5litepod-16", True),
        ("NVIDIA A100-SXM4-80GB", "A10", False),
        ("NVIDIA L40S", "L4", False),
        ("NVIDIA A100-SXM4-40GB", "A100-80GB", False),
        ("NVIDIA A100-SXM4-80GB", "H100", False),
        ("", "A100", False),
    ],
)
def test_a_variant_is_matched_by_whole_words(model, wanted, same):
    assert is_variant(model, wanted) is same


def test_gpu_memory_asked_for_rules_out_smaller_cards():
    scene = scene_with(
        Device(index=0, uuid="s", memory_mib=500), Device(index=1, uuid="l", memory_mib=900)
    )

    scene.submit("large", gpus=1, gpu_mem=600)

    assert scene.job("large").tasks[0].attempts[0].allocation.devices == (1,)


def test_shared_jobs_fill_a_card_up_to_its_memory_and_no_further():
    scene = scene_with(*cards(1))
    scene.submit("a", gpus=1, gpu_mem=600, shared=True)
    scene.submit("b", gpus=1, gpu_mem=400, shared=True)

    scene.submit("c", gpus=1, gpu_mem=1, shared=True)

    assert scene.states("a", "b", "c") == ["running", "running", "queued"]


def test_shared_jobs_gather_on_one_card_and_leave_the_other_whole():
    scene = scene_with(*cards(2))
    for name in ("a", "b", "c"):
        scene.submit(name, gpus=1, gpu_mem=300, shared=True)

    scene.submit("alone", gpus=1)

    devices = {n: scene.job(n).tasks[0].attempts[0].allocation.devices for n in ("a", "b", "c")}
    assert set(devices.values()) == {(0,)}
    assert scene.job("alone").tasks[0].attempts[0].allocation.devices == (1,)


def test_a_shared_job_joins_the_fullest_card_that_has_room_for_it():
    scene = scene_with(*cards(2))
    scene.submit("first", gpus=1, gpu_mem=400, shared=True)
    scene.submit("second", gpus=1, gpu_mem=700, shared=True)
    scene.finish("first")

    scene.submit("small", gpus=1, gpu_mem=100, shared=True)

    assert scene.job("small").tasks[0].attempts[0].allocation.devices == (1,)


def test_an_exclusive_job_never_joins_a_shared_card():
    scene = scene_with(*cards(1))
    scene.submit("shares", gpus=1, gpu_mem=100, shared=True)

    scene.submit("alone", gpus=1)

    assert scene.state("alone") == "queued"


def test_a_shared_job_never_joins_an_exclusive_card():
    scene = scene_with(*cards(1))
    scene.submit("alone", gpus=1)

    scene.submit("shares", gpus=1, gpu_mem=100, shared=True)

    assert scene.state("shares") == "queued"


def test_a_card_is_whole_again_when_its_last_sharer_has_gone():
    scene = scene_with(*cards(1))
    scene.submit("a", gpus=1, gpu_mem=100, shared=True)
    scene.submit("b", gpus=1, gpu_mem=100, shared=True)
    scene.submit("alone", gpus=1)

    scene.finish("a")
    between = scene.state("alone")
    scene.finish("b")

    assert between == "queued"
    assert scene.is_running("alone")


def test_a_shared_job_must_say_how_much_memory_it_takes():
    scene = scene_with(*cards(1))

    with pytest.raises(Rejected, match="name how much") as refusal:
        scene.submit("greedy", gpus=1, shared=True)

    assert refusal.value.field == "resources.gpu_memory_mb"


def test_a_card_of_unknown_size_is_given_whole():
    scene = scene_with(*cards(1, memory_mib=0))

    scene.submit("alone", gpus=1)

    assert scene.is_running("alone")


def test_a_card_of_unknown_size_is_not_shared():
    scene = scene_with(*cards(1, memory_mib=0))

    with pytest.raises(Rejected, match=r"resources\.gpu_memory"):
        scene.submit("shares", gpus=1, gpu_mem=1, shared=True)


def test_a_card_of_unknown_size_is_offered_to_no_sharer_whatever_it_names():
    scene = scene_with(*cards(1, memory_mib=0))
    request = Request(device="gpu", device_count=1, shared=True)

    assert Room.now(scene.cluster.nodes["box"]).shortage(request) == "gpus"


def test_a_card_that_a_stranger_uses_is_not_given_whole():
    scene = scene_with(*cards(2))
    scene.see_strangers("box", ForeignUse(0, 77, "eve", 200))

    scene.submit("alone", gpus=1)
    scene.submit("second", gpus=1)

    assert scene.job("alone").tasks[0].attempts[0].allocation.devices == (1,)
    assert scene.state("second") == "queued"


def test_a_shared_job_gets_what_a_stranger_left_on_the_card():
    scene = scene_with(*cards(1))
    scene.see_strangers("box", ForeignUse(0, 77, "eve", 600), ForeignUse(0, 78, "eve", 100))

    scene.submit("small", gpus=1, gpu_mem=300, shared=True)
    scene.submit("one more", gpus=1, gpu_mem=1, shared=True)

    assert scene.states("small", "one more") == ["running", "queued"]


def test_a_waiting_job_starts_when_the_stranger_leaves_the_card():
    scene = scene_with(*cards(1))
    scene.see_strangers("box", ForeignUse(0, 77, "eve", 600))
    scene.submit("alone", gpus=1)

    scene.see_strangers("box")

    assert scene.is_running("alone")


def test_devices_of_one_numa_domain_are_preferred_to_low_numbers():
    domains = [0, 1, 0, 1]
    scene = scene_with(*(Device(index=i, uuid=f"g{i}", numa=d) for i, d in enumerate(domains)))

    scene.submit("pair", gpus=2)

    assert scene.job("pair").tasks[0].attempts[0].allocation.devices == (0, 2)


def test_the_smallest_domain_that_is_large_enough_is_broken_into_first():
    domains = [0, 0, 0, 1]
    scene = scene_with(*(Device(index=i, uuid=f"g{i}", numa=d) for i, d in enumerate(domains)))

    scene.submit("one", gpus=1)
    scene.submit("three", gpus=3)

    assert scene.job("one").tasks[0].attempts[0].allocation.devices == (3,)
    assert scene.job("three").tasks[0].attempts[0].allocation.devices == (0, 1, 2)


def test_a_job_that_no_domain_can_hold_spreads_over_domains():
    scene = scene_with(*(Device(index=i, uuid=f"g{i}", numa=i // 2) for i in range(4)))

    scene.submit("three", gpus=3)

    assert scene.is_running("three")


def test_pinned_cpus_of_running_jobs_are_disjoint_and_given_back():
    scene = scene_with(cpus=4)
    scene.submit("a", cpus=2)
    scene.submit("b", cpus=2)
    pins = {name: scene.job(name).tasks[0].attempts[0].allocation.cpus for name in ("a", "b")}

    scene.finish("a")
    scene.submit("c", cpus=2)

    assert pins == {"a": (0, 1), "b": (2, 3)}
    assert scene.job("c").tasks[0].attempts[0].allocation.cpus == (0, 1)


def test_a_job_of_half_a_cpu_is_counted_and_not_pinned():
    scene = scene_with(cpus=1)

    scene.submit("a", cpus=0.5)
    scene.submit("b", cpus=0.5)
    scene.submit("c", cpus=0.5)

    assert scene.states("a", "b", "c") == ["running", "running", "queued"]
    assert scene.job("a").tasks[0].attempts[0].allocation.cpus == ()


def test_a_node_without_cpu_numbers_counts_cpus_and_pins_none():
    scene = Scene(nodes=0)
    scene.add_node(NodeSpec("box", 2000, 1000))

    scene.submit("a", cpus=2)
    scene.submit("b", cpus=1)

    assert scene.states("a", "b") == ["running", "queued"]
    assert scene.job("a").tasks[0].attempts[0].allocation.cpus == ()
