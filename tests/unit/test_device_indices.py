"""Devices that a job asks for by their numbers."""

import msgspec
import pytest

from rota.core.facts.errors import Rejected
from rota.core.facts.job import Role
from rota.core.facts.resources import Request
from rota.testing.scene import Scene


def submit(scene: Scene, name: str, *indices: int, count: int = 0, **wishes: object) -> None:
    request = Request(device="gpu", device_count=count or len(indices), device_indices=indices)
    if wishes:
        request = msgspec.structs.replace(request, **wishes)
    scene.submit(name, roles=(Role(request=request),))


def devices(scene: Scene, name: str) -> tuple[int, ...]:
    return scene.job(name).live_attempts[0].allocation.devices


def test_a_job_gets_the_devices_that_it_names_and_sees_only_them():
    scene = Scene(gpus=4)

    submit(scene, "job", 1, 3)

    assert devices(scene, "job") == (1, 3)
    assert scene.launch("job").environment["CUDA_VISIBLE_DEVICES"] == "1,3"


def test_a_job_waits_for_its_own_devices_while_others_are_free():
    scene = Scene(gpus=4)
    submit(scene, "holder", 2)
    submit(scene, "job", 2)
    submit(scene, "other", 0)
    waiting = scene.states("job", "other")

    scene.finish("holder")

    assert waiting == ["queued", "running"]
    assert devices(scene, "job") == (2,)


def test_a_job_may_name_more_than_it_needs():
    scene = Scene(gpus=4)
    submit(scene, "holder", 1)

    submit(scene, "job", 1, 2, 3, count=2)

    assert devices(scene, "job") == (2, 3)


def test_shared_jobs_meet_on_the_device_that_they_name():
    scene = Scene(gpus=2)

    for name in ("one", "two"):
        submit(scene, name, 1, shared=True, device_memory_mib=10_000)

    assert (devices(scene, "one"), devices(scene, "two")) == ((1,), (1,))


def test_a_number_that_no_node_has_is_refused_at_submit():
    scene = Scene(gpus=2)

    with pytest.raises(Rejected, match="1 GPU with index 7"):
        submit(scene, "job", 7)
