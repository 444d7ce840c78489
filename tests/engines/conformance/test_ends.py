"""How jobs end without their own doing: memory, lost machines, and what others do in the engine."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.engines.conformance.bench import MARK, PATIENCE_S, processes
from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.engines.conformance.bench import Bench

UNTIL_GO = "while [ ! -e go ]; do sleep 0.05; done"


def go(bench: Bench) -> None:
    (bench.box.work / "go").touch()


def inside_of(bench: Bench, uid: str, phase: str) -> str:
    """The engine's id of an attempt, once it is in this phase there."""

    def found() -> str:
        return next((job.id for job in bench.look_inside(uid) if job.phase == phase), "")

    return str(until(found, f"{uid} to be {phase} inside"))


@pytest.mark.scenario(24)
def test_one_over_its_memory_is_ended_for_that(bench: Bench):
    eats = "perl -e '$x = \"x\" x (400 << 20); sleep 60'"

    shown = bench.until(bench.submit(eats, resources={"cpus": 1, "memory_mb": 100}))

    assert (shown["state"], shown["cause_code"]) == ("failed", "out_of_memory")


@pytest.mark.scenario(25)
def test_a_job_on_a_machine_that_is_lost_is_tried_again_elsewhere(bench: Bench):
    tries = {"retries": 1, "backoff_s": 0, "grace_s": 1}
    job = bench.submit(f"{MARK}; {UNTIL_GO}", node_list=both(bench), **tries)
    first = bench.began(job)
    machine = where(bench, job)

    with bench.fault("lost", machine):
        until(lambda: bench.uid(job) != first, "another try", PATIENCE_S)
        go(bench)
        shown = bench.until(job)

    assert shown["state"] == "completed"
    lost, *_, last = shown["attempts"]  # Between them may be some that the engine gave back.
    assert lost["cause_code"] == "node_lost"
    assert (lost["node"], last["node"] != lost["node"]) == (bench.ours(machine), True)
    assert bench.marks() == [first, last["uid"]]


def both(bench: Bench) -> list[str]:
    """Two of its nodes."""
    return [bench.ours(machine) for machine in bench.machines[1:]]


def where(bench: Bench, job: int) -> str:
    """The engine's name of the machine that a job is on."""
    node = bench.box.api("GET", f"/jobs/{job}")[1]["nodes"][0]
    return str(node).removesuffix(bench.suffix)


@pytest.mark.scenario(26)
def test_a_job_on_a_machine_that_is_not_heard_for_a_moment_goes_on(bench: Bench):
    job = bench.submit(f"{MARK}; {UNTIL_GO}", node_list=both(bench))
    uid = bench.began(job)

    with bench.fault("cut", where(bench, job)):
        time.sleep(2)  # Long enough to be noticed, too short to be given up.
        alive = processes(uid)
    go(bench)
    shown = bench.until(job)

    assert alive
    assert shown["state"] == "completed"
    assert [attempt["uid"] for attempt in shown["attempts"]] == bench.marks() == [uid]


@pytest.mark.scenario(27)
def test_jobs_that_were_sent_to_a_machine_as_it_was_lost_run_once_elsewhere(bench: Bench):
    with bench.fault("lost", bench.machines[2]):
        commands = [f"{MARK}; sleep 0.2"] * 12
        jobs = bench.submit_many(commands, retries=3, backoff_s=0, grace_s=1)
        ends = [ended_in_time(bench, job) for job in jobs]

    assert {end["state"] for end in ends} == {"completed"}
    last = [end["attempts"][-1]["uid"] for end in ends]
    assert sorted(bench.marks()) == sorted(last)


def ended_in_time(bench: Bench, job: int) -> dict[str, object]:
    """Longer than others: a lost machine is given up after a while."""
    final = ("completed", "failed", "node_failed", "cancelled")
    until(lambda: bench.box.api("GET", f"/jobs/{job}")[1]["state"] in final, "its end", PATIENCE_S)
    return bench.until(job)


@pytest.mark.scenario(28)
def test_a_machine_that_is_drained_finishes_its_job_and_begins_none(bench: Bench):
    machine = bench.machines[1]
    here = {"node_list": [bench.ours(machine)]}
    runs = bench.submit(UNTIL_GO, **here)
    bench.began(runs)

    with bench.fault("drained", machine):
        late = bench.submit(MARK, **here)
        until(lambda: says_why(bench.box.why(late)), "the engine's reason")
        go(bench)
        finished = bench.until(runs)
        meanwhile = bench.marks()

    assert finished["state"] == "completed"
    assert meanwhile == []
    assert bench.until(late)["state"] == "completed"


def says_why(text: str) -> bool:
    """It waits inside, or Rota knows already that the machine is out of service."""
    return "waiting inside" in text or "out-of-service" in text


@pytest.mark.scenario(29)
def test_one_that_is_cancelled_in_the_engine_is_over_with_the_engines_words(bench: Bench):
    job = bench.submit(UNTIL_GO, retries=0)
    uid = bench.began(job)

    with bench.fault("cancelled", inside_of(bench, uid, "running")):
        shown = bench.until(job)

    assert shown["state"] in ("cancelled", "node_failed")
    assert any(words in shown["cause"] for words in ("cancelled in", "deleted in"))
    assert len(shown["attempts"]) == 1
    assert not processes(uid)


@pytest.mark.scenario(30)
def test_one_that_is_requeued_in_the_engine_comes_back_as_another_attempt(bench: Bench):
    job = bench.submit(f"{MARK}; {UNTIL_GO}", retries=1, backoff_s=0)
    uid = bench.began(job)

    with bench.fault("requeued", inside_of(bench, uid, "running")):
        until(lambda: len(bench.marks()) == 2, "its second run")
    go(bench)
    shown = bench.until(job)

    assert shown["state"] == "completed"
    assert [attempt["uid"] for attempt in shown["attempts"]] == bench.marks()
    assert bench.marks()[0] == uid


@pytest.mark.scenario(31)
def test_one_that_the_engine_preempts_says_so_and_comes_back(bench: Bench):
    machine = bench.machines[1]
    job = bench.submit(
        f"{MARK}; {UNTIL_GO}",
        node_list=[bench.ours(machine)],
        resources={"cpus": bench.cpus - 1},
        retries=1,
        backoff_s=0,
        grace_s=1,
    )
    first = bench.began(job)

    with bench.fault("preempting", machine):
        until(lambda: not processes(first), "it to give way")
        until(lambda: bench.box.api("GET", f"/jobs/{job}")[1]["attempts"][0]["cause_code"], "why")
    go(bench)
    shown = bench.until(job)

    assert shown["state"] == "completed"
    assert shown["attempts"][0]["cause_code"] in ("preempted", "node_lost")
    assert bench.marks() == [attempt["uid"] for attempt in shown["attempts"]]


@pytest.mark.scenario(32)
def test_one_that_is_held_in_the_engine_waits_with_its_reason_and_goes_on(bench: Bench):
    held = ExitStack()
    with bench.fault("closed"):
        job = bench.submit(MARK)
        held.enter_context(bench.fault("held", inside_of(bench, bench.uid(job), "waiting")))
    until(lambda: "JobHeld" in bench.box.why(job), "the engine's reason")
    meanwhile = bench.marks()

    held.close()
    shown = bench.until(job)

    assert meanwhile == []
    assert shown["state"] == "completed"
    assert bench.marks() == [shown["attempts"][0]["uid"]]
