"""Lines of tests/requirements.md, parts A to C, that no other test proves as a whole."""

import sys
from collections.abc import Callable

import pytest

from rota.api.site.nodes import node_view
from rota.config import parse
from rota.controller.commands import commands as cmd
from rota.core.changes.events import AttemptPlaced
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.policy import DEFAULT, Backfill, Policy
from rota.core.facts.tenant import Queue
from rota.core.words.policy_text import changed
from rota.core.words.presets import PRESETS, with_preset
from rota.rpc.messages import Seen, Sighting
from rota.testing.scene import ALICE, BOB, OPERATOR, Scene
from rota.testing.stage import Stage, node, spec
from tests.support.machine import REPOSITORY

GIB = 1 << 30
HOUR_S = 3600


def machine(name: str, *, cpus: int = 4, gpus: int = 0, **labels: str) -> NodeSpec:
    devices = tuple(
        Device(index=i, uuid=f"{name}-{i}", model="A100", memory_mib=40960) for i in range(gpus)
    )
    pins = tuple(range(cpus))
    return NodeSpec(name, cpus * 1000, 65536, 0, cpus=pins, devices=devices, labels=labels)


def site(*nodes: NodeSpec) -> Scene:
    scene = Scene(nodes=0)
    for each in nodes:
        scene.add_node(each)
    return scene


def nodes_of(scene: Scene, job: int | str) -> list[str]:
    return [attempt.allocation.node for attempt in scene.job(job).live_attempts]


def started(scene: Scene) -> list[int]:
    return [event.job for event in scene.log if isinstance(event, AttemptPlaced)]


def committed(scene: Scene) -> tuple[float, int, int]:
    """CPUs, bytes and GPUs that are handed out on the box."""
    used = node_view(scene.cluster, scene.cluster.nodes["box"]).used
    return used.cpus, used.memory_mb << 20, int(used.gpus)


def test_what_is_committed_is_summed_as_cpus_bytes_and_gpus_and_forgets_jobs_that_are_gone():
    scene = Scene(cpus=8, gpus=4)
    scene.submit("gone", cpus=2, mem=1024, gpus=1)
    scene.submit("stays", cpus=3, mem=2048, gpus=2)
    both = committed(scene)
    uid = scene.job("gone").live_attempts[0].uid

    scene.finish("gone")
    scene.report(Seen(uid, Sighting.ENDED), node="box")

    assert scene.names["gone"] not in scene.cluster.jobs
    assert both == (5, 3 * GIB, 3)
    assert committed(scene) == (3, 2 * GIB, 2)


@pytest.mark.parametrize(
    ("mixing", "expected"),
    [
        ("", [["b-plain"], ["a-gpus"]]),
        ("avoid", [["b-plain"], ["a-gpus"]]),
        ("never", [["b-plain"], []]),
        # Like any other: the one that it fits into most tightly.
        ("allow", [["a-gpus"], ["b-plain"]]),
    ],
)
def test_jobs_without_gpus_use_gpu_nodes_never_last_or_like_any_other(mixing, expected):
    scene = site(machine("a-gpus", gpus=2), machine("b-plain", cpus=7))
    if mixing:
        scene.set_policy(place_cpu_jobs_on_gpu_nodes=mixing)

    for name in ("first", "second"):
        scene.submit(name, cpus=4)

    assert [nodes_of(scene, name) for name in ("first", "second")] == expected


def test_by_default_a_large_job_keeps_its_turn_while_short_ones_pass():
    scene = Scene(cpus=4)
    scene.submit("runs", cpus=3, time_limit_s=HOUR_S)
    scene.submit("large", cpus=4, time_limit_s=HOUR_S)

    scene.submit("short", cpus=1, time_limit_s=HOUR_S)
    passed = scene.states("large", "short")
    scene.finish("short")
    for _ in range(20):
        scene.pass_time(60)
        scene.submit(cpus=1, time_limit_s=2 * HOUR_S)
    scene.finish("runs")

    assert scene.cluster.policy.backfill.kind is Backfill.EASY
    assert passed == ["queued", "running"]
    assert scene.is_running("large")


def test_each_band_is_a_fifo_of_its_own_and_higher_bands_go_first():
    scene = Scene(cpus=1)
    scene.set_policy("priority")
    scene.submit("runs")
    for actor, band, number in (
        (ALICE, "low", 25),
        (BOB, "normal", 50),
        (ALICE, "high", 75),
        (BOB, "low", 25),
        (ALICE, "normal", 50),
        (BOB, "high", 75),
    ):
        scene.submit(f"{band} of {actor.user}", actor=actor, priority=number)
    in_turn = ["high of alice", "high of bob", "normal of bob", "normal of alice"]
    in_turn += ["low of alice", "low of bob"]

    for name in ("runs", *in_turn):
        scene.finish(name)

    assert started(scene)[1:] == [scene.names[name] for name in in_turn]


def test_a_job_takes_one_node_if_it_can_and_else_those_with_most_free_gpus():
    gpus = {"a": 2, "b": 8, "c": 4}
    scene = site(*(machine(name, cpus=32, gpus=count) for name, count in gpus.items()))

    scene.submit("wide", tasks=11, gpus=1)
    wide = nodes_of(scene, "wide")
    scene.finish("wide")
    scene.submit("narrow", tasks=4, gpus=1)

    assert {name: wide.count(name) for name in gpus} == {"a": 0, "b": 8, "c": 3}
    assert len(set(nodes_of(scene, "narrow"))) == 1


def lines_run(deed: Callable[[], object]) -> int:
    """How many lines of Python a call executes: its work, whatever else the machine does."""
    count = 0

    def note(frame: object, event: str, argument: object) -> object:
        nonlocal count
        count += event == "line"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        deed()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("tasks", [1, 8])
@pytest.mark.parametrize(("nodes", "gpus"), [(128, 4), (32, 16)])
def test_the_work_of_a_placement_grows_no_faster_than_nodes_times_gpus(tasks, nodes, gpus):
    work = {}

    for each in ((32, 4), (nodes, gpus)):
        stage = Stage([node(f"n{i}", cpus=64, gpus=each[1]) for i in range(each[0])], checked=False)
        job = stage.submit(spec(cpus=1, gpus=4, tasks=tasks))
        work[each] = lines_run(stage.run)
        assert job in stage.started_s

    assert work[nodes, gpus] <= 4.2 * work[32, 4]


def test_whoever_used_less_lately_goes_first_under_fair_share():
    scene = Scene(cpus=2)
    scene.set_policy("fairshare", share_memory="window", share_window_s=24 * HOUR_S)
    scene.submit("much", actor=ALICE, cpus=2)
    scene.pass_time(10 * HOUR_S)
    scene.finish("much")
    scene.submit("little", actor=BOB, cpus=2)
    scene.pass_time(HOUR_S)
    scene.submit("alice again", actor=ALICE, cpus=2)
    scene.submit("bob again", actor=BOB, cpus=2)

    scene.finish("little")

    assert scene.states("bob again", "alice again") == ["running", "queued"]


@pytest.mark.parametrize(
    ("name", "primary", "kind"),
    [
        ("fifo", "fifo", Backfill.NONE),
        ("priority", "priority", Backfill.NONE),
        ("fairshare", "fairshare", Backfill.NONE),
        ("backfill", "fifo", Backfill.EASY),
    ],
)
def test_a_variable_chooses_the_policy_by_its_older_name(name, primary, kind):
    chosen = parse("", "", {"SCHEDULING_POLICY": name}).scheduling.policy

    policy = with_preset(DEFAULT, chosen)

    assert (policy.order.primary, policy.backfill.kind) == (primary, kind)


@pytest.mark.parametrize("base", ["fifo", "sjf", "fairshare"])
def test_backfill_goes_with_any_order(base):
    rules = {"order.primary": base, "backfill.kind": "easy"}
    stage = Stage([node("n0"), node("n1")], changed(Policy(), rules))
    stage.submit(spec(cpus=4, time_limit_s=2 * HOUR_S))
    stage.run()
    large = stage.submit(spec(cpus=4, tasks=2, time_limit_s=HOUR_S))
    stage.run()
    small = stage.submit(spec(cpus=4, time_limit_s=HOUR_S + 60))

    stage.run()

    assert large in stage.waiting
    assert small in stage.started_s


def test_queues_of_one_project_go_by_their_priority_and_keep_to_their_caps():
    scene = Scene(cpus=2)
    for name, priority, most in (("night", 10, 0), ("day", 60, 1)):
        queue = Queue(name, priority, max_running=most, project="vision")
        scene.ask(cmd.SetQueue(actor=OPERATOR, queue=queue))
    scene.submit("fills", cpus=2)
    for name in ("night", "day"):
        for number in (1, 2):
            scene.submit(f"{name} {number}", queue=name, project="vision")

    scene.finish("fills")

    names = ("day 1", "day 2", "night 1", "night 2")
    assert scene.states(*names) == ["running", "queued", "running", "queued"]


def test_a_cheaper_node_is_preferred_as_its_weight_says():
    scene = site(machine("a", cost="9"), machine("b", cost="1"), machine("c", cost="5"))

    for number in range(3):
        scene.submit(f"job {number}", cpus=4)

    assert [nodes_of(scene, f"job {number}") for number in range(3)] == [["b"], ["c"], ["a"]]


def test_interval_timeouts_and_limits_are_settings():
    text = """
    [server]
    inbox_size = 500
    [scheduling]
    interval_ms = 250
    [scheduling.gang]
    assembly_timeout_s = "5m"
    [scheduling.preempt]
    grace_s = 90
    [scheduling.backfill]
    look_ahead = 50
    """

    settings = parse(text, "rota.toml", {"ROTA_PORT": "9000", "ROTA_HOST": "0.0.0.0"})

    policy = changed(DEFAULT, settings.scheduling.rules)
    assert settings.scheduling.interval_ms == 250
    assert (policy.gang.assembly_timeout_s, policy.preempt.grace_s) == (300, 90)
    assert (settings.server.inbox_size, policy.backfill.look_ahead) == (500, 50)
    assert settings.server.address == ("0.0.0.0", 9000)


def test_the_guide_advises_headroom_realistic_quotas_and_queues_by_urgency():
    guide = " ".join((REPOSITORY / "docs" / "admin.md").read_text(encoding="utf-8").split())

    advice = guide[guide.index("Leave 10 to 20 % of a machine to the system") :][:260]

    assert "quotas that add up to what is there" in advice
    assert "a queue for each urgency" in advice


def test_the_guide_says_which_provider_and_which_policy_suit_which_site():
    guide = (REPOSITORY / "docs" / "engines.md").read_text(encoding="utf-8")

    table = guide[guide.index("## Which engine and which policy") :].split("\n\n")[1]
    sites = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()]

    assert sites[0] == ["the site", "engine", "placement", "policy", "quotas"]
    assert {row[4].split("`")[1] for row in sites[2:]} == {"local", "slurm", "k8s"}
    named = {word for row in sites[2:] for word in row[3].split("`")[1::2]}
    assert named <= set(PRESETS)
    assert len(named) >= 2


def test_the_guide_says_what_to_do_about_jobs_that_stay_queued():
    guide = (REPOSITORY / "docs" / "troubleshooting.md").read_text(encoding="utf-8")

    steps = guide[guide.index("By hand, in this order") :][:900]

    order = ["rota quota show", "rota queues", "/jobs/scheduler/trigger"]
    order += ["/sync", "kubectl get resourcequota", "sacctmgr show association"]
    order += ["sacctmgr show qos"]
    assert [step for step in order if step not in steps] == []
    assert sorted(order, key=steps.index) == order


# Mistakes that are often made, parts B and C: each has a test that would catch it.


def test_the_gpus_of_a_job_that_is_cancelled_go_to_the_next_one_once_it_has_stopped():
    scene = site(machine("box", gpus=2))
    scene.submit("runs", gpus=2)
    scene.submit("next", gpus=2)

    scene.cancel("runs")
    waits = scene.state("next")
    scene.finish("runs", signal=15)

    assert waits == "queued"
    assert scene.job("next").live_attempts[0].allocation.devices == (0, 1)


def test_jobs_that_wait_are_no_use_and_do_not_put_their_account_back():
    scene = site(machine("box"))
    scene.set_policy("fairshare")
    scene.submit("runs", cpus=4, actor=OPERATOR)
    for number in range(20):
        scene.submit(f"alice {number}", cpus=4, actor=ALICE)
    scene.submit("bob", cpus=4, actor=BOB)

    scene.finish("runs")

    assert scene.is_running("alice 0"), "the older one, because neither account has used anything"
