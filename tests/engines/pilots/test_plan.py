"""How many allocations of which shape would help: pure tables."""

import pytest

from rota.backends.api import EngineNode
from rota.core.facts.errors import Rejected
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.site.pilot import Pilot, check
from rota.pilots.plan import Offer, PilotNeed, wanted
from rota.pilots.setbacks import Setbacks
from rota.pilots.shapes import PilotShape, is_of, new_uid, node_of, shapes_of, size_of
from rota.settings.pilots import read_pilot

FOUR = PilotShape(4000, 8000)
GPUS = PilotShape(8000, 64000, 4, "h200")


def need(cpus=1, memory=0, gpus=0, tasks=1, jobs=1, fits=(0,)) -> PilotNeed:
    return PilotNeed(cpus * 1000, memory, gpus, tasks, jobs, fits)


def asked(needs, *, coming=0, most=100, shape=FOUR) -> int:
    return wanted([Offer("hpc", shape, coming=coming)], needs, {"hpc": most})[0]


@pytest.mark.parametrize(
    ("needs", "count"),
    [
        ([], 0),
        ([need()], 1),
        ([need(jobs=4)], 1),
        ([need(jobs=5)], 2),
        ([need(cpus=3, jobs=2), need(jobs=2)], 2),
        ([need(memory=5000, jobs=3)], 3),
        ([need(cpus=5)], 0),
        ([need(fits=())], 0),
        ([need(cpus=0, jobs=3)], 3),
    ],
)
def test_as_many_are_of_use_as_what_waits_fills(needs, count):
    assert asked(needs) == count


def test_never_more_are_asked_for_than_may_be():
    assert asked([need(jobs=1000)], most=3) == 3


def test_those_that_come_are_filled_first():
    assert asked([need(jobs=4)], coming=3) == 1
    assert asked([need(jobs=13)], coming=3) == 4


def test_a_gang_helps_nobody_unless_all_of_it_fits():
    assert asked([need(cpus=4, tasks=4)], most=3) == 0
    assert asked([need(cpus=4, tasks=4)], most=4) == 4


def test_gpus_are_counted_and_go_to_the_shape_that_has_them():
    offers = [Offer("cpu", FOUR), Offer("gpu", GPUS)]
    needs = [need(gpus=2, jobs=3, fits=(1,)), need(jobs=2, fits=(0, 1))]

    assert wanted(offers, needs, {"cpu": 10, "gpu": 10}) == [1, 2]


def test_the_cheapest_are_asked_for_first_and_the_rest_goes_to_the_others():
    offers = [Offer("dear", FOUR, 3.0), Offer("cheap", FOUR, 1.0)]

    assert wanted(offers, [need(jobs=12, fits=(0, 1))], {"dear": 5, "cheap": 2}) == [1, 2]


def test_one_pilot_with_two_kinds_of_nodes_asks_for_no_more_than_it_may_of_both():
    offers = [Offer("hpc", FOUR), Offer("hpc", GPUS)]
    needs = [need(jobs=4, fits=(0,)), need(gpus=4, jobs=4, fits=(1,))]

    assert wanted(offers, needs, {"hpc": 3}) == [1, 2]


def test_a_uid_says_whose_it_is_and_what_it_has():
    uid = new_uid("hpc-a", GPUS)

    assert is_of("hpc-a", uid)
    assert not is_of("hpc", uid)
    assert not is_of("hpc-a", "0123abcd.0.1")
    assert size_of("hpc-a", uid) == (8000, 64000, 4)
    assert node_of("hpc-a", uid).startswith("hpc-a-")


def test_without_a_size_every_kind_of_node_in_service_is_a_shape():
    devices = tuple(Device(at, f"u{at}", model="h200") for at in range(4))
    nodes = [
        EngineNode(spec=NodeSpec("a", 4000, 8000)),
        EngineNode(spec=NodeSpec("b", 4000, 8000)),
        EngineNode(spec=NodeSpec("c", 8000, 64000, devices=devices)),
        EngineNode(spec=NodeSpec("d", 64000, 1), usable=False),
    ]

    assert shapes_of(Pilot(name="x", kind="slurm"), nodes) == [FOUR, GPUS]


def test_cost_bounds_the_number():
    pilot = Pilot(name="x", kind="slurm", most=10, price_per_hour=2.5, spend_per_hour=8.0)

    assert pilot.affordable == 3


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"most": 0}, "most: 0 is not valid; 1 to 10000"),
        ({"time_s": 5}, "time_s: 5 is not valid; 60 to"),
        ({"kind": "pbs"}, "kind: 'pbs' is not valid; kubernetes or slurm"),
        ({"name": "a b"}, "name: 'a b' is not valid"),
        ({"gpus": 1}, "cpus: 0 is not valid"),
        ({"price_per_hour": 5.0, "spend_per_hour": 4.0}, "spend_per_hour: 4.0 is not valid"),
    ],
)
def test_bad_settings_are_refused_by_field_and_value(fields, line):
    with pytest.raises(Rejected, match=line):
        check(Pilot(**{"name": "x", "kind": "slurm", **fields}))


def test_a_table_of_the_settings_is_read_as_people_write_it():
    table = {"kind": "slurm", "time": "2h", "cpus": 8, "memory": "16g", "partition": "main"}

    pilot = read_pilot("hpc", table, "rota.toml: pilots.hpc")

    assert (pilot.time_s, pilot.cpu_milli, pilot.memory_mib) == (7200, 8000, 16384)
    assert pilot.engine == {"partition": "main"}


def test_a_bad_value_in_a_table_names_the_table_and_the_key():
    with pytest.raises(Rejected, match=r"pilots\.hpc\.time: 'soon'"):
        read_pilot("hpc", {"kind": "slurm", "time": "soon"}, "rota.toml: pilots.hpc")


def test_each_setback_doubles_the_pause_and_one_that_joins_ends_it():
    setbacks = Setbacks()
    setbacks.failed("exit code 1", 100.0)
    first = setbacks.pause_s(100.0)
    setbacks.failed("exit code 1", 102.0)  # It was asked for with the first.
    setbacks.failed("exit code 2", 105.0)

    assert (first, setbacks.pause_s(105.0)) == (5.0, 10.0)
    assert setbacks.line(105.0) == "exit code 2; the next one is asked for in 10 s"
    setbacks.worked()
    assert setbacks.line(105.0) == ""
