"""What a Scheduler remembers between passes is dropped as soon as it is not right any more."""

import gc

import pytest
from msgspec.structs import replace

from rota.core.changes import events as ev
from rota.core.derived.lanes import Lane, Shape
from rota.core.facts.job import Outcome
from rota.core.facts.node import ForeignUse
from rota.core.facts.policy import (
    Backfill,
    BackfillRules,
    OrderRules,
    PlaceRules,
    Policy,
    PreemptRules,
)
from rota.core.facts.states import Cause, JobState
from rota.core.facts.tenant import Limits, Project, Quota, User
from rota.core.words.presets import PRESETS
from rota.scheduling.api import NodeView
from rota.scheduling.order.heads import entry_in
from rota.scheduling.place.node_room import Room
from rota.scheduling.place.scores import STRATEGIES
from rota.scheduling.registry import Catalog
from rota.scheduling.scheduler import Scheduler
from rota.testing.scene import Scene
from rota.testing.stage import Stage, node, spec


def left_in(room: Room) -> tuple[object, ...]:
    devices = [(d.taken, d.sharers, d.shared_mib, d.foreign_mib) for d in room.devices.values()]
    amounts = (room.cpu_milli, room.memory_mib, room.disk_mib, room.holders, room.alone)
    return amounts, tuple(room.cpus), tuple(devices)


def test_a_room_follows_its_node_through_starts_and_ends():
    stage = Stage([node("a", cpus=8, gpus=2)], PRESETS["easy"])
    for cpus in (1, 3, 2, 1, 2, 1):
        stage.submit(spec(cpus=cpus, gpus=int(cpus == 3), mem=64), runs_s=50.0 * cpus)
    stage.run()
    room = stage.scheduler.space.rooms["a"]

    for _ in range(4):
        stage.step()
        here = stage.scheduler.space.rooms["a"]
        stage.scheduler.catch_up(stage.now_s)
        assert here is room
        assert left_in(room) == left_in(Room.now(stage.cluster.nodes["a"]))


def test_a_room_is_made_anew_when_more_than_attempts_changed():
    stage = Stage([node("a", gpus=1)])
    stage.run()
    room = stage.scheduler.space.rooms["a"]

    stage.tell(ev.DevicesSeen(node="a", foreign=(ForeignUse(0, 7, "root", 4000),)))
    stage.run()

    assert stage.scheduler.space.rooms["a"] is not room
    assert stage.scheduler.space.rooms["a"].devices[0].foreign_mib == 4000


def test_an_attempt_that_began_late_leaves_late():
    stage = Stage([node("a", cpus=2)])
    job = stage.submit(spec(cpus=1, time_limit_s=100), runs_s=90)
    plan = stage.scheduler.run(stage.now_s)
    held = plan.starts[0].allocations[0]
    stage.tell(ev.AttemptPlaced(job=job, task=0, uid="u1.0.1", allocation=held, incarnation="i/b"))
    stage.scheduler.catch_up(stage.now_s)
    placed_s = stage.scheduler.timeline.end_s("a", "u1.0.1")

    stage.tell(ev.AttemptStarted(job=job, task=0, uid="u1.0.1", pid=1, started_s=stage.now_s + 30))
    other = stage.submit(spec(cpus=1, time_limit_s=10))
    stage.run()
    stage.scheduler.catch_up(stage.now_s)

    assert stage.running == [job, other]
    assert stage.scheduler.timeline.end_s("a", "u1.0.1") == placed_s + 30


def a_full_box(policy: Policy) -> tuple[Stage, int, int]:
    """A box that is taken, and two equal jobs that wait for it."""
    stage = Stage([node("a", cpus=1)], policy)
    stage.submit(spec(cpus=1, time_limit_s=50_000))
    stage.run()
    first, second = (stage.submit(spec(cpus=1, time_limit_s=60)) for _ in range(2))
    stage.run()
    return stage, first, second


def known_key(stage: Stage, lane: Lane, at_s: float) -> object:
    entry = entry_in(stage.cluster, lane, lane.first)
    return stage.scheduler.standing.key_of(entry, lane.number, at_s)


def test_a_key_is_right_until_its_job_grows_a_step_older():
    stage, first, _ = a_full_box(Policy(order=OrderRules(age_after_s=3600, wait_max_s=0)))
    lane = stage.cluster.lanes.where[first]

    assert known_key(stage, lane, stage.now_s + 3000) is not None
    assert known_key(stage, lane, stage.now_s + 3600) is None
    assert known_key(stage, lane, stage.now_s - 1) is None


def test_a_key_is_right_until_its_job_has_waited_too_long():
    stage, first, _ = a_full_box(
        Policy(order=OrderRules(primary="fifo", secondary="fifo", wait_max_s=7200))
    )
    lane = stage.cluster.lanes.where[first]

    assert known_key(stage, lane, stage.now_s + 7000) is not None
    assert known_key(stage, lane, stage.now_s + 7200) is None


def test_a_key_is_not_right_for_the_next_job_of_its_lane():
    stage, first, second = a_full_box(PRESETS["easy"])
    lane = stage.cluster.lanes.where[first]

    stage.tell(
        ev.JobSettled(job=first, outcome=Outcome(JobState.CANCELLED, Cause.CANCELLED, exit_code=0))
    )

    assert stage.cluster.lanes.where[second] is lane
    assert known_key(stage, lane, stage.now_s) is None


def test_a_lane_of_equal_jobs_is_worked_off_as_room_comes():
    plain = Policy(
        order=OrderRules(primary="fifo", secondary="fifo", wait_max_s=0),
        backfill=BackfillRules(kind=Backfill.NONE),
    )
    for policy in (plain, *PRESETS.values()):
        stage = Stage([node("a", cpus=2)], policy)
        jobs = [stage.submit(spec(cpus=1, time_limit_s=60)) for _ in range(9)]

        while stage.run().starts:
            for job in stage.running:
                stage.end(job)

        assert [*stage.started_s] == jobs


@pytest.mark.parametrize(("joins", "gives_way"), [(False, "wide"), (True, "card")])
def test_what_a_victim_is_worth_follows_the_nodes_that_join(joins: bool, gives_way: str):
    rules = Policy(preempt=PreemptRules(enabled=True, min_runtime_s=0))
    stage = Stage([node("a", cpus=8, gpus=1)], rules)
    names = {
        stage.submit(spec(cpus=4, priority=10, preemptible=True)): "wide",
        stage.submit(spec(cpus=3, gpus=1, priority=10, preemptible=True)): "card",
    }
    stage.run()
    if joins:
        cards = node("b", cpus=1, gpus=8)
        stage.tell(ev.NodeRegistered(spec=cards, incarnation="i", boot_id="b"))

    stage.submit(spec(cpus=4, priority=90))
    plan = stage.run()

    told = [names[eviction.job] for eviction in plan.evictions]
    assert told == [gives_way], "one card of nine is less than half of the CPUs"


class Favourite:
    """A scorer that likes one zone, and another one in a later pass."""

    name = "favourite"

    def __init__(self) -> None:
        self.zone = "c"

    def score(self, shape: Shape, node: NodeView) -> float:
        return float(node.labels["zone"] == self.zone)


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "first-fit"])
def test_what_a_plugged_in_scorer_says_counts_in_every_pass_anew(strategy: str):
    rule = Favourite()
    policy = Policy(scorers=("favourite=1000",), place=PlaceRules(strategy=strategy))
    stage = Stage([node(name, zone=name) for name in "abc"], policy)
    stage.scheduler = Scheduler(stage.cluster, lambda _: Catalog(scorers={"favourite": rule}))
    first = stage.submit(spec())
    stage.run()
    rule.zone = "b"
    second = stage.submit(spec())
    stage.run()

    assert [stage.nodes_of(job) for job in (first, second)] == [["c"], ["b"]]


class KeepsOne:
    """A filter that keeps one GPU of each node free."""

    name = "keeps-one"

    def problem(self, shape: Shape, node: NodeView) -> str:
        return "its last GPU is kept free" if node.free.device_milli < 2000 else ""


def test_a_plugged_in_filter_sees_what_each_start_of_the_pass_leaves():
    stage = Stage([node(name, cpus=8, gpus=2) for name in "ab"], Policy(filters=("keeps-one",)))
    stage.scheduler = Scheduler(stage.cluster, lambda _: Catalog(filters={"keeps-one": KeepsOne()}))
    jobs = [stage.submit(spec(gpus=1)) for _ in range(3)]
    stage.run()

    assert sorted(stage.nodes_of(jobs[0]) + stage.nodes_of(jobs[1])) == ["a", "b"]
    assert stage.waiting == jobs[2:]


def test_where_jobs_give_way_time_alone_makes_no_pass_look_before_a_job_is_older_by_a_step():
    stage = Stage([node("a", cpus=4)], PRESETS["preemptive"])
    stage.submit(spec(cpus=4, priority=50))
    stage.submit(spec(cpus=4, priority=50))
    stage.run()
    stage.now_s += 3000
    stage.run()
    looks = stage.scheduler.looks

    stage.now_s += 500
    stage.run()
    before = stage.scheduler.looks - looks
    stage.now_s = stage.scheduler.standing.next_step_s
    stage.run()
    after = stage.scheduler.looks - looks

    assert (before, after) == (0, 1)


def test_a_promise_moves_up_when_a_job_ends_that_the_last_pass_had_only_planned():
    stage = Stage([node("a", cpus=4)], PRESETS["conservative"])
    long = stage.submit(spec(cpus=2, time_limit_s=1000))
    stage.submit(spec(cpus=2, time_limit_s=500))
    wide = stage.submit(spec(cpus=4, time_limit_s=100))
    stage.run()
    first_s = stage.scheduler.promise_of(wide).start_s

    stage.end(long)
    stage.run()

    assert first_s == stage.begin_s + 1000
    assert stage.scheduler.promise_of(wide).start_s == stage.begin_s + 500


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_pass_starts_as_many_jobs_as_it_may_and_says_that_there_are_more(limit: int):
    stage = Stage([node("a", cpus=4)])
    for cpus in (1, 1, 2):
        stage.submit(spec(cpus=cpus))

    plan = stage.scheduler.run(stage.now_s, limit)

    assert (len(plan.starts), plan.more) == (limit, True)


@pytest.mark.parametrize("policy", [p for p in PRESETS.values() if not p.preempt.enabled])
def test_a_pass_leaves_nothing_behind_that_only_the_garbage_collector_could_free(policy):
    stage = Stage([node("a", cpus=4), node("b", cpus=4)], policy)
    for cpus in (3, 4, 4, 2, 1, 1):
        stage.submit(spec(cpus=cpus, time_limit_s=100 * cpus), runs_s=50.0 * cpus)
    stage.run()
    gc.collect()
    gc.disable()

    try:
        for _ in range(3):
            stage.submit(spec(cpus=1, time_limit_s=60))
            stage.scheduler.run(stage.now_s)
        left = gc.collect()
    finally:
        gc.enable()

    assert left == 0


def test_a_pass_that_has_nothing_to_look_at_still_says_when_to_look_again():
    stage = Stage([node("a", cpus=4)], PRESETS["easy"])
    stage.submit(spec(cpus=4, time_limit_s=100))
    stage.submit(spec(cpus=4, time_limit_s=100))
    stage.run()
    looks = stage.scheduler.looks

    stage.now_s += 10
    plan = stage.run()

    assert stage.scheduler.looks == looks
    assert plan.wake_s == stage.begin_s + 100


def test_a_job_that_grows_older_takes_the_room_of_its_equal_though_nothing_else_happens():
    rules = PRESETS["preemptive"]
    order = replace(rules.order, age_after_s=600, age_factor=2.0)
    stage = Stage([node("a", cpus=4)], replace(rules, order=order))
    stage.submit(spec(cpus=4, preemptible=True, grace_s=0), runs_s=100_000.0)
    waits = stage.submit(spec(cpus=4), runs_s=10.0)

    stage.play()

    assert 600 <= stage.started_s[waits] - stage.begin_s < 601


def test_what_an_account_starts_in_one_project_makes_it_borrow_in_another_in_the_same_pass():
    stage = Stage([node("a", cpus=4)], PRESETS["fifo"])
    own = Quota(soft=Limits(cpu_milli=2000), borrow=True)
    for name in ("cem", "ann"):
        stage.tell(ev.UserSet(user=User(name, quota=own)))
    for name in ("vision", "text"):
        stage.tell(ev.ProjectSet(project=Project(name)))
    first = stage.submit(spec(cpus=2, user="cem", project="vision"))
    stage.submit(spec(cpus=2, user="cem", project="text"))
    within = stage.submit(spec(cpus=2, user="ann"))

    stage.run()

    assert stage.running == [first, within]


def test_a_promise_counts_a_job_from_when_it_began_and_not_from_when_it_was_placed():
    scene = Scene(cpus=4)
    scene.set_policy("easy")
    scene.starts = False
    scene.submit("slow", cpus=4, time_limit_s=100)
    placed_s = scene.now_s
    wide = scene.submit("wide", cpus=4, time_limit_s=100)
    scene.pass_time(30)
    scene.start("slow")

    scene.submit("small", cpus=1, time_limit_s=1000)

    assert scene.controller.scheduler.promise_of(wide).start_s == placed_s + 130
