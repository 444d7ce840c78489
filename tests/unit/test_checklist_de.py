"""Single promises of docs/requirements.md, parts D and E, with the numbers that they name."""

import asyncio
import random
from math import log2

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.api.bodies.requests import JobRequest
from rota.api.bodies.submission import Desk, to_submission
from rota.controller.commands.commands import Submission, Submit
from rota.controller.launches.launch import wanted
from rota.controller.loop import Host
from rota.core.derived.lanes import Lane, key_with
from rota.core.derived.usage import usage_key
from rota.core.facts.job import JobSpec, RestartPolicy
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.policy import (
    DEFAULT,
    Backfill,
    BackfillRules,
    OrderRules,
    PlaceRules,
    Policy,
)
from rota.core.facts.states import Cause, Phase
from rota.core.facts.tenant import Reservation
from rota.core.words.policy_text import changed
from rota.core.words.presets import preset
from rota.scheduling.answers.explain import explain
from rota.scheduling.order.orderings import aged, boosted
from rota.store.memory import MemoryStore
from rota.store.writer import InlineWriter
from rota.testing.scene import ALICE, BOB, Scene
from rota.testing.stage import Stage, node, spec
from tests.support.effort import calls_of
from tests.unit.books import Books

HOUR_S = 3600
FIFO = OrderRules(primary="fifo", secondary="fifo")


def hours(count: float, **wishes) -> JobSpec:
    return spec(time_limit_s=int(count * HOUR_S), **wishes)


# D05


@pytest.mark.parametrize(
    ("name", "first"),
    [("fifo", "plain"), ("fair_share", "light"), ("priority", "high"), ("deadline", "pressing")],
)
def test_the_policy_of_a_name_decides_who_comes_first(name, first):
    stage = Stage([node("n0")], preset(name))
    stage.submit(hours(1, cpus=4, user="heavy"))
    stage.run()
    jobs = {
        "plain": stage.submit(hours(1, cpus=4, user="heavy")),
        "light": stage.submit(hours(1, cpus=4, user="light")),
        "high": stage.submit(hours(1, cpus=4, user="heavy", priority=90)),
        "pressing": stage.submit(
            hours(1, cpus=4, user="heavy", deadline_s=stage.begin_s + 9 * HOUR_S)
        ),
    }

    stage.step()

    assert stage.running == [jobs[first]]


def test_the_policy_backfill_lets_short_jobs_past_and_promises_the_first_its_start():
    stage = Stage([node("n0"), node("n1")], preset("backfill"))
    stage.submit(hours(2, cpus=4))
    wide, long, short = (
        stage.submit(hours(8, cpus=4, tasks=2)),
        stage.submit(hours(3, cpus=4)),
        stage.submit(hours(1, cpus=4)),
    )

    stage.run()

    assert stage.promised_s == {wide: stage.begin_s + 2 * HOUR_S}
    assert (short in stage.running, long in stage.running) == (True, False)


def test_the_policy_preemptive_takes_room_from_willing_jobs_of_lower_priority():
    stage = Stage([node("n0")], preset("preemptive"))
    stage.submit(hours(9, cpus=4, priority=10, preemptible=True, grace_s=0))
    stage.run()
    high = stage.submit(hours(1, cpus=4, priority=90))

    stage.play()

    assert stage.started_s[high] < stage.begin_s + HOUR_S


# D06


def test_the_state_knows_queue_room_usage_gangs_preemptions_and_windows_after_a_restart():
    scene = Scene(cpus=4, nodes=2)
    scene.set_policy("preemptive", preempt_min_runtime_s=0)
    scene.submit("past", cpus=2, project="vision")
    scene.pass_time(HOUR_S)
    scene.finish("past")
    scene.submit("gang", cpus=4, tasks=2, priority=10, preemptible=True)
    scene.submit("vip", cpus=4, priority=75, time_limit_s=HOUR_S)
    for attempt in scene.job("gang").live_attempts:
        scene.end(attempt.uid, None, 15)
    scene.submit("short", cpus=3, estimate_s=600, priority=5)

    scene.restart()

    cluster = scene.cluster
    assert list(cluster.lanes.where) == [scene.names["gang"]]
    room = {name: scene.controller.scheduler.cluster.nodes[name].live for name in cluster.nodes}
    assert sum(held.cpu_milli for live in room.values() for held in live.values()) == 7000
    used = cluster.accounts.usage[usage_key("alice", "vision")]
    assert used.since(scene.now_s - 168 * HOUR_S).cpu_s == pytest.approx(2 * HOUR_S)
    assert len(scene.job("gang").tasks) == 2
    assert scene.job("gang").preemptions == 1
    assert scene.job("short").live_attempts[0].window_s > scene.now_s
    assert cluster.policy.preempt.max_per_job == 3


# D10


@given(
    priority=st.integers(0, 100),
    factor=st.floats(0.0, 1000.0),
    top=st.integers(1, 1000),
    wait_s=st.floats(0, 1e9),
)
def test_neither_a_boost_nor_age_leads_beyond_the_maximum(priority, factor, top, wait_s):
    rules = OrderRules(
        priority_max=top, boost_low=factor, boost_normal=factor, boost_high=factor, age_factor=2.0
    )

    lifted = boosted(priority, rules)

    assert DEFAULT.order.priority_max == 1000
    assert 0 <= lifted <= aged(lifted, wait_s, rules) <= top


# D13, D15


def test_the_priority_of_a_waiting_job_follows_what_its_user_holds():
    scene = Scene(cpus=4)
    scene.set_policy("multifactor")
    scene.submit("runs", cpus=4)
    scene.submit("waits", cpus=4)
    scene.submit("other", cpus=4, actor=BOB)

    def share(name: str) -> float:
        found = explain(scene.controller.scheduler, scene.names[name], scene.now_s)
        return found.tree.priority["share"]

    mine, his = share("waits"), share("other")
    scene.pass_time(60)
    scene.cancel("other", actor=BOB)
    scene.submit("another", cpus=4, actor=BOB)
    scene.finish("runs")

    assert mine < his == 500
    assert scene.is_running("another")
    assert share("waits") > mine


@pytest.mark.parametrize("resource", ["cpu", "memory", "device"])
def test_each_resource_has_a_weight_of_its_own_in_fair_share(resource):
    ratios = {}
    for weight in (1.0, 2.0):
        books = Books(cpus=10, memory_mib=10240, gpus=10)
        others = {f"weight_{name}": 0.0 for name in ("cpu", "memory", "device") if name != resource}
        books.rules(share={f"weight_{resource}": weight, **others})
        books.wait("alice")
        books.run("alice", cpus=2, mem=3072, gpus=4)
        ratios[weight] = books.shares().ratio("alice", "")

    assert 0 < ratios[1.0] < ratios[2.0]


# D17


def test_shares_are_brought_level_while_jobs_run():
    stage = Stage([node("n0", cpus=8)], preset("fairshare"))
    for _ in range(60):
        stage.submit(hours(1, user="alice"))
    stage.run()
    before = {stage.cluster.jobs[job].spec.user for job in stage.running}
    for _ in range(60):
        stage.submit(hours(1, user="bob"))

    for _ in range(3):
        stage.step()
    owners = [stage.cluster.jobs[job].spec.user for job in stage.running]

    assert before == {"alice"}
    assert owners.count("bob") >= owners.count("alice") > 0


# D20, D21, D23, D25


@pytest.mark.parametrize(("room", "members"), [(7, 0), (8, 8), (9, 9)])
def test_the_policy_gang_starts_a_gang_with_eight_of_ten_members_and_not_with_seven(room, members):
    scene = Scene(cpus=10)
    scene.set_policy("gang")
    scene.submit("other", cpus=10 - room)

    scene.submit("gang", tasks=10)

    assert len(scene.job("gang").live_attempts) == members


def test_a_gang_has_ten_minutes_to_assemble_unless_the_policy_says_otherwise():
    scene = Scene(cpus=4, starts=False)
    scene.submit("gang", tasks=3)
    scene.start_placed(scene.job("gang").live_attempts[:2])
    scene.pass_time(599)
    before = set(scene.stopping)

    scene.pass_time(1)

    assert before == set()
    assert len(scene.stopping) == 2


def test_the_state_of_every_member_of_a_gang_is_known():
    scene = Scene(cpus=4, starts=False)
    scene.submit("gang", tasks=3)
    placed, running, ended = scene.job("gang").live_attempts
    scene.start_placed([running, ended])
    scene.end(ended.uid, 0, 0)

    phases = [task.attempts[-1].phase for task in scene.job("gang").tasks]

    assert phases == [Phase.PLACED, Phase.RUNNING, Phase.ENDED]
    assert scene.job("gang").tasks[2].attempts[-1].exit_code == 0
    assert placed.uid == scene.job("gang").tasks[0].attempts[-1].uid


def test_room_on_all_its_nodes_is_kept_for_a_gang_before_and_while_it_assembles():
    stage = Stage([node(f"n{i}") for i in range(3)], preset("conservative"))
    stage.submit(hours(2, cpus=4))
    gang = stage.submit(hours(5, cpus=4, tasks=3))
    late = stage.submit(hours(3, cpus=1))

    plan = stage.run()

    (promise,) = (promise for promise in plan.promises if promise.job == gang)
    assert sorted(held.node for held in promise.allocations) == ["n0", "n1", "n2"]
    assert late in stage.waiting
    scene = Scene(cpus=2, nodes=2, starts=False)
    scene.submit("gang", cpus=2, tasks=2)
    scene.start_placed(scene.job("gang").live_attempts[:1])
    scene.submit("other", cpus=1)
    assert scene.state("other") == "queued"


# D30


@settings(max_examples=40)
@given(
    high=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=6),
    low=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9)), max_size=6),
)
def test_jobs_of_lower_priority_never_delay_those_of_higher(high, low):
    starts = []
    for further in ([], low):
        stage = Stage([node("n0"), node("n1")], preset("conservative"))
        policy = changed(stage.cluster.policy, {"order.primary": "priority"})
        stage = Stage([node("n0"), node("n1")], policy)
        jobs = [stage.submit(hours(length, cpus=cpus, priority=60)) for cpus, length in high]
        for cpus, length in further:
            stage.submit(hours(length, cpus=cpus, priority=40))
        stage.play()
        starts.append([stage.started_s[job] for job in jobs])

    assert starts[0] == starts[1]


# D32


def test_fifty_jobs_and_an_hour_can_be_set_as_the_bounds_of_looking_ahead():
    rules = changed(
        preset("easy"), {"backfill.look_ahead": "50", "backfill.horizon_s": "1h"}
    ).backfill
    started = {}
    for behind in (49, 50):
        stage = Stage([node("n0"), node("n1")], Policy(order=FIFO, backfill=rules))
        stage.submit(spec(cpus=4, time_limit_s=HOUR_S))
        stage.submit(hours(8, cpus=4, tasks=2))
        for number in range(behind):
            stage.submit(spec(cpus=4, time_limit_s=2 * HOUR_S + number))
        last = stage.submit(spec(cpus=4, time_limit_s=60))
        stage.run()
        started[behind] = last in stage.running
    far = Stage([node("n0"), node("n1")], Policy(order=FIFO, backfill=rules))
    far.submit(spec(cpus=4, time_limit_s=HOUR_S + 1))
    far.submit(hours(8, cpus=4, tasks=2))
    far.run()

    assert started == {49: True, 50: False}
    assert far.promised_s == {}


# D33, D34, D36, D37


@pytest.mark.parametrize(("priority", "evicts"), [(59, False), (60, True)])
def test_a_preemptor_stands_a_hundred_points_above_its_victim(priority, evicts):
    scene = Scene(cpus=4)
    scene.set_policy("preemptive")
    scene.submit("low", cpus=4, priority=50, preemptible=True)
    scene.pass_time(300)

    scene.submit("vip", cpus=4, priority=priority)

    assert bool(scene.stopping) is evicts


def test_a_victim_that_saves_its_work_has_five_minutes_under_the_policy_preemptive():
    scene = Scene(cpus=4)
    scene.set_policy("preemptive", preempt_mode="checkpoint")
    scene.submit("low", cpus=4, priority=50, preemptible=True, checkpoint_signal="USR1")
    scene.pass_time(300)

    scene.submit("vip", cpus=4, priority=75)

    low = scene.job("low")
    order = wanted(scene.cluster, low, 0, lambda digest: b"", {})
    assert low.live_attempts[0].stop_cause is Cause.PREEMPTED
    assert (order.signal, order.grace_s) == ("USR1", 300.0)


def test_a_job_gives_way_three_times_and_no_more():
    scene = Scene(cpus=4)
    scene.set_policy("preemptive")
    scene.submit("low", cpus=4, priority=10, preemptible=True)
    evicted = []

    for number in range(4):
        scene.pass_time(300)
        scene.submit(f"vip {number}", cpus=4, priority=75)
        evicted.append(bool(scene.stopping))
        if scene.stopping:
            scene.finish("low", signal=15)
            scene.finish(f"vip {number}")

    assert evicted == [True, True, True, False]
    assert scene.job("low").preemptions == 3


def test_a_job_is_spared_in_its_first_five_minutes():
    scene = Scene(cpus=4)
    scene.set_policy("preemptive")
    scene.submit("low", cpus=4, priority=10, preemptible=True)
    scene.submit("vip", cpus=4, priority=75)
    scene.pass_time(299)
    young = set(scene.stopping)

    scene.pass_time(1)

    assert young == set()
    assert len(scene.stopping) == 1


# D47, D50


def test_the_cpus_of_a_job_are_bound_next_to_its_devices():
    devices = tuple(Device(i, f"g{i}", numa=i, memory_mib=1024) for i in range(2))
    domains = ((0, 1, 2, 3), (4, 5, 6, 7))
    machine = NodeSpec(
        "n0",
        8000,
        1024,
        cpus=tuple(range(8)),
        devices=devices,
        numa_cpus=domains,
    )
    stage = Stage([machine])
    jobs = [stage.submit(spec(cpus=2, gpus=1)) for _ in range(2)]

    stage.run()

    held = [stage.cluster.jobs[job].live_attempts[0].allocation for job in jobs]
    assert [(room.devices, room.cpus) for room in held] == [((0,), (0, 1)), ((1,), (4, 5))]


@pytest.mark.parametrize(
    ("rule", "wish"), [("overcommit_cpu", {"cpus": 4}), ("overcommit_memory", {"mem": 16384})]
)
def test_each_resource_has_an_overcommit_ratio_of_its_own(rule, wish):
    running = {}
    for ratio in (1.0, 2.0):
        policy = Policy(place=PlaceRules(**{rule: ratio}))
        stage = Stage([node("n0", cpus=4, mem=16384)], policy)
        for _ in range(3):
            stage.submit(spec(**({"cpus": 1} | wish)))
        stage.run()
        running[ratio] = len(stage.running)

    assert running == {1.0: 1, 2.0: 2}


# D62


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, (RestartPolicy.ON_FAILURE, 0, 1.0)),
        ({"restart": "on-failure"}, (RestartPolicy.ON_FAILURE, 3, 60.0)),
        ({"restart": "always"}, (RestartPolicy.ALWAYS, 3, 60.0)),
        ({"restart": "never"}, (RestartPolicy.NEVER, 0, 1.0)),
        ({"restart": "always", "retries": 0}, (RestartPolicy.ALWAYS, 0, 1.0)),
        ({"restart": "always", "backoff_s": 5}, (RestartPolicy.ALWAYS, 3, 5.0)),
        ({"retries": 7}, (RestartPolicy.ON_FAILURE, 7, 1.0)),
    ],
)
def test_a_job_that_asks_for_restarts_without_a_number_gets_three_after_a_minute(asked, expected):
    body = msgspec.json.encode({"command": ["true"], "workdir": "/", **asked})
    request = msgspec.json.decode(body, type=JobRequest)
    desk = Desk(lambda digest: False, lambda: 0.0, int)

    made = to_submission(request, ALICE, desk).spec

    assert (made.restart, made.retries, made.backoff_s) == expected


def test_three_restarts_come_after_one_two_and_four_minutes():
    scene = Scene()
    scene.submit("flaky", retries=3, backoff_s=60.0)
    waits = []

    for _ in range(3):
        scene.finish("flaky", 1)
        waits.append(scene.job("flaky").not_before_s - scene.now_s)
        scene.pass_time(waits[-1])
    scene.finish("flaky", 1)

    assert waits == [60, 120, 240]
    assert scene.state("flaky") == "failed"


# D68


class Counted(tuple):
    """A place in a lane that counts how often it is compared."""

    compared = 0

    def __lt__(self, other):
        Counted.compared += 1
        return tuple.__lt__(self, other)


@pytest.mark.parametrize("waiting", [100, 10_000])
def test_a_job_finds_its_place_in_line_in_logarithmic_time(waiting):
    lane = Lane(key_with(1, spec()))
    ids = list(range(waiting))
    random.Random(7).shuffle(ids)
    Counted.compared = 0

    for item in ids:
        lane.add(Counted((-50, item)))

    assert [item for _, item in lane.walk()] == list(range(waiting))
    assert Counted.compared / waiting <= 2 * log2(waiting)


@pytest.mark.parametrize("policy", ["priority", "fairshare"])
def test_the_work_for_each_start_grows_no_faster_than_the_logarithm_of_the_queue(policy):
    work = {}
    for waiting in (100, 1600):
        stage = Stage([node("n0", cpus=2 * waiting)], preset(policy), checked=False)
        for number in range(waiting):
            stage.submit(hours(1, priority=number % 100, user=f"u{number % 10}", mem=number % 7))
        work[waiting] = calls_of(lambda stage=stage: stage.scheduler.run(stage.now_s, 10_000))

    assert work[1600] / 1600 <= work[100] / 100 * log2(1600) / log2(100)


# E03


def test_a_time_that_comes_wakes_the_controller_and_nothing_else_does():
    async def story() -> tuple[int, int, str]:
        store = MemoryStore()
        host = Host(store, InlineWriter(store))
        running = asyncio.create_task(host.run())
        giving_up = JobSpec(name="x", user="alice", command=("true",), scheduling_timeout_s=1)
        answer = await host.ask(Submit(actor=ALICE, submissions=(Submission(spec=giving_up),)))
        before = host.meters.ticks

        await host.watch.settled(list(answer.ids), timeout_s=30)

        state = str(host.cluster.state_of(answer.ids[0]))
        ticks = host.meters.ticks - before
        host.stop()
        await running
        return before, ticks, state

    before, ticks, state = asyncio.run(story())

    assert state == "unschedulable"
    assert before <= 2
    assert ticks <= 2


# E25


def test_the_owner_of_a_reservation_by_count_may_use_other_free_gpus_beside_it():
    policy = Policy(order=FIFO, backfill=BackfillRules(kind=Backfill.NONE))
    stage = Stage([node("n0", gpus=4)], policy)
    start_s = stage.begin_s
    stage.reserve(Reservation(99, "bob", start_s, start_s + 9 * HOUR_S, device_count=2))
    jobs = [stage.submit(hours(1, gpus=1, user="bob")) for _ in range(4)]

    stage.run()

    assert stage.running == jobs


# D60


def test_a_child_is_cancelled_when_its_parents_take_longer_than_it_waits_for_them():
    scene = Scene()
    scene.submit("parent")
    scene.submit("child", after={"parent": "after-ok"}, dependency_timeout_s=HOUR_S)
    scene.submit("grandchild", after={"child": "after-ok"})
    scene.submit("patient", after={"parent": "after-ok"})
    scene.pass_time(HOUR_S - 1)
    before = scene.state("child")
    scene.restart()

    scene.pass_time(1)

    assert before == "queued"
    assert scene.states("child", "grandchild", "patient") == ["cancelled", "cancelled", "queued"]
    assert scene.cause("child") == "dependency: job 1 was still running after 1h"


def test_parents_that_are_met_in_time_end_the_wait_for_them():
    scene = Scene(cpus=8)
    scene.submit("parent")
    scene.submit("child", after={"parent": "after-ok"}, dependency_timeout_s=60, retries=1)
    scene.submit("array", array="0-3", after={"parent": "after-ok"}, dependency_timeout_s=60)
    scene.pass_time(30)
    scene.finish("parent")

    scene.pass_time(600)
    scene.finish("child", 1)
    scene.pass_time(600)

    assert scene.is_running("child")
    assert not scene.cluster.arrays[scene.names["array"]].cut


def test_an_array_whose_parents_are_late_is_cancelled_as_a_whole():
    scene = Scene()
    scene.submit("parent")
    array = scene.submit("array", array="0-3", after={"parent": "after"}, dependency_timeout_s=60)
    scene.submit("held", hold=True)
    scene.submit("late", array="0-3", after={"held": "after-any"}, dependency_timeout_s=60)

    scene.pass_time(60)

    assert scene.state(array + 1) == "running"
    assert scene.state(scene.names["late"] + 1) == "cancelled"


def test_with_any_of_several_parents_the_first_that_is_met_is_enough_and_each_end_is_looked_at():
    scene = Scene()
    for name in ("one", "two", "three"):
        scene.submit(name)
    after = dict.fromkeys(("one", "two", "three"), "after-ok")
    scene.submit("child", after=after, any_dependency=True)
    scene.finish("one", 1)
    waits = scene.state("child")

    scene.finish("two")

    assert (waits, scene.is_running("child")) == ("queued", True)


# D95: mistakes that are often made, each with a test that would catch it.


def test_a_job_that_fits_starts_however_many_others_before_it_do_not():
    scene = Scene(cpus=4)
    scene.set_policy("fifo")
    scene.submit("runs", cpus=3)
    for number in range(200):
        scene.submit(f"wide {number}", cpus=2 + number % 3, time_limit_s=9000 + number)

    scene.submit("small", cpus=1)

    assert scene.is_running("small")


def live_uid(scene: Scene, job: str) -> str:
    return scene.job(job).live_attempts[0].uid


def test_other_jobs_start_while_a_victim_has_its_grace():
    scene = Scene(cpus=4, nodes=2)
    scene.set_policy("preemptive", preempt_min_runtime_s=0, preempt_grace_s=300)
    for name in ("first", "second"):
        scene.submit(name, cpus=4, priority=10, preemptible=True)
    scene.submit("urgent", cpus=4, priority=75)
    victim = next(n for n in ("first", "second") if live_uid(scene, n) in scene.stopping)

    scene.finish("second" if victim == "first" else "first")
    scene.submit("later", cpus=1, priority=10)

    assert live_uid(scene, victim) in scene.stopping, "it still saves its work"
    assert scene.is_running("later")


@pytest.mark.parametrize("end", ["completes", "fails", "is cancelled", "is killed"])
def test_what_a_job_held_is_free_again_however_it_ended(end):
    scene = Scene(cpus=4, gpus=2)
    scene.submit("job", cpus=4, gpus=2)
    if end == "is cancelled":
        scene.cancel("job")

    scene.finish("job", int(end == "fails"), signal=9 if end == "is killed" else 0)
    scene.submit("next", cpus=4, gpus=2)

    assert scene.is_running("next")
