"""The table of moves: what it allows happens, everything else is an error of ours."""

import pytest

from rota.controller.commands import commands as cmd
from rota.core.changes.apply import apply
from rota.core.changes.events import (
    AttemptEnded,
    AttemptPlaced,
    AttemptStarted,
    AttemptStopAsked,
    ElementExpanded,
    JobHeld,
    JobRequeued,
    JobRetried,
    JobSettled,
    JobSubmitted,
    NodeRegistered,
)
from rota.core.cluster import Cluster
from rota.core.facts.errors import IllegalMove
from rota.core.facts.job import JobSpec, Outcome
from rota.core.facts.node import Allocation, NodeSpec
from rota.core.facts.states import ACTIVE, FINAL, MOVES, WAITING, Cause, JobState, check_move
from rota.testing.scene import OPERATOR, Scene

STATES = list(JobState)
LEGAL = {(before, after) for before, moves in MOVES.items() for after in moves}


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
def test_a_move_is_allowed_exactly_when_the_table_lists_it(before, after):
    if (before, after) in LEGAL:
        check_move(1, before, after)
    else:
        with pytest.raises(IllegalMove, match=f"job 1: {before} -> {after} is not a legal move"):
            check_move(1, before, after)


@pytest.mark.parametrize("state", sorted(FINAL))
def test_nothing_leaves_a_final_state(state):
    assert not [after for before, after in LEGAL if before is state]


def test_every_state_waits_holds_room_or_is_final_and_is_only_one_of_these():
    assert sorted([*WAITING, *ACTIVE, *FINAL]) == sorted(STATES)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("queued", "scheduled"),
        ("scheduled", "running"),
        ("running", "completed"),
        ("running", "failed"),
        ("running", "preempted"),
        ("preempted", "queued"),
        *(
            (state, "cancelled")
            for state in ("held", "queued", "scheduled", "running", "preempted")
        ),
    ],
)
def test_the_moves_that_users_rely_on_are_legal(before, after):
    assert (JobState(before), JobState(after)) in LEGAL


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("queued", "running"),
        ("queued", "completed"),
        ("held", "scheduled"),
        ("running", "scheduled"),
        ("running", "unschedulable"),
        ("scheduled", "unschedulable"),
    ],
)
def test_a_job_cannot_skip_a_step(before, after):
    assert (JobState(before), JobState(after)) not in LEGAL


def test_a_job_is_stamped_when_it_is_placed_started_and_ended():
    scene = Scene(starts=False)
    scene.submit("job")
    scene.pass_time(2)
    scene.start("job")
    scene.pass_time(3)

    scene.finish("job")

    job = scene.job("job")
    attempt = job.tasks[0].attempts[0]
    assert (job.submitted_s, job.eligible_s, attempt.placed_s) == (1000, 1000, 1000)
    assert (job.started_s, attempt.ended_s, job.ended_s) == (1002, 1005, 1005)


def test_the_states_of_a_plain_job_follow_one_another():
    scene = Scene(starts=False)
    scene.ask(cmd.DrainNode(actor=OPERATOR, node="box", drained=True))
    scene.submit("job", hold=True)
    seen = [scene.state("job")]

    scene.release("job")
    seen.append(scene.state("job"))
    scene.ask(cmd.DrainNode(actor=OPERATOR, node="box", drained=False))
    seen.append(scene.state("job"))
    scene.start("job")
    seen.append(scene.state("job"))
    scene.finish("job")
    seen.append(scene.state("job"))

    assert seen == ["held", "queued", "scheduled", "running", "completed"]


def running_cluster() -> Cluster:
    """Job 1 runs on the only node."""
    cluster = Cluster()
    spec = JobSpec(name="job", user="alice", command=("true",))
    for event in (
        NodeRegistered(spec=NodeSpec("box", 4000, 100), incarnation="i", boot_id="b"),
        JobSubmitted(job=1, uid="u", spec=spec, eligible=True),
        AttemptPlaced(
            job=1, task=0, uid="u.0.1", allocation=Allocation("box", 1000, 0), incarnation="i/b"
        ),
        AttemptStarted(job=1, task=0, uid="u.0.1", pid=1, started_s=5.0),
    ):
        apply(cluster, event, 5.0)
    return cluster


@pytest.mark.parametrize(
    "event",
    [
        JobSettled(job=1, outcome=Outcome(JobState.CANCELLED, Cause.CANCELLED)),
        JobSettled(job=7, outcome=Outcome(JobState.CANCELLED, Cause.CANCELLED)),
        JobHeld(job=7),
        AttemptEnded(job=1, task=0, uid="u.0.2", ended_s=6.0, cause=Cause.EXIT),
        AttemptStarted(job=1, task=0, uid="other", pid=1, started_s=6.0),
    ],
)
def test_an_event_that_contradicts_the_facts_is_refused_as_our_bug(event):
    cluster = running_cluster()

    with pytest.raises(IllegalMove):
        apply(cluster, event, 6.0)


def test_the_first_cause_of_a_stop_stays():
    cluster = running_cluster()

    for cause in (Cause.TIME_LIMIT, Cause.CANCELLED):
        apply(cluster, AttemptStopAsked(job=1, task=0, uid="u.0.1", cause=cause), 6.0)

    assert cluster.jobs[1].live_attempts[0].stop_cause is Cause.TIME_LIMIT


def test_an_attempt_ends_once():
    cluster = running_cluster()
    end = AttemptEnded(job=1, task=0, uid="u.0.1", ended_s=6.0, cause=Cause.EXIT, exit_code=0)
    apply(cluster, end, 6.0)

    with pytest.raises(IllegalMove, match=r"u\.0\.1 is not the live attempt"):
        apply(cluster, end, 6.0)


@pytest.mark.parametrize(
    "event",
    [
        JobRetried(job=1, not_before_s=0.0, cause=Cause.EXIT),
        JobRequeued(job=1),
        JobHeld(job=1),
        JobSettled(job=1, outcome=Outcome(JobState.FAILED, Cause.EXIT)),
    ],
)
def test_no_event_brings_an_ended_job_back(event):
    cluster = running_cluster()
    end = AttemptEnded(job=1, task=0, uid="u.0.1", ended_s=6.0, cause=Cause.EXIT, exit_code=0)
    apply(cluster, end, 6.0)
    apply(cluster, JobSettled(job=1, outcome=Outcome(JobState.COMPLETED, Cause.EXIT)), 6.0)

    with pytest.raises(IllegalMove, match="not an unfinished job"):
        apply(cluster, event, 7.0)

    assert cluster.state_of(1) is JobState.COMPLETED


def test_an_element_is_not_expanded_twice():
    scene = Scene(cpus=1)
    array = scene.submit("array", array="0-3")

    with pytest.raises(IllegalMove, match="expanded before"):
        apply(scene.cluster, ElementExpanded(array=array, position=0), 0.0)
