"""What waits for room, and which nodes that do not exist yet would take it."""

import pytest
from msgspec.structs import replace

from rota.controller.commands import commands as cmd
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.placing import Placement
from rota.core.facts.tenant import Reservation
from rota.scheduling.answers.demand import RoomNeed, needs
from rota.testing.scene import ADMIN, Scene

SMALL = NodeSpec("", 4000, 8000, 1000)
GPUS = NodeSpec("", 8000, 64000, 1000, devices=(Device(0, "u0", model="h200"),))


def asked(scene: Scene, *offers: NodeSpec, jobs_max: int = 1000) -> list[RoomNeed]:
    return needs(scene.controller.scheduler, offers, jobs_max)


def test_what_waits_for_room_is_told_by_what_it_asks_for():
    scene = Scene(cpus=1)
    scene.submit("runs", cpus=1)
    for _ in range(3):
        scene.submit(cpus=1)
    scene.set_policy()

    (found,) = asked(scene, SMALL)

    assert (found.cpu_milli, found.tasks, found.jobs, found.fits) == (1000, 1, 3, (0,))


def test_the_elements_of_an_array_count_up_to_its_cap():
    scene = Scene(cpus=1)
    scene.submit("runs", cpus=1)
    scene.submit("free", array="0-99")
    scene.submit("capped", array="0-99%5")

    assert sorted(need.jobs for need in asked(scene, SMALL)) in ([5, 100], [105])


def test_more_than_is_asked_for_is_not_counted():
    scene = Scene(cpus=1)
    scene.submit("runs", cpus=1)
    scene.submit("many", array="0-99")

    assert [need.jobs for need in asked(scene, SMALL, jobs_max=10)] == [10]


def test_a_job_that_waits_for_a_place_under_a_cap_asks_for_no_node():
    scene = Scene(cpus=4)
    scene.submit("runs", group="g", group_cap=1)

    scene.submit("waits", group="g")

    assert asked(scene, SMALL) == []


def test_a_job_fits_only_where_its_gpus_are_and_its_limit_ends():
    scene = Scene(cpus=1)
    scene.submit("runs", cpus=1)
    scene.submit("gpu", gpus=1, time_limit_s=600, scheduling_timeout_s=1e6)
    hour = NodeSpec("", 8000, 64000, 1000, devices=GPUS.devices, ends_s=3600.0)
    minute = NodeSpec("", 8000, 64000, 1000, devices=GPUS.devices, ends_s=60.0)

    (found,) = [need for need in asked(scene, SMALL, GPUS, hour, minute) if need.gpus]

    assert found.fits == (1, 2)


@pytest.mark.parametrize(
    ("wishes", "offer", "fits"),
    [
        ({}, {}, (0,)),
        # It is for the nodes of a reservation, or for one that it names.
        ({"reservation": 1}, {}, ()),
        ({"placement": Placement(nodes=("box",))}, {}, ()),
        # The offer is for the jobs of one user.
        ({}, {"user": "alice"}, (0,)),
        ({}, {"user": "bob"}, ()),
        # It is there for a while, and a job without a limit may outlive that.
        ({}, {"ends_s": 3600.0}, ()),
        ({}, {"ends_s": 3600.0, "unlimited": True}, (0,)),
        ({"time_limit_s": 3600}, {"ends_s": 3600.0}, (0,)),
        ({"time_limit_s": 3601}, {"ends_s": 3600.0, "unlimited": True}, ()),
    ],
)
def test_an_offer_counts_for_the_jobs_that_it_would_take(wishes, offer, fits):
    scene = Scene(cpus=1)
    reserved = Reservation(0, "alice", scene.now_s, scene.now_s + 1e6, nodes=("box",))
    scene.ask(cmd.AddReservation(actor=ADMIN, reservation=reserved))
    scene.submit("runs", cpus=1, reservation=1)

    scene.submit("waits", cpus=1, **wishes)

    (found,) = asked(scene, replace(SMALL, **offer))
    assert found.fits == fits
