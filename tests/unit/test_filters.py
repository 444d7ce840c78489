"""Why a node could never take a task."""

import pytest

from rota.core.derived.lanes import Shape
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
from rota.scheduling.place.filters import (
    FILTERS,
    Case,
    Neighbours,
    affinity_problem,
    first_problem,
    problems,
    topologies_of,
)

CPU = Request()
ALLOW = Policy(place=PlaceRules(cpu_jobs_on_gpu_nodes=Mixing.ALLOW))


def shape(request: Request = CPU, service=ServiceClass.BURSTABLE, **placement) -> Shape:
    return Shape((Role(request=request),), Placement(**placement), service)


def gpu(index: int, model: str = "A100", memory_mib: int = 40960, **more) -> Device:
    return Device(index, f"gpu-{index}", model=model, memory_mib=memory_mib, **more)


BOX = NodeSpec("box", 8000, 65536, 102400, devices=(gpu(0), gpu(1)))


def refuse(
    request: Request = CPU,
    spec: NodeSpec = BOX,
    *,
    policy: Policy = ALLOW,
    labels=None,
    taints=(),
    service=ServiceClass.BURSTABLE,
    name: str = "",
    **placement,
) -> tuple[str, str]:
    asked = shape(request, service, **placement)
    return first_problem(Case(asked, request, spec, labels or {}, taints, policy, name))


def gpus(count: int = 1, **more) -> Request:
    return Request(device="gpu", device_count=count, **more)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (Request(cpu_milli=8000), ("", "")),
        (Request(cpu_milli=8500), ("cpus", "has 8 cpus, needs 8.5")),
        (Request(memory_mib=65536), ("", "")),
        (Request(memory_mib=131072), ("memory", "has 64G of memory, needs 128G")),
        (Request(disk_mib=204800), ("disk", "has 100G of disk, needs 200G")),
        (gpus(2), ("", "")),
        (gpus(4), ("device", "has 2 of the 4 gpus")),
        (Request(device="tpu", device_count=1), ("device", "has no tpu")),
        (Request(device="tpu", device_count=4), ("device", "has none of the 4 tpus")),
        (gpus(2, device_type="a100"), ("", "")),
        (gpus(1, device_type="auto"), ("", "")),
        (gpus(1, device_type="H100"), ("device type", "has no H100 gpu")),
        (gpus(2, device_type="H100"), ("device type", "has none of the 2 H100 gpus")),
        (gpus(1, device_memory_mib=81920), ("device memory", "has no gpu with 80G")),
        (gpus(1, shared=True, device_memory_mib=8192), ("", "")),
        (gpus(1, shared=True, device_milli=500), ("", "")),
    ],
)
def test_totals_are_compared_in_every_dimension(request_, answer):
    assert refuse(request_) == answer


def test_a_device_of_unknown_memory_cannot_be_shared():
    spec = NodeSpec("box", 8000, 65536, devices=(gpu(0, memory_mib=0),))

    assert refuse(gpus(1), spec) == ("", "")
    assert refuse(gpus(1, shared=True, device_milli=500), spec) == (
        "device memory",
        "has no gpu that can be shared",
    )


def test_broken_devices_do_not_count_and_are_named():
    spec = NodeSpec("box", 8000, 65536, devices=(gpu(0), gpu(1, healthy=False)))

    assert refuse(gpus(2), spec) == ("device", "has 1 of the 2 gpus (1 broken)")


def test_a_device_and_its_parts_count_once():
    parts = (gpu(1, "A100 3g.20gb", 20480, parent=0), gpu(2, "A100 3g.20gb", 20480, parent=0))
    spec = NodeSpec("box", 8000, 65536, devices=(gpu(0), *parts))

    assert refuse(gpus(2), spec) == ("", "")
    assert refuse(gpus(3), spec) == ("device", "has 2 of the 3 gpus")


def test_a_mixed_node_is_judged_by_the_devices_of_the_named_type():
    spec = NodeSpec("box", 8000, 65536, devices=(gpu(0, "A100"), gpu(1, "H100")))

    assert refuse(gpus(1, device_type="H100"), spec) == ("", "")
    assert refuse(gpus(2, device_type="H100"), spec)[1] == "has 1 of the 2 H100 gpus"


def test_overcommitted_room_is_for_all_but_guaranteed_jobs():
    policy = Policy(
        place=PlaceRules(
            cpu_jobs_on_gpu_nodes=Mixing.ALLOW, overcommit_cpu=2.0, overcommit_memory=1.5
        )
    )
    large = Request(cpu_milli=16000, memory_mib=98304)

    assert refuse(large, policy=policy) == ("", "")
    assert refuse(large, policy=policy, service=ServiceClass.GUARANTEED)[0] == "cpus"
    lean = Request(memory_mib=98304)
    assert refuse(lean, policy=policy) == ("", "")
    assert refuse(lean, policy=policy, service=ServiceClass.GUARANTEED)[0] == "memory"
    assert refuse(Request(cpu_milli=17000), policy=policy)[1] == "has 16 cpus, needs 17"


RACK_A = Selector("rack", Operator.EQ, ("a",))


@pytest.mark.parametrize(
    ("selector", "labels", "text"),
    [
        (RACK_A, {"rack": "a"}, ""),
        (RACK_A, {"rack": "b"}, "label rack=b, needs rack=a"),
        (RACK_A, {}, "no label rack, needs rack=a"),
        (Selector("rack", Operator.NE, ("a",)), {"rack": "a"}, "label rack=a, needs rack!=a"),
        (Selector("rack", Operator.IN, ("a", "b")), {"rack": "b"}, ""),
        (Selector("rack", Operator.NOT_IN, ("a",)), {}, ""),
        (Selector("ssd"), {}, "no label ssd, needs ssd"),
        (Selector("old", Operator.MISSING), {"old": "yes"}, "label old=yes, needs !old"),
        (Selector("cuda", Operator.GT, ("11",)), {"cuda": "12.4"}, ""),
        (Selector("cuda", Operator.GT, ("11",)), {"cuda": "9"}, "label cuda=9, needs cuda>11"),
        (Selector("cuda", Operator.LT, ("11",)), {"cuda": "new"}, "label cuda=new, needs cuda<11"),
    ],
)
def test_hard_selectors_must_hold(selector, labels, text):
    assert refuse(labels=labels, selectors=(selector,))[1] == text


def test_soft_selectors_refuse_nothing():
    soft = Selector("rack", Operator.EQ, ("a",), weight=10)

    assert refuse(selectors=(soft,)) == ("", "")


def test_a_node_without_the_topology_label_cannot_be_part_of_a_group():
    assert refuse(topology="rack") == ("topology", "no label rack, needs one")
    assert refuse(topology="rack", labels={"rack": "a"}) == ("", "")


def test_an_untolerated_taint_keeps_jobs_off():
    taint = Taint("gpu-only")

    assert refuse(taints=(taint,)) == ("taints", "taint gpu-only")
    assert refuse(taints=(taint,), tolerations=(Toleration("gpu-only"),)) == ("", "")
    assert refuse(taints=(taint,), tolerations=(Toleration("*"),)) == ("", "")


def test_a_toleration_with_a_value_bears_only_that_value():
    taint = Taint("team", "vision")

    assert refuse(taints=(taint,), tolerations=(Toleration("team", "speech"),)) == (
        "taints",
        "taint team=vision",
    )
    assert refuse(taints=(taint,), tolerations=(Toleration("team", "vision"),)) == ("", "")


def test_a_taint_to_avoid_refuses_nothing():
    assert refuse(taints=(Taint("old", effect=TaintEffect.AVOID),)) == ("", "")


def test_named_and_excluded_nodes_are_judged_by_name():
    assert refuse(name="box", nodes=("other",)) == ("named", "is not other")
    assert refuse(name="box", nodes=("box", "other")) == ("", "")
    assert refuse(name="box", exclude=("box",)) == ("excluded", "is excluded")


def test_a_whole_class_is_not_refused_for_the_name_of_one_of_its_nodes():
    assert refuse(nodes=("other",)) == ("", "")
    assert refuse(exclude=("box",)) == ("", "")


@pytest.mark.parametrize(
    ("mixing", "text"),
    [
        (Mixing.NEVER, "keeps its gpus for jobs that use them"),
        (Mixing.AVOID, ""),
        (Mixing.ALLOW, ""),
    ],
)
def test_jobs_without_devices_stay_off_gpu_nodes_only_if_the_policy_says_never(mixing, text):
    policy = Policy(place=PlaceRules(cpu_jobs_on_gpu_nodes=mixing))

    assert refuse(policy=policy)[1] == text
    assert refuse(gpus(1), policy=policy) == ("", "")
    assert refuse(spec=NodeSpec("plain", 8000, 65536), policy=policy) == ("", "")


def test_all_problems_are_listed_for_who_asks_and_the_first_is_the_reason():
    request = gpus(4, cpu_milli=9000)
    asked = shape(request, selectors=(RACK_A,))
    case = Case(asked, request, BOX, {}, (Taint("down"),), ALLOW)

    found = list(problems(case))

    assert [problem.filter for problem in found] == ["device", "cpus", "labels", "taints"]
    assert first_problem(case).text == found[0].text == "has 2 of the 4 gpus"


def test_every_filter_has_a_name_of_its_own():
    names = [name for name, _ in FILTERS]

    assert len(set(names)) == len(names)


WEB = {"app": "web"}


def near(app: str = "web", **more) -> Affinity:
    return Affinity("app", app, **more)


def test_a_job_that_wants_to_be_near_another_goes_where_that_one_is():
    neighbours = Neighbours()
    neighbours.add("a1", {}, WEB)
    asked = shape(affinities=(near(),))

    assert affinity_problem(asked, "a1", {}, neighbours) == ""
    assert affinity_problem(asked, "a2", {}, neighbours) == "no job with app=web here"


def test_a_job_that_wants_to_be_apart_stays_away_from_where_the_other_one_is():
    neighbours = Neighbours()
    neighbours.add("a1", {}, WEB)
    asked = shape(affinities=(near(apart=True),))

    assert affinity_problem(asked, "a1", {}, neighbours) == "job with app=web runs here"
    assert affinity_problem(asked, "a2", {}, neighbours) == ""
    assert affinity_problem(asked, "a1", {}, Neighbours()) == ""


def test_near_means_the_same_rack_when_the_topology_says_so():
    asked = shape(affinities=(near(topology="rack"),))
    neighbours = Neighbours(topologies_of([asked]))
    neighbours.add("a1", {"rack": "a"}, WEB)

    assert affinity_problem(asked, "a2", {"rack": "a"}, neighbours) == ""
    assert (
        affinity_problem(asked, "b1", {"rack": "b"}, neighbours) == "no job with app=web in rack b"
    )
    assert affinity_problem(asked, "c1", {}, neighbours) == (
        "no label rack, needs one to be near job with app=web"
    )


def test_apart_over_racks_lets_nodes_without_a_rack_be():
    asked = shape(affinities=(near(topology="rack", apart=True),))
    neighbours = Neighbours(topologies_of([asked]))
    neighbours.add("a1", {"rack": "a"}, WEB)

    assert affinity_problem(asked, "a2", {"rack": "a"}, neighbours) == (
        "job with app=web runs in rack a"
    )
    assert affinity_problem(asked, "c1", {}, neighbours) == ""


def test_a_label_without_a_value_means_any_value():
    neighbours = Neighbours()
    neighbours.add("a1", {}, {"app": "anything"})

    assert affinity_problem(shape(affinities=(near(""),)), "a1", {}, neighbours) == ""


def test_the_first_of_jobs_that_want_to_be_together_may_start_anywhere():
    asked = shape(affinities=(near(),))
    neighbours = Neighbours()

    assert affinity_problem(asked, "a1", {}, neighbours, WEB) == ""
    assert affinity_problem(asked, "a1", {}, neighbours) != ""

    neighbours.add("a2", {}, WEB)

    assert affinity_problem(asked, "a1", {}, neighbours, WEB) == "no job with app=web here"


def test_soft_wishes_about_neighbours_refuse_nothing():
    asked = shape(affinities=(near(weight=5),))

    assert affinity_problem(asked, "a1", {}, Neighbours()) == ""
