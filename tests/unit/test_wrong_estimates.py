"""An estimate that was wrong loses its weight: it starves nobody, and a restart forgets nothing."""

import pytest

from rota.core.changes import events as ev
from rota.core.facts.policy import Backfill, BackfillRules, OrderRules, Policy
from rota.core.words.presets import PRESETS
from rota.scheduling.order.lengths import stay_s_of
from rota.testing.scene import BOB, Scene
from rota.testing.stage import Stage, node, spec

HOUR_S, DAY_S = 3600, 86400
FIFO = OrderRules(primary="fifo", secondary="fifo")
EASY = Policy(order=FIFO, backfill=BackfillRules(kind=Backfill.EASY))


def hopeful(**wishes):
    """A job of one CPU that says ten seconds and may run for a day."""
    known = {"cpus": 1, "user": "bob", "estimate_s": 10, "time_limit_s": DAY_S}
    return spec(**(known | wishes))


def wait_beside_a_stream(policy: Policy, narrow, runs_s: float, *, hours: int = 9) -> float:
    """How long a job waits that needs all eight CPUs, while narrow ones keep coming.

    They come twice as fast as they end, from half an hour before it on.
    """
    stage = Stage([node("n0", cpus=8)], policy, checked=False)
    each_s = runs_s / 16
    before = int(HOUR_S / 2 / each_s) + 1
    for number in range(int(hours * HOUR_S / each_s)):
        stage.submit_later(number * each_s, narrow, runs_s=runs_s)
    came_s = HOUR_S / 2 + 1
    stage.submit_later(came_s, spec(cpus=8, time_limit_s=600, user="alice"))

    while before + 1 not in stage.started_s and stage.step():
        pass

    return stage.started_s.get(before + 1, stage.now_s) - stage.begin_s - came_s


@pytest.mark.parametrize("name", ["default", "easy", "conservative", "gang", "preemptive"])
def test_jobs_that_say_ten_seconds_and_run_for_an_hour_keep_a_wide_job_for_two_runs(name):
    waited_s = wait_beside_a_stream(PRESETS[name], hopeful(), HOUR_S)

    assert waited_s <= 2 * HOUR_S


@pytest.mark.parametrize("name", ["default", "easy", "conservative"])
def test_jobs_that_say_nothing_and_run_longer_than_assumed_keep_a_wide_job_for_two_runs(name):
    narrow = hopeful(estimate_s=0, time_limit_s=0)

    waited_s = wait_beside_a_stream(PRESETS[name], narrow, 3 * HOUR_S, hours=20)

    assert waited_s <= 2 * 3 * HOUR_S


def promises_to(stage: Stage, job: int) -> list[float]:
    """The starts that the job was told, each one once, in seconds from the beginning."""
    told = [p.start_s for _, plan in stage.plans for p in plan.promises if p.job == job]
    return [start_s - stage.begin_s for start_s in dict.fromkeys(told)]


def test_a_run_that_outlives_its_estimate_is_taken_to_last_twice_as_long_up_to_its_limit():
    stage = Stage([node("n0")], EASY)
    stage.submit(spec(cpus=4, estimate_s=10, time_limit_s=100))
    wide = stage.submit(spec(cpus=4, time_limit_s=60))

    stage.play()

    assert promises_to(stage, wide) == [10, 20, 40, 80, 100]
    assert stage.started_s[wide] == stage.begin_s + 100


def test_a_run_without_a_limit_that_outlives_its_estimate_is_taken_to_last_twice_as_long():
    stage = Stage([node("n0")], EASY)
    stage.submit(spec(cpus=4, estimate_s=100), runs_s=350)
    wide = stage.submit(spec(cpus=4, time_limit_s=60))

    stage.play()

    assert promises_to(stage, wide) == [100, 200, 400]
    assert stage.started_s[wide] == stage.begin_s + 350


def a_record(said_s: int, ran_s: float, runs: int = 1) -> Stage:
    """Four CPUs, and bob has run some jobs."""
    stage = Stage([node("n0")], EASY)
    for _ in range(runs):
        stage.submit(hopeful(estimate_s=said_s), runs_s=ran_s)
        stage.run()
        stage.step()
    return stage


def may_pass(stage: Stage, gap_s: int, **wishes) -> bool:
    """Whether a job of bob is let past one that is promised to start that much later."""
    stage.submit(spec(cpus=3, time_limit_s=gap_s))
    stage.submit(spec(cpus=4, time_limit_s=60))
    job = stage.submit(hopeful(**wishes))
    stage.run()
    return job in stage.started_s


def test_a_job_passes_by_its_estimate_while_the_estimates_of_its_user_hold():
    assert may_pass(a_record(10, 9), 60)


def test_after_a_run_that_outlived_its_estimate_the_next_one_is_taken_to_run_as_long():
    assert not may_pass(a_record(10, HOUR_S), 1800)
    assert may_pass(a_record(10, HOUR_S), 2 * HOUR_S)


def test_no_job_is_taken_to_run_longer_than_its_limit_whatever_its_user_said_before():
    assert may_pass(a_record(10, HOUR_S), 1800, time_limit_s=1800)


def test_a_longer_estimate_is_stretched_to_the_longest_run_that_was_late_and_no_further():
    assert may_pass(a_record(10, HOUR_S), 2 * HOUR_S, estimate_s=1800)


def test_a_shorter_estimate_is_stretched_by_the_worst_factor_and_no_further():
    assert may_pass(a_record(HOUR_S, 2 * HOUR_S), 60, estimate_s=20)


def test_runs_that_keep_to_their_estimates_give_them_their_weight_back():
    stage = a_record(100, 190)
    for _ in range(8):
        stage.submit(hopeful(), runs_s=9)
        stage.run()
        stage.step()

    assert may_pass(stage, 15)


def test_the_estimates_of_others_keep_their_weight():
    stage = a_record(10, HOUR_S)

    assert may_pass(stage, 60, user="carol")


def test_a_job_of_a_shorter_kind_comes_first_by_what_is_known_of_its_user():
    stage = a_record(10, HOUR_S)
    stage.tell(ev.PolicySet(policy=PRESETS["sjf"]))
    stage.submit(spec(cpus=4, time_limit_s=60))
    stage.run()
    hopes = stage.submit(hopeful(cpus=4))
    honest = stage.submit(spec(cpus=4, time_limit_s=600, user="carol"))

    stage.play()

    assert stage.started_s[honest] < stage.started_s[hopes]


def test_what_was_learned_of_a_users_estimates_survives_a_restart():
    scene = Scene(cpus=4)
    scene.set_policy("easy")
    late = scene.submit("late", actor=BOB, estimate_s=10, time_limit_s=DAY_S)
    scene.pass_time(HOUR_S)
    scene.finish(late)

    scene.restart()
    scene.submit("runs", cpus=3, time_limit_s=600)
    scene.submit("waits", cpus=4, time_limit_s=600)
    scene.submit("again", actor=BOB, estimate_s=10, time_limit_s=DAY_S)

    assert scene.states("runs", "waits", "again") == ["running", "queued", "queued"]


def test_a_run_that_is_late_when_the_controller_restarts_is_taken_to_last_as_long_as_before():
    scene = Scene(cpus=4)
    scene.set_policy("easy")
    scene.submit("late", cpus=3, actor=BOB, estimate_s=100, time_limit_s=DAY_S)
    scene.submit("waits", cpus=4, time_limit_s=600)
    scene.pass_time(350)
    before = scene.controller.scheduler.promise_of(2)

    scene.restart()

    after = scene.controller.scheduler.promise_of(2)
    assert before is not None
    assert after == before


@pytest.mark.parametrize(
    ("wishes", "ran_s", "stay_s"),
    [
        ({"estimate_s": 1}, 0, 1),
        ({"estimate_s": 1}, 1, 2),
        ({"estimate_s": 10}, 9, 10),
        ({"estimate_s": 10}, 10, 20),
        ({"estimate_s": 10}, 45, 80),
        ({"estimate_s": 10, "time_limit_s": 30}, 25, 30),
        ({"estimate_s": 10, "time_limit_s": 30}, 99, 30),
        ({"time_limit_s": 30}, 0, 30),
    ],
)
def test_a_run_that_outlives_its_estimate_is_taken_to_last_twice_as_long(wishes, ran_s, stay_s):
    stage = Stage([node("a")])

    assert stay_s_of(stage.cluster, spec(**wishes), ran_s) == stay_s
