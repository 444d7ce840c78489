"""What may pass a job that does not fit, kind by kind, and when the answer is asked for again."""

import msgspec
import pytest

from rota.controller.commands import commands as cmd
from rota.core.changes import events as ev
from rota.core.facts.job import Outcome
from rota.core.facts.placing import Placement
from rota.core.facts.policy import (
    Backfill,
    BackfillRules,
    OrderRules,
    Policy,
    PreemptRules,
)
from rota.core.facts.states import Cause, JobState
from rota.core.words.presets import PRESETS
from rota.testing.scene import ADMIN, Scene
from rota.testing.stage import Stage, node, spec

HOUR_S = 3600


def stage_with(kind: Backfill, *, nodes: int = 2, strict: bool = False, **more: int) -> Stage:
    order = OrderRules(primary="fifo", secondary="fifo", strict=strict)
    policy = Policy(order=order, backfill=BackfillRules(kind=kind, **more))
    return Stage([node(f"n{number}") for number in range(nodes)], policy)


def hours(count: float, **wishes):
    return spec(time_limit_s=int(count * HOUR_S), **wishes)


def in_hours(stage: Stage, count: float) -> float:
    return stage.begin_s + count * HOUR_S


def cancel(stage: Stage, job: int) -> None:
    gone = Outcome(JobState.CANCELLED, Cause.CANCELLED)
    stage.tell(ev.JobSettled(job=job, outcome=gone))


def test_a_short_job_slips_in_front_of_a_wide_one_and_a_long_one_does_not():
    stage = stage_with(Backfill.EASY)
    stage.submit(hours(2, cpus=4))
    wide = stage.submit(hours(8, cpus=4, tasks=2))
    short = stage.submit(hours(1, cpus=4))
    long = stage.submit(hours(3, cpus=4))

    stage.run()

    assert stage.promised_s == {wide: in_hours(stage, 2)}
    assert short in stage.started_s
    assert long in stage.waiting


def test_a_long_job_that_fits_beside_the_promised_room_passes():
    stage = stage_with(Backfill.EASY)
    stage.submit(hours(2, cpus=4))
    wide = stage.submit(hours(8, cpus=3, tasks=2))
    beside = stage.submit(hours(30, cpus=1))

    stage.run()

    assert wide in stage.waiting
    assert beside in stage.started_s


def test_without_backfill_whatever_fits_starts_and_nothing_is_promised():
    stage = stage_with(Backfill.NONE)
    stage.submit(hours(2, cpus=4))
    stage.submit(hours(8, cpus=4, tasks=2))
    long = stage.submit(hours(30, cpus=4))

    stage.run()

    assert long in stage.started_s
    assert stage.promised_s == {}


def test_strict_order_lets_nothing_pass():
    stage = stage_with(Backfill.EASY, strict=True)
    stage.submit(hours(2, cpus=4))
    stage.submit(hours(8, cpus=4, tasks=2))
    short = stage.submit(hours(1, cpus=1))

    stage.run()

    assert short in stage.waiting


def test_easy_promises_one_job_and_conservative_every_job():
    easy, conservative = stage_with(Backfill.EASY), stage_with(Backfill.CONSERVATIVE)
    for stage in (easy, conservative):
        for _ in range(5):
            stage.submit(hours(2, cpus=4, tasks=2))
        stage.run()

    assert list(easy.promised_s) == [2]
    assert [conservative.promised_s[job] for job in (2, 3, 4, 5)] == [
        in_hours(conservative, count) for count in (2, 4, 6, 8)
    ]


def test_the_depth_says_how_many_jobs_get_a_promise():
    stage = stage_with(Backfill.EASY, depth=3)
    for _ in range(6):
        stage.submit(hours(2, cpus=4, tasks=2))

    stage.run()

    assert sorted(stage.promised_s) == [2, 3, 4]


def test_an_aggressive_pass_lets_jobs_past_that_delay_the_head_within_the_bound():
    stage = stage_with(Backfill.AGGRESSIVE, delay_max_s=HOUR_S)
    stage.submit(hours(2, cpus=4))
    wide = stage.submit(hours(8, cpus=4, tasks=2))
    within = stage.submit(hours(3, cpus=4))

    stage.play()

    assert stage.started_s[within] == stage.begin_s
    assert stage.promised_s[wide] == in_hours(stage, 2)
    assert stage.started_s[wide] == in_hours(stage, 3)


def test_an_aggressive_pass_lets_nobody_past_who_would_delay_the_head_for_longer():
    stage = stage_with(Backfill.AGGRESSIVE, delay_max_s=HOUR_S)
    stage.submit(hours(2, cpus=4))
    stage.submit(hours(8, cpus=4, tasks=2))
    beyond = stage.submit(hours(3.5, cpus=4))

    stage.run()

    assert beyond in stage.waiting


def test_with_deadlines_each_job_that_has_one_gets_a_promise():
    order = OrderRules(primary="deadline", secondary="fifo")
    policy = Policy(order=order, backfill=BackfillRules(kind=Backfill.DEADLINE))
    stage = Stage([node("n0")], policy)
    stage.submit(hours(2, cpus=4))
    stage.run()
    late = stage.submit(hours(1, cpus=4, deadline_s=in_hours(stage, 9)))
    soon = stage.submit(hours(1, cpus=4, deadline_s=in_hours(stage, 5)))
    stage.submit(hours(1, cpus=4))

    stage.run()

    assert stage.promised_s == {soon: in_hours(stage, 2), late: in_hours(stage, 3)}


def test_the_look_ahead_bounds_how_many_jobs_behind_the_head_are_looked_at():
    stage = stage_with(Backfill.EASY, look_ahead=2)
    stage.submit(hours(2, cpus=4))
    stage.submit(hours(8, cpus=4, tasks=2))
    first, second = stage.submit(hours(9, cpus=4)), stage.submit(hours(9.5, cpus=4))
    third = stage.submit(hours(1, cpus=4))

    stage.run()

    assert stage.waiting == [2, first, second, third]


def test_nothing_is_promised_beyond_the_horizon():
    stage = stage_with(Backfill.EASY, horizon_s=HOUR_S)
    stage.submit(hours(2, cpus=4))
    stage.submit(hours(8, cpus=4, tasks=2))
    long = stage.submit(hours(30, cpus=4))

    stage.run()

    assert stage.promised_s == {}
    assert long in stage.started_s


def test_an_estimate_counts_where_it_is_shorter_than_the_limit():
    stage = stage_with(Backfill.EASY)
    stage.submit(hours(2, cpus=4))
    stage.submit(hours(8, cpus=4, tasks=2))
    sure = stage.submit(hours(30, cpus=4, estimate_s=HOUR_S))

    plan = stage.run()

    start = next(start for start in plan.starts if start.job == sure)
    assert start.window_s == in_hours(stage, 2)


@pytest.mark.parametrize(("gpus", "assumed_h"), [(0, 1), (1, 4)])
def test_jobs_without_limit_and_estimate_are_taken_to_run_as_the_policy_assumes(gpus, assumed_h):
    policy = Policy(order=OrderRules(primary="fifo", secondary="fifo"))
    stage = Stage([node("n0", gpus=gpus)], policy)
    stage.submit(spec(cpus=4, gpus=gpus))
    waits = stage.submit(spec(cpus=4, gpus=gpus))

    stage.run()

    assert stage.promised_s == {waits: in_hours(stage, assumed_h)}


def test_who_was_kept_out_by_a_promise_starts_when_its_owner_is_cancelled():
    stage = stage_with(Backfill.EASY)
    stage.submit(hours(2, cpus=4))
    wide = stage.submit(hours(8, cpus=4, tasks=2))
    long = stage.submit(hours(30, cpus=4))
    stage.run()
    stage.run()
    assert stage.waiting == [wide, long]

    cancel(stage, wide)
    stage.run()

    assert long in stage.started_s


def test_who_was_kept_out_by_a_promise_is_looked_at_again_when_it_could_not_be_kept():
    stage = stage_with(Backfill.EASY)
    stage.submit(spec(cpus=4, estimate_s=HOUR_S), runs_s=9 * HOUR_S)
    wide = stage.submit(hours(8, cpus=4, tasks=2))
    tiny = stage.submit(spec(cpus=4, time_limit_s=HOUR_S + 20))
    stage.run()
    assert stage.waiting == [wide, tiny]

    # A run that outlives its estimate is taken to last twice as long: the short one fits then.
    stage.play()

    assert stage.started_s[wide] == in_hours(stage, 9)


def test_a_victim_that_has_run_long_enough_gives_way_though_nothing_else_happens():
    rules = PreemptRules(enabled=True, min_runtime_s=300, only_willing=False)
    stage = Stage([node("n0")], Policy(preempt=rules))
    low = stage.submit(hours(9, cpus=4, priority=10, grace_s=0))
    stage.run()
    high = stage.submit(hours(1, cpus=4, priority=90))

    stage.play()

    assert stage.started_s[high] == stage.begin_s + 300
    assert stage.placed_s[low] > stage.started_s[high]


def test_a_gang_that_shrinks_when_its_time_is_over_ends():
    rules = PreemptRules(enabled=True, only_willing=False)
    stage = Stage([node("n0")], Policy(preempt=rules))
    gang = stage.submit(hours(1, tasks=4, at_least=2, cpus=1, priority=10, grace_s=60))
    stage.submit_later(HOUR_S - 30, hours(1, cpus=2, priority=90))

    stage.play()

    assert stage.ended_s[gang] == in_hours(stage, 1)


def test_who_started_in_the_same_pass_is_a_victim_once_he_has_run_long_enough():
    rules = PreemptRules(enabled=True, min_runtime_s=300, only_willing=False)
    order = OrderRules(primary="fifo", secondary="fifo")
    stage = Stage([node("n0")], Policy(order=order, preempt=rules))
    stage.submit(hours(9, cpus=4, priority=10, grace_s=0))
    high = stage.submit(hours(1, cpus=4, priority=90))

    stage.play()

    assert stage.started_s[high] == stage.begin_s + 300


def test_a_promise_moves_forward_when_somebody_ends_early():
    stage = stage_with(Backfill.CONSERVATIVE)
    first = stage.submit(hours(4, cpus=4, tasks=2), runs_s=HOUR_S)
    second = stage.submit(hours(2, cpus=4, tasks=2))
    third = stage.submit(hours(2, cpus=4, tasks=2))
    stage.run()

    stage.step()

    assert stage.promised_s[second] == in_hours(stage, 4)
    assert stage.ended_s[first] == stage.started_s[second] == in_hours(stage, 1)
    assert [p.start_s for p in stage.plans[-1][1].promises if p.job == third] == [
        in_hours(stage, 3)
    ]


@pytest.mark.parametrize("count", [1, 20])
def test_jobs_that_can_never_run_get_no_promise_and_hold_nobody_up(count: int):
    stage = stage_with(Backfill.EASY)
    stage.submit(hours(2, cpus=4))
    for _ in range(count):
        stage.submit(hours(1, cpus=64))
    wide = stage.submit(hours(1, cpus=4, tasks=2))

    stage.run()

    assert stage.promised_s == {wide: in_hours(stage, 2)}


def test_a_policy_that_changes_makes_all_promises_anew():
    stage = stage_with(Backfill.CONSERVATIVE)
    for _ in range(4):
        stage.submit(hours(2, cpus=4, tasks=2))
    stage.run()
    policy = stage.cluster.policy
    easy = msgspec.structs.replace(policy.backfill, kind=Backfill.EASY)
    stage.tell(ev.PolicySet(policy=msgspec.structs.replace(policy, backfill=easy)))

    plan = stage.run()

    assert [promise.job for promise in plan.promises] == [2]


def test_those_with_a_promise_start_though_others_came_to_stand_before_them():
    """The two who come back have older numbers, and use up what there is to promise."""
    scene = Scene(cpus=2)
    rules = {"backfill.kind": "conservative", "backfill.depth": 2}
    scene.ask(cmd.SetPolicy(actor=ADMIN, rules=rules))
    for name in ("old", "older"):
        scene.submit(name, hold=True)
    scene.submit("wide", cpus=2)
    array = scene.submit("both", array="0-1")
    for name in ("old", "older"):
        scene.release(name)
    scene.pass_time(1)

    scene.finish("wide")

    assert [scene.state(array + number) for number in (1, 2)] == ["running", "running"]


def test_a_job_that_was_held_meanwhile_may_be_delayed_from_what_it_is_told_then():
    stage = stage_with(Backfill.AGGRESSIVE, delay_max_s=HOUR_S)
    stage.submit(hours(2, cpus=4))
    wide = stage.submit(hours(8, cpus=4, tasks=2))
    stage.run()
    stage.tell(ev.JobHeld(job=wide))
    stage.play()
    stage.now_s = in_hours(stage, 10)
    stage.submit(hours(2, cpus=4))
    stage.run()

    stage.tell(ev.JobReleased(job=wide))
    stage.tell(ev.JobEligible(job=wide))
    within = stage.submit(hours(3, cpus=4))
    stage.run()

    assert stage.started_s[within] == in_hours(stage, 10)
    assert wide in stage.waiting


def test_what_one_gang_grows_by_is_known_to_be_free_again_when_the_next_one_grows():
    stage = Stage([node("a", cpus=4), node("b", cpus=1), node("c", cpus=1)], PRESETS["easy"])
    stage.submit(spec(cpus=2, time_limit_s=200))
    stage.submit(spec(cpus=2, time_limit_s=1000), runs_s=10)
    on_b, on_c = Placement(nodes=("a", "b")), Placement(nodes=("a", "c"))
    gang = {"tasks": 2, "at_least": 1, "cpus": 1}
    short = stage.submit(spec(**gang, time_limit_s=100, placement=on_b))
    long = stage.submit(spec(**gang, time_limit_s=1000, placement=on_c))
    wide = stage.submit(spec(cpus=3, time_limit_s=1000))
    stage.run()

    stage.step()

    # From 200 on the wide one has three CPUs of four: one is left, once the short gang has gone.
    assert (stage.nodes_of(short), stage.nodes_of(long)) == (["b", "a"], ["c", "a"])
    assert stage.scheduler.promise_of(wide).start_s == stage.begin_s + 200


@pytest.mark.parametrize(
    ("placement", "tasks"), [(Placement(topology="rack"), 2), (Placement(exclude=("a",)), 1)]
)
def test_a_promise_is_made_on_nodes_that_the_job_may_have(placement: Placement, tasks: int):
    nodes = [node("a", cpus=1, rack="r1"), node("b", cpus=2, rack="r2")]
    stage = Stage(nodes, PRESETS["easy"])
    stage.submit(spec(cpus=1, time_limit_s=50, placement=Placement(nodes=("a",))))
    stage.submit(spec(cpus=2, time_limit_s=100, placement=Placement(nodes=("b",))))
    job = stage.submit(spec(cpus=1, tasks=tasks, time_limit_s=10, placement=placement))

    plan = stage.run()

    (promise,) = plan.promises
    assert (promise.job, promise.start_s) == (job, stage.begin_s + 100)
    assert {held.node for held in promise.allocations} == {"b"}


def test_where_nothing_is_spare_only_jobs_that_are_gone_by_the_promise_pass():
    stage = stage_with(Backfill.EASY, nodes=1, spare=False)
    stage.submit(hours(2, cpus=2))
    big = stage.submit(hours(8, cpus=3))
    in_time = stage.submit(hours(2, cpus=1))
    longer = stage.submit(hours(3, cpus=1))

    stage.run()
    at_once = set(stage.started_s)
    stage.play()

    assert in_time in at_once
    assert longer not in at_once, "a CPU is free, and would stay free beside the promised job"
    assert stage.started_s[big] == in_hours(stage, 2)


@pytest.mark.parametrize(
    ("cpus", "estimate_h", "limit_h", "due_h"),
    [
        (2, 1, 4, 2),
        (2, 2, 4, 2),
        (2, 0, 1, None),
        (1, 3, 4, 10),
    ],
    ids=["may stay", "is taken to stay until then", "its limit ends it", "fits beside the first"],
)
def test_room_is_lent_until_a_promise_is_due_to_jobs_that_could_be_there_still(
    cpus, estimate_h, limit_h, due_h
):
    stage = stage_with(Backfill.CONSERVATIVE, nodes=1)
    stage.submit(hours(2, cpus=2))
    stage.submit(hours(8, cpus=3))
    stage.submit(hours(8, cpus=3))
    job = stage.submit(hours(limit_h, cpus=cpus, estimate_s=estimate_h * HOUR_S))

    plan = stage.run()

    (window_s,) = [start.window_s for start in plan.starts if start.job == job]
    assert window_s == (in_hours(stage, due_h) if due_h else 0)


def test_room_on_a_node_without_a_promise_is_not_lent():
    stage = stage_with(Backfill.EASY)
    stage.submit(hours(2, cpus=4))
    stage.submit(hours(9, cpus=3))
    stage.submit(hours(8, cpus=4))
    job = stage.submit(hours(4, cpus=1, estimate_s=HOUR_S))

    plan = stage.run()

    assert [start.window_s for start in plan.starts if start.job == job] == [0]


def test_a_pass_is_called_for_when_the_promise_is_due_and_for_nothing_before():
    stage = Stage([node("n0")])
    stage.submit(hours(2, cpus=2))
    stage.submit(hours(1, cpus=1))
    nobody_waits = stage.run().wake_s
    stage.submit(hours(8, cpus=3))

    plan = stage.run()

    assert nobody_waits == 0
    assert plan.wake_s == in_hours(stage, 2)
