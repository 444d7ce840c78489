"""Time limits from the real start, retries with backoff, restart policies."""

import pytest

from rota.core.facts.job import RestartPolicy
from rota.core.facts.states import Cause
from rota.rpc.messages import Seen, Sighting
from rota.testing.scene import Scene


def test_a_job_that_runs_too_long_is_stopped_and_ends_as_timeout():
    scene = Scene()
    scene.submit("job", time_limit_s=60)

    scene.pass_time(59)
    before = set(scene.stopping)
    scene.pass_time(1)
    asked = set(scene.stopping)
    scene.finish("job", signal=15)

    assert before == set()
    assert asked == {"u2.0.1"}
    assert scene.state("job") == "timeout"
    assert scene.cause("job") == "time_limit: ran longer than its limit of 1m"


def test_the_limit_counts_from_the_real_start_not_from_the_placement():
    scene = Scene(starts=False)
    scene.submit("job", time_limit_s=60)
    scene.pass_time(50)
    scene.start("job")

    scene.pass_time(59)
    before = set(scene.stopping)
    scene.pass_time(1)

    assert before == set()
    assert scene.stopping


def test_a_start_reported_late_counts_from_when_it_happened():
    scene = Scene(starts=False)
    scene.submit("job", time_limit_s=60)
    uid = scene.job("job").live_attempts[0].uid
    scene.pass_time(30)
    scene.alive[uid] = "box"
    scene.report(Seen(uid, Sighting.RUNNING, pid=1, started_s=1010.0), node="box")

    scene.pass_time(40)

    assert scene.job("job").started_s == 1010.0
    assert uid in scene.stopping


@pytest.mark.parametrize(("reported_s", "kept_s"), [(1.0, 1000.0), (9e9, 1005.0)])
def test_a_node_with_a_wrong_clock_cannot_move_a_start_out_of_its_bounds(reported_s, kept_s):
    scene = Scene(starts=False)
    scene.submit("job")
    uid = scene.job("job").live_attempts[0].uid
    scene.pass_time(5)

    scene.report(Seen(uid, Sighting.RUNNING, pid=1, started_s=reported_s), node="box")

    assert scene.job("job").started_s == kept_s


def test_a_limit_holds_over_a_restart_of_the_controller():
    scene = Scene()
    scene.submit("job", time_limit_s=60)
    scene.pass_time(30)
    scene.restart()

    scene.pass_time(30)

    assert scene.stopping


def test_a_limit_can_be_extended_and_shortened_while_the_job_runs():
    scene = Scene()
    scene.submit("job", time_limit_s=60)
    scene.update("job", time_limit_s=100)
    scene.pass_time(60)
    extended = set(scene.stopping)

    scene.update("job", time_limit_s=70)
    scene.pass_time(10)

    assert extended == set()
    assert scene.stopping


def test_a_job_that_exits_well_although_it_was_told_to_stop_still_timed_out():
    scene = Scene()
    scene.submit("job", time_limit_s=60)
    scene.pass_time(60)

    scene.finish("job", code=0)

    assert scene.state("job") == "timeout"


def test_a_failed_job_is_tried_again_under_its_own_id_until_its_retries_are_used_up():
    scene = Scene()
    scene.submit("job", retries=2, backoff_s=0)

    for _ in range(3):
        scene.finish("job", code=7)

    assert scene.state("job") == "failed"
    attempts = scene.job("job").tasks[0].attempts
    assert [(a.number, a.exit_code) for a in attempts] == [(1, 7), (2, 7), (3, 7)]
    assert len({a.uid for a in attempts}) == 3


def test_a_retry_that_succeeds_completes_the_job():
    scene = Scene()
    scene.submit("job", retries=1, backoff_s=0)

    scene.finish("job", code=1)
    scene.finish("job", code=0)

    assert scene.state("job") == "completed"


def test_the_wait_before_a_retry_doubles():
    scene = Scene()
    scene.submit("job", retries=3, backoff_s=10)
    waits = []

    for _ in range(3):
        scene.finish("job", code=1)
        before_s = scene.now_s
        while not scene.is_running("job"):
            scene.pass_time(1)
        waits.append(scene.now_s - before_s)

    assert waits == [10, 20, 40]


def test_the_wait_before_a_retry_is_bounded_however_often_it_failed():
    scene = Scene()
    scene.submit("job", retries=5000, backoff_s=10)
    scene.job("job").retries_used = 4000

    scene.finish("job", code=1)

    assert scene.job("job").not_before_s == scene.now_s + 3600


def test_the_backoff_is_kept_over_a_restart():
    scene = Scene()
    scene.submit("job", retries=1, backoff_s=30)
    scene.finish("job", code=1)

    scene.restart()
    scene.pass_time(29)
    before = scene.state("job")
    scene.pass_time(1)

    assert before == "queued"
    assert scene.is_running("job")


@pytest.mark.parametrize(("code", "state"), [(3, "running"), (4, "failed")])
def test_only_the_exit_codes_asked_for_are_tried_again(code, state):
    scene = Scene()
    scene.submit("job", retries=1, backoff_s=0, retry_on=("3", "out_of_memory"))

    scene.finish("job", code=code)

    assert scene.state("job") == state


@pytest.mark.parametrize(
    ("cause", "state"), [(Cause.OUT_OF_MEMORY, "running"), (Cause.START_FAILED, "failed")]
)
def test_only_the_causes_asked_for_are_tried_again(cause, state):
    scene = Scene()
    scene.submit("job", retries=1, backoff_s=0, retry_on=("3", "out_of_memory"))

    scene.finish("job", signal=9, cause=cause, detail="user x: as the agent knows")

    assert scene.state("job") == state


def test_one_that_its_engine_preempts_comes_back_and_uses_up_no_retries():
    scene = Scene()
    scene.submit("job")

    scene.finish("job", signal=15, cause=Cause.PREEMPTED, detail="preempted by Slurm")

    assert scene.is_running("job")


def test_one_that_its_engine_preempts_as_it_is_cancelled_is_cancelled():
    scene = Scene()
    scene.submit("job")
    scene.cancel("job")

    scene.finish("job", signal=15, cause=Cause.PREEMPTED, detail="preempted by Slurm")

    assert scene.state("job") == "cancelled"


def test_a_timeout_can_be_a_cause_to_try_again():
    scene = Scene()
    scene.submit("job", retries=1, backoff_s=0, retry_on=("time_limit",), time_limit_s=5)
    scene.pass_time(5)

    scene.finish("job", signal=15)
    scene.pass_time(4)
    second_run = set(scene.stopping)
    scene.pass_time(1)

    assert scene.is_running("job")
    assert second_run == set()
    assert scene.stopping


@pytest.mark.parametrize(
    ("policy", "code", "state"),
    [
        (RestartPolicy.NEVER, 1, "failed"),
        (RestartPolicy.ON_FAILURE, 1, "running"),
        (RestartPolicy.ON_FAILURE, 0, "completed"),
        (RestartPolicy.ALWAYS, 0, "running"),
        (RestartPolicy.ALWAYS, 1, "running"),
    ],
)
def test_the_restart_policy_decides_which_ends_are_tried_again(policy, code, state):
    scene = Scene()
    scene.submit("job", retries=1, backoff_s=0, restart=policy)

    scene.finish("job", code=code)

    assert scene.state("job") == state


def test_a_job_waiting_for_its_next_try_holds_no_room():
    scene = Scene(cpus=1)
    scene.submit("job", retries=1, backoff_s=60)
    scene.finish("job", code=1)

    scene.submit("other")

    assert scene.is_running("other")


def test_a_cancelled_job_is_not_tried_again():
    scene = Scene()
    scene.submit("job", retries=3, backoff_s=0)

    scene.cancel("job")
    scene.finish("job", signal=15)

    assert scene.state("job") == "cancelled"


def test_every_attempt_keeps_its_times_its_exit_and_what_it_used():
    scene = Scene()
    scene.submit("job", retries=1, backoff_s=0)
    scene.pass_time(5)

    scene.finish("job", signal=9, peak_memory_mib=300, cpu_s=4.5)
    scene.pass_time(7)
    scene.finish("job", code=0, peak_memory_mib=200, cpu_s=6.5)

    first, second = scene.job("job").tasks[0].attempts
    assert (first.started_s, first.ended_s, first.signal, first.exit_code) == (1000, 1005, 9, None)
    assert (first.cause, first.peak_memory_mib, first.cpu_s) == (Cause.SIGNAL, 300, 4.5)
    assert (second.started_s, second.ended_s, second.exit_code) == (1005, 1012, 0)


@pytest.mark.parametrize(
    ("end", "state", "cause"),
    [
        ({"code": 0}, "completed", "exit: "),
        ({"code": 3}, "failed", "exit: exit code 3"),
        ({"signal": 11}, "failed", "signal: killed by signal 11"),
        (
            {"signal": 9, "cause": Cause.OUT_OF_MEMORY, "detail": "used 9G of 8G"},
            "failed",
            "out_of_memory: used 9G of 8G",
        ),
        (
            {
                "code": None,
                "cause": Cause.START_FAILED,
                "detail": "user x: no such user",
            },
            "failed",
            "start_failed: user x: no such user",
        ),
    ],
)
def test_every_end_names_its_first_cause(end, state, cause):
    scene = Scene()
    scene.submit("job")

    scene.finish("job", **end)

    assert scene.state("job") == state
    assert scene.cause("job") == cause
