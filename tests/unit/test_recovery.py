"""The log, the rows and the live state are one: at every point, in every run, on any machine."""

import os
import subprocess
import sys

import pytest

from rota.controller.recover import recover
from rota.core.changes.compare import differences, fold
from rota.core.facts.states import FINAL
from rota.store.api import JobFilter
from rota.testing.scene import Scene
from tests.support.machine import REPOSITORY
from tests.support.timers import missing_timers
from tests.unit.story import digest_of_story, stage, steps

ALL = JobFilter()


def test_rows_and_log_give_the_live_state_after_every_step_of_a_long_story():
    scene = stage()
    count = 0

    for step in steps(scene):
        step()
        count += 1

        log = fold(scene.store.all_events(), scene.cluster.ids.cluster_id)
        loaded = recover(scene.store.load())
        assert differences(log, scene.cluster) == []
        assert differences(loaded, scene.cluster) == []
        assert missing_timers(loaded, scene.now_s) == []
    assert count > 50


def test_the_story_has_a_bit_of_everything():
    scene = stage()

    for step in steps(scene):
        step()

    kinds = {type(event).__name__ for event in scene.log}
    ends = {state for state in FINAL if scene.cluster.ids.ended.counts[state]}
    assert len(kinds) >= 25
    assert ends == FINAL


def test_a_restart_after_every_step_changes_no_outcome():
    calm, restless = stage(), stage()

    for one, other in zip(steps(calm), steps(restless), strict=True):
        one()
        other()
        restless.restart()

        ids = range(1, calm.cluster.ids.next)
        assert calm.states(*ids) == restless.states(*ids)
    ends = [[job.outcome for job in scene.store.list_jobs(ALL)] for scene in (calm, restless)]
    assert ends[0] == ends[1]
    assert len(ends[0]) > 20


def test_two_runs_of_a_story_leave_the_same_log():
    assert digest_of_story() == digest_of_story()


@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_log_does_not_depend_on_the_order_of_sets(seed):
    environment = os.environ | {"PYTHONHASHSEED": seed}
    program = "from tests.unit.story import digest_of_story; print(digest_of_story())"

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env=environment | {"PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == digest_of_story()


def test_a_difference_of_one_event_is_seen():
    scene = Scene()
    scene.submit("job")
    log = list(scene.store.all_events())

    assert differences(fold(log), fold(log[:-1])) != []


def test_jobs_that_end_while_the_controller_is_down_are_settled_right():
    scene = Scene()
    scene.submit("good")
    scene.submit("bad", retries=1, backoff_s=0)
    scene.submit("child", after={"good": "after-ok"})

    scene.crash()
    scene.finish("good")
    scene.finish("bad", code=4)
    scene.restart()

    assert scene.states("good", "bad", "child") == ["completed", "running", "running"]
    assert [a.exit_code for a in scene.job("bad").tasks[0].attempts] == [4, None]


def test_a_restart_starts_nothing_twice():
    scene = Scene(cpus=4)
    scene.submit("job")
    scene.submit("array", array="0-9")
    alive = dict(scene.alive)

    scene.restart()
    scene.restart()

    assert scene.alive == alive
    assert len(scene.cluster.live.where) == 4


def test_what_was_placed_and_not_heard_of_is_started_after_the_restart():
    scene = Scene(starts=False)
    scene.submit("job")
    scene.crash()
    scene.starts = True

    scene.restart()

    assert scene.is_running("job")
    assert len(scene.job("job").tasks[0].attempts) == 1


def test_what_came_due_while_the_controller_was_down_is_done_at_its_return():
    scene = Scene(cpus=2)
    scene.submit("limited", time_limit_s=10)
    scene.submit("hog")
    scene.submit("impatient", scheduling_timeout_s=10)
    scene.submit("later", begin_s=scene.now_s + 10)
    scene.crash()
    scene.now_s += 3600

    scene.restart()
    stopping = len(scene.stopping)
    scene.finish("limited", signal=15)

    assert stopping == 1
    assert scene.states("impatient", "limited") == ["unschedulable", "timeout"]
    assert scene.is_running("later")


def test_waiting_jobs_keep_their_order_over_a_restart():
    scene = Scene(cpus=1)
    scene.submit("runs")
    jobs = [scene.submit(priority=p) for p in (10, 30, 20, 30)]

    scene.restart()
    order = []
    scene.finish("runs")
    for _ in jobs:
        order.append(next(job for job in jobs if scene.is_running(job)))
        scene.finish(order[-1])

    assert order == [jobs[1], jobs[3], jobs[2], jobs[0]]


def test_counts_by_state_include_every_job_ever_submitted_after_a_restart():
    scene = Scene(cpus=2)
    array = scene.submit("array", array="0-9")
    scene.finish(array + 1)
    scene.cancel("array")
    scene.submit("held", hold=True)

    scene.restart()

    counts = {state: n for state, n in scene.cluster.count_states().items() if n}
    assert counts == {"completed": 1, "cancelled": 7, "running": 2, "held": 1}
