"""Of several things in a job's way, the reason is the one that it waits for."""

import pytest

from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.placing import Operator, Placement, Selector, Taint
from rota.core.facts.tenant import Reservation
from rota.scheduling.answers import reasons as why
from rota.scheduling.answers.explain import Explanation, Inquiry, explain
from rota.testing.scene import BOB, Scene

HOUR_S = 3600
DAY_S = 24 * HOUR_S
MINUTES_S = 600
CARDS = tuple(Device(index=i, uuid=f"g{i}", model="A100", memory_mib=40960) for i in range(2))


def story(scene: Scene, job: str) -> Explanation:
    return explain(scene.controller.scheduler, scene.names[job], scene.now_s)


def reserve(scene: Scene, number: int, start_s: float, end_s: float, **fields: object) -> None:
    """From one moment to another, counted from now; the owner is bob unless it is said."""
    made = Reservation(
        id=number,
        start_s=scene.now_s + start_s,
        end_s=scene.now_s + end_s,
        **({"owner": "bob"} | fields),
    )
    scene.cluster.reservations[number] = made
    scene.cluster.rules_changed()


def maintain(scene: Scene, *nodes: str) -> None:
    """Reservation 2: tomorrow, nobody's."""
    reserve(scene, 2, DAY_S, DAY_S + 2 * HOUR_S, nodes=nodes, owner="")


def test_a_reservation_of_devices_is_no_reason_for_a_job_that_asks_for_none():
    scene = Scene(cpus=4, gpus=2)
    reserve(scene, 1, 0, MINUTES_S, node="box", devices=(0,))
    maintain(scene, "box")

    scene.submit("plain")

    told = story(scene, "plain")
    assert told.reason == "reservation 2 for maintenance begins in 1d"
    assert told.tree.expected == why.Expected(scene.now_s + DAY_S + 2 * HOUR_S, ("box",))
    assert not any("reservation 1" in line for line in told.lines)


def test_on_each_of_several_nodes_the_reservation_that_leaves_no_room_is_named():
    scene = Scene(cpus=4, gpus=2, nodes=3)
    reserve(scene, 1, 0, MINUTES_S, nodes=("box1", "box2"), device_count=3)
    maintain(scene, "box1", "box2", "box3")

    scene.submit("plain")

    tree = story(scene, "plain").tree
    assert [(type(one), one.reservation, one.nodes) for one in tree.unsatisfied] == [
        (why.Claimed, 2, 3)
    ]


def test_a_reservation_of_devices_is_the_reason_of_a_job_that_asks_for_them():
    scene = Scene(cpus=4, gpus=2)
    reserve(scene, 1, 0, MINUTES_S, node="box", devices=(0, 1))
    maintain(scene, "box")

    scene.submit("short", gpus=1, time_limit_s=HOUR_S)

    told = story(scene, "short")
    assert told.reason == "reservation 1 of bob ends in 10m"
    assert told.tree.expected == why.Expected(scene.now_s + MINUTES_S, ("box",))


def test_where_the_job_has_to_wait_for_a_second_reservation_too_that_one_is_named():
    scene = Scene(cpus=4)
    reserve(scene, 1, 0, MINUTES_S, nodes=("box",))
    maintain(scene, "box")

    scene.submit("unlimited")
    scene.submit("short", time_limit_s=HOUR_S)

    assert scene.why("unlimited") == "reservation 2 for maintenance begins in 1d"
    assert scene.why("short") == "reservation 1 of bob ends in 10m"


def test_two_reservations_that_begin_together_are_told_apart():
    scene = Scene(cpus=4, gpus=2)
    reserve(scene, 1, HOUR_S, 9 * HOUR_S, node="box", devices=(0,))
    reserve(scene, 2, HOUR_S, 2 * HOUR_S, nodes=("box",), owner="")

    scene.submit("plain", time_limit_s=2 * HOUR_S)

    assert scene.why("plain") == "reservation 2 for maintenance begins in 1h"


def test_of_two_claims_that_leave_no_room_only_together_the_later_one_is_named():
    scene = Scene(cpus=4, gpus=2)
    reserve(scene, 1, 0, 5 * HOUR_S, node="box", devices=(0,))
    reserve(scene, 2, HOUR_S, 5 * HOUR_S, node="box", devices=(1,))

    scene.submit("job", gpus=1, time_limit_s=2 * HOUR_S)

    assert scene.why("job") == "reservation 2 of bob begins in 1h"


def test_the_node_that_opens_first_gives_the_reason():
    scene = Scene(cpus=4, nodes=2)
    reserve(scene, 1, 0, MINUTES_S, nodes=("box2",))
    maintain(scene, "box1")

    scene.submit("unlimited")

    told = story(scene, "unlimited")
    assert told.reason == "reservation 1 of bob ends in 10m"
    assert told.tree.expected == why.Expected(scene.now_s + MINUTES_S, ("box2",))
    assert isinstance(told.tree.unsatisfied[1], why.Claimed)


def test_a_promise_that_leaves_no_room_is_named_and_not_a_reservation_that_would():
    scene = Scene(cpus=4, gpus=2)
    reserve(scene, 1, 0, MINUTES_S, node="box", devices=(0,))
    scene.submit("hog", cpus=3, time_limit_s=HOUR_S)
    big = scene.submit("big", cpus=4, time_limit_s=HOUR_S, priority=60)

    scene.submit("plain", cpus=1, time_limit_s=2 * HOUR_S)

    assert scene.why("plain") == f"would delay job {big}, which starts in 1h"


def test_a_promise_that_leaves_no_room_beside_a_reservation_is_named_though_it_begins_first():
    scene = Scene(cpus=8, gpus=2)
    reserve(scene, 1, HOUR_S, 5 * HOUR_S, node="box", devices=(0,))
    scene.submit("hog", cpus=6, time_limit_s=HOUR_S // 2)
    big = scene.submit("big", cpus=7, gpus=1, time_limit_s=HOUR_S, priority=60)

    scene.submit("job", gpus=1, time_limit_s=3 * HOUR_S)

    assert scene.why("job") == f"would delay job {big}, which starts in 30m"


def test_of_several_promises_the_first_that_leaves_no_room_is_named():
    scene = Scene(cpus=4)
    scene.set_policy("conservative")
    scene.submit("hog", cpus=3, time_limit_s=HOUR_S)
    scene.submit("two", cpus=2, time_limit_s=HOUR_S)
    four = scene.submit("four", cpus=4, time_limit_s=HOUR_S)

    scene.submit("job", cpus=1, time_limit_s=3 * HOUR_S)

    assert scene.why("job") == f"would delay job {four}, which starts in 2h"


def racks(scene: Scene) -> None:
    """Three nodes; only ``nt`` is tainted."""
    for name in ("na", "nb"):
        scene.add_node(NodeSpec(name, 4000, 1000, labels={"rack": "a"}))
    scene.add_node(NodeSpec("nt", 4000, 1000, labels={"rack": "t"}, taints=(Taint("broken"),)))


def short(scene: Scene, job: str) -> str:
    """The one-line reason as lists show it."""
    return Inquiry(scene.controller.scheduler, scene.now_s).reason(scene.names[job])


@pytest.mark.parametrize(
    "wish",
    [
        Placement(nodes=("nt",)),
        Placement(exclude=("na", "nb")),
        Placement(selectors=(Selector("rack", Operator.EQ, ("t",)),)),
    ],
)
def test_the_taint_of_the_only_node_that_a_job_wants_is_the_reason(wish):
    scene = Scene(nodes=0)
    racks(scene)

    scene.submit("job", placement=wish, scheduling_timeout_s=60)

    assert short(scene, "job") == "node nt: taint broken"
    assert scene.why("job") == "node nt: taint broken"


def test_a_node_that_fails_in_one_thing_gives_the_reason_before_many_that_fail_in_two():
    scene = Scene(nodes=0)
    for number in range(70):
        scene.add_node(NodeSpec(f"n{number:02}", 1000, 500))
    scene.add_node(NodeSpec("large", 8000, 500))

    scene.submit("job", cpus=4, mem=1000, scheduling_timeout_s=60)

    assert short(scene, "job") == "node large has 500M of memory, needs 1000M"


def test_among_nodes_that_fail_in_as_many_things_the_last_filter_decides():
    scene = Scene(nodes=0)
    scene.add_node(NodeSpec("cards", 1000, 1000, devices=CARDS))
    scene.add_node(NodeSpec("plain", 4000, 1000))

    scene.submit("job", cpus=2, gpus=1, scheduling_timeout_s=60)

    assert short(scene, "job") == "node cards has 1 cpu, needs 2"


def test_a_node_that_is_only_away_comes_closer_than_one_that_a_filter_rules_out():
    scene = Scene(nodes=0)
    racks(scene)
    scene.disconnect("na")
    scene.submit("job", placement=Placement(exclude=("nb",)), scheduling_timeout_s=60, actor=BOB)

    assert short(scene, "job").startswith("node na is down")
