"""How a job is stopped: at every moment of its life, by its user and by its limit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.engines.conformance.bench import MARK, processes
from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.engines.conformance.bench import Bench

#: Says when it is asked to end, and ends with its own code. Not in the same moment: some engines
#: look for what a job prints every so often, and drop it with its last process.
OBEYS = "trap 'echo asked; sleep 0.5; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
DEAF = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
GRACE_S = 2


def until_ready(bench: Bench, job: int) -> str:
    """Its key, once it has set its traps."""
    bench.until(job, "running")
    until(lambda: "ready" in bench.box.output(job), "the job to be ready")
    return bench.uid(job)


def until_gone(bench: Bench, uid: str) -> None:
    """Nothing of it lives, in the engine or on the machine."""

    def gone() -> bool:
        return not processes(uid) and all(j.phase == "ended" for j in bench.look_inside(uid))

    until(gone, f"the end of {uid} inside")


@pytest.mark.scenario(14)
def test_one_that_is_cancelled_before_the_engine_knows_it_does_no_work(bench: Bench):
    with bench.fault("away"):
        job = bench.submit(f"sleep 2; {MARK}")
        uid = bench.uid(job)
        bench.cancel(job)

    assert bench.until(job)["state"] == "cancelled"
    assert bench.until(bench.submit(["true"]))["state"] == "completed"
    until_gone(bench, uid)
    assert bench.marks() == []


@pytest.mark.scenario(15)
def test_one_that_waits_in_the_engine_is_taken_out_of_it(bench: Bench):
    with bench.fault("closed"):
        job = bench.submit(MARK)
        uid = bench.uid(job)
        until(lambda: [j.phase for j in bench.look_inside(uid)] == ["waiting"], "it to wait there")
        until(lambda: "waiting inside" in bench.box.why(job), "Rota to say so")
        bench.cancel(job)
        shown = bench.until(job)

    assert shown["state"] == "cancelled"
    until_gone(bench, uid)
    assert bench.marks() == []


@pytest.mark.scenario(16)
def test_those_that_are_cancelled_at_any_moment_of_their_start_all_end(bench: Bench):
    jobs = []
    for step in range(10):
        jobs.append(bench.submit(["sleep", "60"]))
        time.sleep(0.05 * step)  # Another moment for each: that is the scenario.
        bench.cancel(jobs[-1])

    ends = [bench.until(job) for job in jobs]

    assert {end["state"] for end in ends} == {"cancelled"}
    for end in ends:
        for attempt in end["attempts"]:
            until_gone(bench, attempt["uid"])


@pytest.mark.scenario(17)
def test_one_that_runs_hears_term_and_ends_by_itself(bench: Bench):
    job = bench.submit(OBEYS, grace_s=30)
    uid = until_ready(bench, job)

    bench.cancel(job)
    shown = bench.until(job)

    assert (shown["state"], shown["cause_code"]) == ("cancelled", "cancelled")
    # Dropped, it is not known; nothing else is made up for it.
    assert shown["exit_code"] == 7 or (bench.drops_codes and shown["exit_code"] is None)
    assert not shown["signal"]
    until_gone(bench, uid)
    until(lambda: "asked" in bench.box.output(job), "its last words")


@pytest.mark.scenario(18)
def test_one_that_ignores_term_is_killed_after_its_grace_and_not_before(bench: Bench):
    job = bench.submit(DEAF, grace_s=GRACE_S)
    uid = until_ready(bench, job)

    asked_s = time.monotonic()
    bench.cancel(job)
    until(lambda: not processes(uid), "its end")
    took_s = time.monotonic() - asked_s
    shown = bench.until(job)

    assert shown["state"] == "cancelled"
    assert took_s > GRACE_S - 0.5
    until_gone(bench, uid)


@pytest.mark.scenario(19)
def test_those_that_are_cancelled_as_they_end_have_one_end(bench: Bench):
    waits = f"{MARK}; while [ ! -e go ]; do sleep 0.02; done"
    jobs = bench.submit_many([waits] * 6)
    uids = [bench.began(job) for job in jobs]

    (bench.box.work / "go").touch()
    bench.cancel(*jobs)
    ends = [bench.until(job) for job in jobs]

    assert {end["state"] for end in ends} <= {"completed", "cancelled"}
    assert {len(end["attempts"]) for end in ends} == {1}
    assert sorted(bench.marks()) == sorted(uids)
    for uid in uids:
        until_gone(bench, uid)


@pytest.mark.scenario(20)
def test_one_that_must_give_way_hears_its_checkpoint_signal_and_then_term(bench: Bench):
    saves = (
        "trap 'echo saved' USR1; trap 'echo ended; exit 3' TERM; echo ready; "
        'if [ "$ROTA_ATTEMPT" -gt 1 ]; then exit 0; fi; while :; do sleep 0.05; done'
    )
    here = {"node_list": [bench.ours(bench.machines[0])], "resources": {"cpus": bench.cpus}}
    low = bench.submit(saves, checkpoint_signal="USR1", preemptible=True, priority=10, **here)
    until_ready(bench, low)

    high = bench.submit(["true"], priority=60, **here)
    ends = [bench.until(job) for job in (high, low)]

    assert [end["state"] for end in ends] == ["completed", "completed"]
    first, second = ends[1]["attempts"]
    assert (first["cause_code"], second["cause_code"]) == ("preempted", "exit")
    assert bench.box.api("GET", f"/jobs/{low}/logs?attempt=1")[1] == "ready\nsaved\nended\n"


@pytest.mark.scenario(21)
def test_a_time_limit_ends_a_job_and_says_so(bench: Bench):
    job = bench.submit(OBEYS, time_limit_s=2)
    uid = until_ready(bench, job)

    shown = bench.until(job)

    assert (shown["state"], shown["cause_code"]) == ("timeout", "time_limit")
    assert "asked" in bench.box.output(job)
    until_gone(bench, uid)


@pytest.mark.scenario(22)
def test_a_limit_that_is_raised_in_time_does_not_ring(bench: Bench):
    job = bench.submit("echo ready; while [ ! -e go ]; do sleep 0.05; done", time_limit_s=4)
    until_ready(bench, job)

    status, answer = bench.box.api("PATCH", f"/jobs/{job}", {"time_limit_s": 60})
    time.sleep(4.5)  # The old limit passes.
    meanwhile = bench.box.state_of(job)
    (bench.box.work / "go").touch()

    assert status == 200, answer
    assert meanwhile == "running"
    assert bench.until(job)["state"] == "completed"


@pytest.mark.scenario(23)
def test_a_limit_that_is_lowered_below_the_past_ends_the_job_at_once(bench: Bench):
    job = bench.submit(OBEYS, time_limit_s=600)
    uid = until_ready(bench, job)
    time.sleep(1.2)  # So that a second of it is past.

    bench.box.api("PATCH", f"/jobs/{job}", {"time_limit_s": 1})
    shown = bench.until(job)

    assert (shown["state"], shown["cause_code"]) == ("timeout", "time_limit")
    until_gone(bench, uid)
