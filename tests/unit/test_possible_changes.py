"""What a waiting job could ask for instead: which steps are tried, in which words, at what loss."""

import msgspec
import pytest

from rota.core.changes import events as ev
from rota.core.facts.job import JobSpec, ServiceClass
from rota.core.facts.placing import (
    Affinity,
    Operator,
    Placement,
    Selector,
    Taint,
    TaintEffect,
    Toleration,
)
from rota.core.facts.states import QueueState
from rota.core.facts.tenant import Queue, Reservation
from rota.scheduling.answers.possible_changes import STEPS, OtherWish, knobs
from rota.scheduling.answers.whatif import Added, WhatIf
from rota.testing.stage import Stage, node, role, spec


def a_site() -> Stage:
    """Of the small node, some is taken: 1 CPU, 3192 MiB, 7240 MiB of disk and no card are left."""
    small = node("b", cpus=4, mem=8192, gpus=1, gpu_mem=20480)
    stage = Stage([node("a", cpus=8, gpus=2), small])
    stage.submit(spec(cpus=3, mem=5000, disk=3000, gpus=1, placement=Placement(nodes=("b",))))
    stage.run()
    return stage


def name_of(steps: list[OtherWish]) -> str:
    """What kind of wish these steps make smaller, by the options that they name."""
    words = steps[0].options.split()
    for option, name in (
        ("--shared", "shared"),
        ("--gpu-type", "gpu type"),
        ("--gpu-mem", "gpu memory"),
    ):
        if option in words:
            return name
    plain = ("gpus", "cpus", "disk", "time", "tasks", "priority", "queue")
    word = words[0].removeprefix("--")
    return "memory" if word == "mem" else word if word in plain else words[0]


def steps_of(stage: Stage, wish: JobSpec, priority_max: int = 50) -> dict[str, list[OtherWish]]:
    with WhatIf(stage.scheduler, stage.now_s) as world:
        # One that fits nowhere: a pass reads reservations when something waits.
        world.make(Added(spec(cpus=99)))
        world.run()
        return {name_of(steps): steps for steps in knobs(wish, world, priority_max)}


def told(steps: list[OtherWish]) -> list[tuple[str, str, float]]:
    return [(step.text, step.options, round(step.loss, 3)) for step in steps]


def options(steps: list[OtherWish]) -> list[str]:
    return [step.options.rpartition(" ")[2] for step in steps]


def test_a_plain_job_of_the_highest_priority_can_ask_for_less_of_its_cpus_only():
    found = steps_of(a_site(), spec(cpus=1))

    assert {name: told(steps) for name, steps in found.items()} == {
        "cpus": [
            ("ask for 0.5 CPUs instead of 1", "--cpus 0.5", 0.5),
            ("ask for 0.2 CPUs instead of 1", "--cpus 0.2", 0.8),
            ("ask for 0.1 CPUs instead of 1", "--cpus 0.1", 0.9),
        ]
    }


def test_fewer_devices_are_one_less_at_a_time():
    wish = spec(cpus=0, gpus=3)

    found = steps_of(a_site(), wish)["gpus"]

    assert told(found) == [
        ("ask for 2 GPUs instead of 3", "--gpus 2", 0.333),
        ("ask for 1 GPU instead of 3", "--gpus 1", 0.667),
    ]
    assert [step.spec.request.device_count for step in found] == [2, 1]
    assert "gpus" not in steps_of(a_site(), spec(gpus=1))
    assert "gpus" not in steps_of(a_site(), spec(gpus=2, gpu_part=0.5))


def test_another_type_of_device_is_one_step_that_repeats_how_many():
    whole = steps_of(a_site(), spec(gpus=2, gpu_type="H100"))["gpu type"]
    part = steps_of(a_site(), spec(gpus=1, gpu_type="H100", gpu_part=0.5))["gpu type"]

    assert told(whole) == [("take any type instead of H100", "--gpus 2 --gpu-type auto", 0.2)]
    assert whole[0].spec.request.device_type == ""
    assert told(part) == [("take any type instead of H100", "--gpus 0.5 --gpu-type auto", 0.2)]
    assert "gpu type" not in steps_of(a_site(), spec(gpus=2))


def test_cpus_go_down_by_what_is_free_somewhere_and_by_halves_of_whole_ones():
    found = steps_of(a_site(), spec(cpus=10))["cpus"]

    assert told(found) == [
        ("ask for 8 CPUs instead of 10", "--cpus 8", 0.2),
        ("ask for 5 CPUs instead of 10", "--cpus 5", 0.5),
        ("ask for 2 CPUs instead of 10", "--cpus 2", 0.8),
        ("ask for 1 CPU instead of 10", "--cpus 1", 0.9),
    ]
    assert [step.spec.request.cpu_milli for step in found] == [8000, 5000, 2000, 1000]


def test_other_roles_stay_as_they_are():
    other = role(name="other", cpus=3)

    found = steps_of(a_site(), spec(role(cpus=1), other))["cpus"]

    assert [step.spec.roles[1:] for step in found] == [(other,)] * 3


def test_memory_and_disk_go_down_by_round_numbers():
    found = steps_of(a_site(), spec(mem=12288, disk=9000))
    memory, disk = found["memory"], found["disk"]

    assert told(memory)[:3] == [
        ("ask for 6G of memory instead of 12G", "--mem 6G", 0.5),
        ("ask for 3136M of memory instead of 12G", "--mem 3136M", 0.745),
        ("ask for 3G of memory instead of 12G", "--mem 3G", 0.75),
    ]
    assert [step.spec.request.memory_mib for step in memory][:2] == [6144, 3136]
    assert told(disk)[:2] == [
        ("ask for 7G of disk instead of 9000M", "--disk 7G", 0.204),
        ("ask for 4352M of disk instead of 9000M", "--disk 4352M", 0.516),
    ]
    assert [step.spec.request.disk_mib for step in disk][:2] == [7168, 4352]
    assert options(memory)[-3:] == ["6M", "3M", "1M"]
    assert len(memory) == 14


def test_a_number_that_is_round_already_stays_as_it_is():
    stage = Stage([node("a", mem=65536)])

    found = steps_of(stage, spec(mem=131072))["memory"]

    assert options(found)[:9] == ["64G", "32G", "16G", "8G", "4G", "2G", "1G", "512M", "256M"]


def test_no_knob_has_more_than_so_many_steps():
    nodes = [node(f"n{number}", mem=1000 + 64 * number) for number in range(40)]

    found = steps_of(Stage(nodes), spec(mem=8000, tasks=60))

    assert len(found["memory"]) == STEPS
    assert len(found["tasks"]) == STEPS
    assert options(found["tasks"])[:2] == ["59", "58"]


def test_memory_of_a_device_goes_down_and_keeps_the_number_of_devices():
    found = steps_of(a_site(), spec(role(gpus=2, gpu_mem=81920)))["gpu memory"]

    assert told(found)[:2] == [
        ("ask for 40G on the GPU instead of 80G", "--gpus 2 --gpu-mem 40G", 0.5),
        ("ask for 20G on the GPU instead of 80G", "--gpus 2 --gpu-mem 20G", 0.75),
    ]
    assert found[0].spec.request.device_memory_mib == 40960
    assert options(found)[-1] == "1M"
    assert "gpu memory" not in steps_of(a_site(), spec(gpus=2))


def test_a_small_card_is_shared_down_to_its_last_bit_of_memory():
    small = Stage([node("a", gpus=1, gpu_mem=20)])
    none = Stage([node("a")])

    assert options(steps_of(small, spec(gpus=1))["shared"]) == ["20M", "10M", "5M", "2M", "1M"]
    assert "shared" not in steps_of(none, spec(gpus=1))


def test_a_device_may_be_shared_with_the_memory_that_is_asked_for_or_that_is_there():
    alone = msgspec.structs.replace(role(gpus=1).request, device_memory_mib=1024)
    asked = spec(msgspec.structs.replace(role(gpus=1), request=alone))
    too_much = msgspec.structs.replace(alone, device_memory_mib=50000)

    open_to_all = steps_of(a_site(), spec(gpus=1))["shared"]
    by_memory = steps_of(a_site(), asked)["shared"]

    assert told(open_to_all)[:2] == [
        ("share a GPU, with 40G on it", "--gpus 1 --shared --gpu-mem 40G", 0.5),
        ("share a GPU, with 20G on it", "--gpus 1 --shared --gpu-mem 20G", 0.5),
    ]
    assert open_to_all[0].spec.request.shared
    assert open_to_all[0].spec.request.device_memory_mib == 40960
    assert told(by_memory) == [
        ("share a GPU, with 1G on it", "--gpus 1 --shared --gpu-mem 1G", 0.5)
    ]
    assert "shared" not in steps_of(a_site(), spec(gpus=1, gpu_mem=1024))
    none = spec(msgspec.structs.replace(role(gpus=1), request=too_much))
    assert "shared" not in steps_of(a_site(), none)


@pytest.mark.parametrize(
    ("begins_s", "limit_s", "steps"),
    [
        (7260, 0, [("limit it to 2h (it has none)", "--time 2h", 0.1)]),
        (7260, 14400, [("limit it to 2h instead of 4h", "--time 2h", 0.5)]),
        (7 * 3600, 0, [("limit it to 6h (it has none)", "--time 6h", 0.1)]),
        (6 * 3600 + 59, 0, [("limit it to 5h45m (it has none)", "--time 5h45m", 0.1)]),
        (6000, 0, [("limit it to 1h30m (it has none)", "--time 1h30m", 0.1)]),
        (2000, 0, [("limit it to 30m (it has none)", "--time 30m", 0.1)]),
        (1000, 0, [("limit it to 15m (it has none)", "--time 15m", 0.1)]),
        (435, 0, [("limit it to 6m (it has none)", "--time 6m", 0.1)]),
        (185, 0, [("limit it to 2m (it has none)", "--time 2m", 0.1)]),
        (61, 0, [("limit it to 1s (it has none)", "--time 1s", 0.1)]),
        (75, 0, [("limit it to 15s (it has none)", "--time 15s", 0.1)]),
        (60, 0, []),
        (7260, 7200, []),
    ],
)  # fmt: skip
def test_a_limit_ends_a_minute_before_what_comes_there(begins_s, limit_s, steps):
    stage = Stage([node("a")])
    start_s = stage.now_s + begins_s
    stage.reserve(Reservation(1, "bob", start_s, start_s + 60, nodes=("a",)))

    found = steps_of(stage, spec(time_limit_s=limit_s)).get("time", [])

    assert told(found) == steps
    assert all(step.spec.time_limit_s for step in found)


def test_of_several_limits_the_longest_comes_first():
    stage = Stage([node("a")])
    for number, begins_s in enumerate((7260, 22260), start=1):
        start_s = stage.now_s + begins_s
        stage.reserve(Reservation(number, "bob", start_s, start_s + 60, nodes=("a",)))

    found = steps_of(stage, spec())["time"]

    assert [step.spec.time_limit_s for step in found] == [21600, 7200]


def test_fewer_tasks_go_down_to_the_fewest_and_need_no_more_nodes_than_tasks():
    wish = spec(tasks=4, at_least=2, placement=Placement(node_count=3))

    found = steps_of(a_site(), wish)["tasks"]

    assert told(found) == [
        ("start 3 of its 4 tasks", "--tasks 3", 0.25),
        ("start 2 of its 4 tasks", "--tasks 2 --nodes 2", 0.5),
    ]
    assert [(s.spec.roles[0].count, s.spec.placement.node_count) for s in found] == [(3, 3), (2, 2)]
    assert options(steps_of(a_site(), spec(tasks=3))["tasks"]) == ["2", "1"]
    assert "tasks" not in steps_of(a_site(), spec(role(tasks=3), role(name="other")))


PLACEMENTS: list[tuple[Placement, str, tuple[str, str, float], Placement]] = [
    (
        Placement(selectors=(Selector("ssd"), Selector("rack", Operator.EQ, ("a",)))),
        "--constraint",
        ("do without rack=a", "--constraint ssd", 0.2),
        Placement(selectors=(Selector("ssd"),)),
    ),
    (
        Placement(selectors=(Selector("ssd"),)),
        "--constraint",
        ("do without ssd", "--constraint ''", 0.2),
        Placement(),
    ),
    (
        Placement(exclusive=True),
        "--no-exclusive",
        ("share its nodes with other jobs", "--no-exclusive", 0.2),
        Placement(),
    ),
    (
        Placement(exclude=("a",)),
        "--exclude",
        ("allow the excluded nodes", "--exclude ''", 0.2),
        Placement(),
    ),
    (
        Placement(nodes=("a",)),
        "--nodelist",
        ("allow any node", "--nodelist ''", 0.25),
        Placement(),
    ),
    (
        Placement(topology="rack"),
        "--topology",
        ("allow several values of rack", "--topology ''", 0.2),
        Placement(),
    ),
    (
        Placement(node_count=2),
        "--nodes",
        ("use as few nodes as possible", "--nodes 0", 0.15),
        Placement(),
    ),
    (
        Placement(affinities=(Affinity("app"), Affinity("db", apart=True))),
        "--near",
        ("allow it not to be near others", "--near ''", 0.2),
        Placement(affinities=(Affinity("db", apart=True),)),
    ),
    (
        Placement(affinities=(Affinity("app"), Affinity("db", apart=True))),
        "--apart",
        ("allow it not to be away from others", "--apart ''", 0.2),
        Placement(affinities=(Affinity("app"),)),
    ),
]


@pytest.mark.parametrize(("placement", "name", "words", "then"), PLACEMENTS)
def test_each_word_about_where_it_runs_can_be_taken_back(placement, name, words, then):
    found = steps_of(a_site(), spec(placement=placement))[name]

    assert told(found) == [words]
    assert found[0].spec.placement == then


def test_a_wish_that_binds_nothing_is_not_taken_back():
    soft = Placement(
        selectors=(Selector("ssd", weight=5),),
        affinities=(Affinity("app", weight=5), Affinity("db", apart=True, weight=5)),
    )

    assert list(steps_of(a_site(), spec(placement=soft))) == ["cpus"]


def test_taints_that_keep_a_job_out_can_be_borne_the_first_four_of_them():
    names = ("e", "d", "c", "b", "a")
    keys = [Taint(name) for name in names]
    weak = Taint("weak", effect=TaintEffect.AVOID)
    borne = Toleration("z")
    taints = (*keys, weak, Taint("z", "1"))
    stage = Stage([msgspec.structs.replace(node("n"), taints=taints)])

    with WhatIf(stage.scheduler, stage.now_s) as world:
        world.run()
        wish = spec(placement=Placement(tolerations=(borne,)))
        found = [steps[0] for steps in knobs(wish, world, 50) if name_of(steps) == "--tolerate"]

    assert told(found) == [
        (f"tolerate {key}", f"--tolerate z --tolerate {key}", 0.1) for key in ("a", "b", "c", "d")
    ]
    assert found[0].spec.placement.tolerations == (borne, Toleration("a"))


def test_a_guarantee_can_be_done_without():
    found = steps_of(a_site(), spec(service=ServiceClass.GUARANTEED))["--qos"]

    assert told(found) == [("do without a guarantee", "--qos burstable", 0.3)]
    assert found[0].spec.service is ServiceClass.BURSTABLE


def test_only_queues_that_start_jobs_of_the_project_are_named():
    stage = a_site()
    for queue in (
        Queue("night", outside=True),
        Queue("own", project="text"),
        Queue("paused", state=QueueState.PAUSED),
        Queue("theirs", project="vision"),
    ):
        stage.tell(ev.QueueSet(queue=queue))

    with WhatIf(stage.scheduler, stage.now_s) as world:
        world.run()
        every = knobs(spec(project="text"), world, 50)
        found = [steps[0] for steps in every if name_of(steps) == "queue"]

    assert told(found) == [("move it to queue own", "--queue own", 0.15)]
    assert found[0].spec.queue == "own"


def test_a_priority_is_raised_to_the_highest_that_may_be_given():
    found = steps_of(a_site(), spec(priority=60), priority_max=61)["priority"]

    assert told(found) == [("raise its priority from 60 to 61", "--priority 61", 0.9)]
    assert found[0].spec.priority == 61
    assert "priority" not in steps_of(a_site(), spec(priority=60), priority_max=60)
