"""Every named policy does what it says, through the real controller with pretended agents."""

from typing import Any

import pytest

from rota.controller.commands import commands as cmd
from rota.core.changes.compare import differences, fold
from rota.core.facts.tenant import Access, Actor, Limits, Queue, Quota, Reservation, User
from rota.core.words.presets import PRESETS
from rota.testing.scene import ALICE, BOB, OPERATOR, Scene

ADMIN = Actor("ada", Access.ADMIN)


def scene_with(preset: str, *, rules: dict[str, Any] | None = None, **site: Any) -> Scene:
    scene = Scene(**({"cpus": 4} | site))
    scene.ask(cmd.SetPolicy(actor=ADMIN, preset=preset, rules=rules or {}))
    return scene


def running(scene: Scene, *names: str) -> list[str]:
    return [name for name in names if scene.is_running(name)]


def start_order(scene: Scene, blocker: str, names: list[str]) -> list[str]:
    """Who starts after whom when there is room for one at a time."""
    order: list[str] = []
    scene.finish(blocker)
    while left := [name for name in names if name not in order]:
        (now,) = running(scene, *left)
        order.append(now)
        scene.finish(now)
    return order


def test_fcfs_lets_nobody_pass_the_first_that_does_not_fit():
    scene = scene_with("fcfs")
    scene.submit("runs", cpus=2)
    scene.submit("wide", cpus=4)
    scene.submit("small", cpus=1)

    assert running(scene, "runs", "wide", "small") == ["runs"]


def test_fcfs_goes_on_with_the_next_when_the_first_is_cancelled():
    scene = scene_with("fcfs")
    scene.submit("runs", cpus=2)
    scene.submit("wide", cpus=4)
    scene.submit("small", cpus=1)

    scene.cancel("wide")

    assert scene.is_running("small")


def test_fifo_skips_what_does_not_fit_and_keeps_its_place():
    scene = scene_with("fifo")
    scene.submit("runs", cpus=2)
    scene.submit("wide", cpus=4, priority=10)
    scene.submit("small", cpus=2, priority=75)
    scene.submit("later", cpus=4, priority=75)

    assert running(scene, "runs", "wide", "small") == ["runs", "small"]
    scene.finish("runs")
    scene.finish("small")
    assert running(scene, "wide", "later") == ["wide"]


def test_priority_starts_the_higher_one_first():
    scene = scene_with("priority")
    scene.submit("runs", cpus=4)
    for name, priority in (("low", 10), ("high", 75), ("normal", 50)):
        scene.submit(name, cpus=4, priority=priority)

    assert start_order(scene, "runs", ["low", "high", "normal"]) == ["high", "normal", "low"]


@pytest.mark.parametrize("preset", ["fairshare", "fairshare-easy"])
def test_fairshare_starts_whoever_used_less(preset):
    scene = scene_with(preset)
    scene.submit("runs", cpus=4, actor=ALICE)
    scene.submit("more of alice", cpus=4, actor=ALICE)
    scene.submit("first of bob", cpus=4, actor=BOB)
    scene.pass_time(600)

    assert start_order(scene, "runs", ["more of alice", "first of bob"])[0] == "first of bob"


HOUR_S, DAY_S = 3600, 24 * 3600


@pytest.mark.parametrize(("preset", "first"), [("horizon", "alice"), ("default", "bob")])
def test_under_horizon_use_counts_half_after_a_day(preset, first):
    scene = scene_with(preset)
    scene.submit("three hours", cpus=4, actor=ALICE)
    scene.pass_time(3 * HOUR_S)
    scene.finish("three hours")
    scene.pass_time(2 * DAY_S)
    scene.submit("one hour", cpus=4, actor=BOB)
    scene.pass_time(HOUR_S)
    scene.submit("bob", cpus=4, actor=BOB)
    scene.submit("alice", cpus=4, actor=ALICE)

    scene.finish("one hour")

    assert running(scene, "alice", "bob") == [first]


def test_horizon_sets_the_half_life_alone_and_it_stays_under_the_next_policy():
    scene = scene_with("easy", rules={"share.weight_cpu": 3})

    scene.set_policy("horizon")
    scene.set_policy("fifo")

    share = scene.cluster.policy.share
    assert (share.half_life_s, share.weight_cpu) == (DAY_S, 3)


def test_under_horizon_no_wait_brings_a_low_job_before_a_high_one():
    scene = scene_with("horizon")
    scene.submit("runs", cpus=4)
    scene.submit("low", cpus=4, priority=25)
    scene.pass_time(6 * DAY_S)
    scene.submit("high", cpus=4, priority=75)

    scene.finish("runs")

    assert running(scene, "low", "high") == ["high"]


def test_under_horizon_only_low_and_normal_jobs_pass_the_first():
    scene = scene_with("horizon")
    scene.submit("runs", cpus=2, time_limit_s=100)
    wide = scene.submit("wide", cpus=4, time_limit_s=100, priority=75)
    scene.submit("high", cpus=1, time_limit_s=50, priority=67)
    scene.submit("normal", cpus=1, time_limit_s=50, priority=66)
    scene.submit("low", cpus=1, time_limit_s=50, priority=25)

    assert running(scene, "runs", "high", "normal", "low") == ["runs", "normal", "low"]
    said = f"no job of the high band passes job {wide}, which waits first"
    assert scene.lines("high")[0] == said


def test_under_horizon_a_high_job_starts_once_no_other_waits_before_it():
    scene = scene_with("horizon")
    scene.submit("runs", cpus=2, time_limit_s=100)
    scene.submit("wide", cpus=4, time_limit_s=100, priority=75)
    scene.submit("high", cpus=1, time_limit_s=50, priority=70)

    scene.cancel("wide")

    assert running(scene, "runs", "high") == ["runs", "high"]


def test_under_horizon_high_jobs_start_beside_one_that_a_quota_keeps_back():
    scene = scene_with("horizon")
    alice = User("alice", quota=Quota(hard=Limits(cpu_milli=2000)))
    scene.ask(cmd.SetUser(actor=ADMIN, user=alice))
    scene.submit("own", cpus=1, priority=75, actor=ALICE)
    scene.submit("capped", cpus=2, priority=75, actor=ALICE)
    scene.submit("high", cpus=1, priority=70, actor=BOB)

    assert running(scene, "own", "capped", "high") == ["own", "high"]


def test_whether_high_jobs_backfill_is_a_rule_that_any_policy_may_set():
    scene = scene_with("easy", rules={"backfill.high": False})
    scene.submit("runs", cpus=3, time_limit_s=100)
    scene.submit("wide", cpus=4, time_limit_s=100, priority=25)
    scene.submit("high", cpus=1, time_limit_s=50, priority=75)
    before = running(scene, "high")

    scene.ask(cmd.SetPolicy(actor=ADMIN, preset="easy", rules={"backfill.high": True}))

    assert (before, running(scene, "high")) == ([], ["high"])


@pytest.mark.parametrize("preset", ["easy", "aggressive", "conservative"])
def test_backfill_lets_a_short_job_pass_and_not_one_that_would_delay_the_head(preset):
    scene = scene_with(preset, rules={"backfill.delay_max_s": 0})
    scene.submit("runs", cpus=3, time_limit_s=100)
    scene.submit("wide", cpus=4, time_limit_s=100)
    scene.submit("long", cpus=1, time_limit_s=500)
    scene.submit("short", cpus=1, time_limit_s=50)

    assert running(scene, "runs", "wide", "long", "short") == ["runs", "short"]
    scene.finish("runs")
    scene.finish("short")
    assert running(scene, "wide", "long") == ["wide"]


def test_conservative_keeps_the_promise_of_the_second_too():
    scene = scene_with("conservative")
    scene.submit("runs", cpus=3, time_limit_s=100)
    scene.submit("wide", cpus=4, time_limit_s=100)
    scene.submit("second", cpus=3, time_limit_s=100)
    scene.submit("too long", cpus=1, time_limit_s=400)
    scene.submit("short", cpus=1, time_limit_s=90)

    assert running(scene, "wide", "second", "too long", "short") == ["short"]


def test_conservative_keeps_a_chain_of_promises_though_passes_come_late():
    scene = scene_with("conservative")
    scene.submit("runs", cpus=4, time_limit_s=10)
    names = [f"next {number}" for number in range(5)]
    for name in names:
        scene.submit(name, cpus=4, time_limit_s=10)
    scene.finish("runs")

    for name in names:
        assert scene.is_running(name)
        scene.pass_time(10.001)
        scene.finish(name)


def test_deadline_starts_the_most_urgent_first():
    scene = scene_with("deadline")
    scene.submit("runs", cpus=4, time_limit_s=10)
    for name, due_s in (("relaxed", 9000), ("urgent", 3000), ("none", 0)):
        deadline_s = scene.now_s + due_s if due_s else 0.0
        scene.submit(name, cpus=4, time_limit_s=10, deadline_s=deadline_s)

    order = start_order(scene, "runs", ["relaxed", "urgent", "none"])

    assert order == ["urgent", "relaxed", "none"]


@pytest.mark.parametrize("preset", ["sjf", "sjf-easy", "saf", "f1", "wfp3", "unicef"])
def test_rules_by_length_prefer_a_short_job_among_equals(preset):
    scene = scene_with(preset)
    scene.submit("runs", cpus=4, time_limit_s=100)
    scene.submit("long", cpus=4, time_limit_s=9000)
    scene.submit("short", cpus=4, time_limit_s=60)
    scene.pass_time(30)

    assert start_order(scene, "runs", ["long", "short"]) == ["short", "long"]


def test_multifactor_adds_priority_and_share():
    scene = scene_with("multifactor")
    scene.submit("runs", cpus=4)
    scene.submit("low", cpus=4, priority=10, actor=BOB)
    scene.submit("high", cpus=4, priority=75, actor=BOB)

    assert start_order(scene, "runs", ["low", "high"]) == ["high", "low"]


def test_gang_starts_with_most_of_its_tasks():
    scene = scene_with("gang", cpus=5)
    scene.submit("runs", cpus=1)

    scene.submit("wide", tasks=5, cpus=1)

    assert scene.is_running("wide")
    assert len(scene.job("wide").live_attempts) == 4


def test_preemptive_takes_the_room_of_a_willing_job_and_gives_it_back():
    rules = {"preempt.min_runtime_s": 0}
    scene = scene_with("preemptive", rules=rules)
    scene.submit("victim", cpus=4, priority=10, preemptible=True)
    scene.submit("other", cpus=4, priority=75)

    assert scene.state("other") == "scheduled"
    victim = scene.job("victim").live_attempts[0].uid
    assert scene.job("other").live_attempts[0].uid not in scene.launches
    scene.end(victim, None, 15)
    assert scene.states("victim", "other") == ["preempted", "running"]
    scene.finish("other")
    assert scene.is_running("victim")


def test_a_takeover_starts_once_though_the_controller_died_in_between():
    scene = scene_with("preemptive", rules={"preempt.min_runtime_s": 0})
    scene.submit("victim", cpus=4, priority=10, preemptible=True)
    scene.submit("other", cpus=4, priority=75)
    victim = scene.job("victim").live_attempts[0].uid
    other = scene.job("other").live_attempts[0].uid

    scene.restart()
    assert other not in scene.launches
    scene.end(victim, None, 15)
    scene.restart()

    assert scene.states("victim", "other") == ["preempted", "running"]
    assert list(scene.launches).count(other) == 1


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_runs_a_mixed_queue_to_its_end(preset):
    scene = scene_with(preset, nodes=2, gpus=2)
    names = []
    for number in range(12):
        name = f"job {number}"
        names.append(name)
        scene.submit(
            name, cpus=1 + number % 3, tasks=1 + number % 2, gpus=number % 2,
            time_limit_s=60 * (1 + number % 4), priority=25 * (number % 4),
            actor=(ALICE, BOB)[number % 2],
        )  # fmt: skip

    for _ in range(40):
        scene.pass_time(20)
        for name in running(scene, *names):
            scene.finish(name)

    assert set(scene.states(*names)) == {"completed"}


def test_rules_that_change_in_the_middle_hold_from_then_on_and_survive_a_restart():
    scene = scene_with("fcfs")
    scene.submit("runs", cpus=2)
    scene.submit("wide", cpus=4)
    scene.submit("small", cpus=1)
    assert not scene.is_running("small")

    scene.ask(cmd.SetPolicy(actor=ADMIN, preset="fifo"))
    assert scene.is_running("small")
    scene.restart()

    assert scene.cluster.policy.order.primary == "fifo"
    folded = fold(scene.store.all_events(), scene.cluster.ids.cluster_id)
    folded.ids.cluster_id = scene.cluster.ids.cluster_id
    assert differences(scene.cluster, folded) == []


def test_an_elastic_gang_starts_no_larger_than_its_quota():
    scene = Scene(cpus=8)
    quota = Quota(hard=Limits(cpu_milli=3000))
    scene.ask(cmd.SetUser(actor=OPERATOR, user=User("alice", quota=quota)))
    submission = scene.submission("gang", tasks=6)
    role = submission.spec.roles[0]
    scene.submit("gang", roles=(type(role)(count=6, min_count=2, request=role.request),))

    assert len(scene.job("gang").live_attempts) == 3


def test_what_a_victim_holds_is_not_given_to_others_under_the_same_cap():
    scene = scene_with("preemptive", cpus=8, rules={"preempt.min_runtime_s": 0})
    scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="side", max_running=1)))
    scene.submit("victim", cpus=6, priority=10, preemptible=True, queue="side")

    both = (
        scene.submission("other", cpus=6, priority=75),
        scene.submission("next", cpus=2, priority=5, queue="side"),
    )
    other, following = scene.ask(cmd.Submit(actor=ALICE, submissions=both)).ids

    assert scene.states(other, following) == ["scheduled", "queued"]


def test_before_a_reservation_a_limit_counts_and_not_an_estimate():
    scene = Scene(cpus=4)
    made = Reservation(0, "bob", scene.now_s + 100, scene.now_s + 200, nodes=("box",))
    scene.ask(cmd.AddReservation(actor=OPERATOR, reservation=made))

    scene.submit("hopes", time_limit_s=500, estimate_s=10)
    scene.submit("keeps", time_limit_s=50)

    assert running(scene, "hopes", "keeps") == ["keeps"]


def test_the_id_of_a_removed_reservation_is_never_given_out_again():
    scene = Scene(cpus=4)
    made = Reservation(0, "bob", scene.now_s + 100, scene.now_s + 200, nodes=("box",))
    known = scene.ask(cmd.AddReservation(actor=OPERATOR, reservation=made))
    scene.ask(cmd.RemoveReservation(actor=OPERATOR, reservation=known.id))

    scene.restart()

    assert scene.submit("job") == known.id + 1


def test_a_job_that_gave_way_and_was_held_can_be_released():
    scene = scene_with("preemptive", rules={"preempt.min_runtime_s": 0})
    scene.submit("victim", cpus=4, priority=10, preemptible=True)
    scene.submit("other", cpus=4, priority=75)
    scene.end(scene.job("victim").live_attempts[0].uid, None, 15)
    scene.hold("victim")

    scene.release("victim")

    assert scene.state("victim") == "preempted"
