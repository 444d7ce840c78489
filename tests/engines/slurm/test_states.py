"""What Slurm says of a job, and what is made of it: tables, without a Slurm."""

import pytest

from rota.backends.api import EnginePhase
from rota.backends.slurm.records import (
    SlurmRecord,
    of_accounting,
    of_controller,
    of_sacct,
    of_squeue,
)
from rota.backends.slurm.states import as_job
from rota.core.facts.states import Blame, Cause


def record(state, **more):
    given = {"id": "7", "comment": "rota:c1:a", "state": state, "nodes": "n[2-3]", "user": "alice"}
    times = {"submitted_s": 10.0, "started_s": 20.0, "ended_s": 30.0}
    return SlurmRecord(**given | times | more)


@pytest.mark.parametrize(
    ("state", "status", "cause", "code", "signal"),
    [
        ("COMPLETED", 0, None, 0, 0),
        ("FAILED", 768, None, 3, 0),
        ("FAILED", 65280, None, 255, 0),
        ("FAILED", 9, None, None, 9),
        ("FAILED", 139, None, None, 11),
        ("FAILED", 4021, Cause.START_FAILED, None, 0),
        ("FAILED", 53, Cause.START_FAILED, None, 0),
        ("FAILED", None, None, None, 0),
        ("OUT_OF_MEMORY", 125, Cause.OUT_OF_MEMORY, None, 125),
        ("TIMEOUT", 1280, Cause.TIME_LIMIT, 5, 0),
        ("TIMEOUT", 15, Cause.TIME_LIMIT, None, 15),
        ("DEADLINE", 0, Cause.TIME_LIMIT, 0, 0),
        ("NODE_FAIL", 0, Cause.NODE_LOST, 0, 0),
        ("BOOT_FAIL", 0, Cause.NODE_LOST, 0, 0),
        ("PREEMPTED", 15, Cause.PREEMPTED, None, 15),
        ("CANCELLED", 1792, Cause.CANCELLED, 7, 0),
        ("REVOKED", 0, Cause.CANCELLED, 0, 0),
        ("LAUNCH_FAILED", 0, Cause.START_FAILED, 0, 0),
    ],
)
def test_an_end_is_the_state_and_the_wait_status(state, status, cause, code, signal):
    # Slurm says so of every death by a signal.
    job = as_job("a", record(state, status=status, reason="JobLaunchFailure"))

    assert (job.phase, job.cause, job.code, job.signal) == (EnginePhase.ENDED, cause, code, signal)
    assert (job.fault is Blame.NODE) == (cause is Cause.START_FAILED)
    assert (job.node, job.started_s, job.ended_s, job.user) == ("n2", 20.0, 30.0, "alice")


@pytest.mark.parametrize(
    ("state", "reason", "phase", "shown"),
    [
        ("PENDING", "AssocGrpCpuLimit", EnginePhase.WAITING, "AssocGrpCpuLimit"),
        ("PENDING", "", EnginePhase.WAITING, ""),
        ("REQUEUE_HOLD", "JobHeldAdmin", EnginePhase.WAITING, "JobHeldAdmin"),
        ("CONFIGURING", "", EnginePhase.WAITING, "its nodes boot"),
        ("RUNNING", "Prolog", EnginePhase.RUNNING, ""),
        ("COMPLETING", "NonZeroExitCode", EnginePhase.RUNNING, ""),
        ("SUSPENDED", "", EnginePhase.RUNNING, ""),
        ("A_STATE_OF_THE_FUTURE", "", EnginePhase.RUNNING, ""),
    ],
)
def test_one_that_lives_waits_with_its_reason_or_runs(state, reason, phase, shown):
    job = as_job("a", record(state, reason=reason, status=0))

    assert (job.phase, job.reason, job.code, job.cause) == (phase, shown, None, None)
    # Of one that waits Slurm tells a start that it only expects.
    assert job.started_s == (20.0 if phase is EnginePhase.RUNNING else 0.0)


def test_one_that_never_had_a_node_never_ran():
    job = as_job("a", record("CANCELLED", nodes="", status=0, by="uid 1000"))

    assert (job.started_s, job.code) == (0.0, None)
    assert job.detail == "cancelled in Slurm by uid 1000"


def test_the_controllers_shape_of_older_versions_is_read():
    told = of_controller(
        {
            "job_id": 12,
            "comment": "rota:c1:a",
            "job_state": "FAILED",
            "state_reason": "NonZeroExitCode",
            "state_description": "",
            "exit_code": 768,
            "nodes": "n1",
            "user_name": "bob",
            "submit_time": 1,
            "start_time": 2,
            "end_time": 3,
            "restart_cnt": 1,
        }
    )

    assert told == SlurmRecord(
        id="12",
        comment="rota:c1:a",
        state="FAILED",
        reason="NonZeroExitCode",
        nodes="n1",
        user="bob",
        submitted_s=1,
        started_s=2,
        ended_s=3,
        status=768,
        restarts=1,
    )


def number(value):
    return {"set": True, "infinite": False, "number": value}


def test_the_controllers_shape_of_newer_versions_is_read():
    told = of_controller(
        {
            "job_id": 12,
            "comment": "rota:c1:a",
            "job_state": ["FAILED"],
            "state_reason": "None",
            "exit_code": {
                "status": ["SIGNALED"],
                "return_code": {"set": False, "infinite": False, "number": 0},
                "signal": {"id": number(9), "name": "SIGKILL"},
            },
            "start_time": number(2),
        }
    )
    completing = of_controller({"job_id": 1, "job_state": ["FAILED", "COMPLETING"]})

    assert (told.state, told.status, told.started_s, told.reason) == ("FAILED", 9, 2, "")
    assert completing.state == "COMPLETING"


@pytest.mark.parametrize(
    ("current", "exit_code", "status"),
    [
        ("FAILED", {"status": "SUCCESS", "return_code": 0}, None),
        ("COMPLETED", {"status": "SUCCESS", "return_code": 0}, 0),
        ("FAILED", {"status": "SIGNALED", "signal": {"signal_id": 9, "name": "KILL"}}, 9),
        ("FAILED", {"status": "ERROR", "return_code": 3}, 768),
    ],
)
def test_a_zero_in_the_accounting_by_rest_says_nothing_of_a_failure(current, exit_code, status):
    told = of_accounting(
        {
            "job_id": 5,
            "comment": {"administrator": None, "job": "rota:c1:a", "system": None},
            "state": {"current": current, "reason": "None"},
            "exit_code": exit_code,
            "time": {"submission": 1, "start": 2, "end": 3},
            "kill_request_user": "root",
        }
    )

    assert (told.comment, told.state, told.status, told.by) == (
        "rota:c1:a",
        current,
        status,
        "root",
    )


def test_lines_of_sacct_are_told_apart_from_what_strangers_write():
    lines = [
        "5@CANCELLED by 1000@0:0@1@2@3@n1@alice@rota:c1:a",
        "6@FAILED@3:0@1@2@3@n1@alice@x",
        "7|COMPLETED|0:0|1|2|3|n1|alice|rota:c1:b",
        "8@FAILED@0:0@1@Unknown@Unknown@None assigned@bob@",
    ]

    told = list(of_sacct("\n".join(lines).replace("@", "<k>"), "<k>"))

    assert [(one.id, one.state, one.status, one.by) for one in told] == [
        ("5", "CANCELLED", None, "uid 1000"),
        ("6", "FAILED", 768, ""),
        ("8", "FAILED", None, ""),
    ]
    assert (told[2].nodes, told[2].started_s) == ("", 0.0)


def test_lines_of_squeue_are_told_apart_from_what_strangers_write():
    lines = [
        "5@FAILED@768@1@2@3@n1@alice@1@main@cpu=2,mem=1G@NonZeroExitCode@rota:c1:a@",
        "6@PENDING@0@1@N/A@N/A@@bob@0@main@cpu=9@ReqNodeNotAvail, UnavailableNodes:n3@(null)@",
        "7|RUNNING|0|1|2|3|n1|alice|0|main|cpu=1|None|rota:c1:b|",
        "8@RUNNING@0@1@2@9@n[1-2]@bob@0@main@cpu=2@None@a name",
        "9@RUNNING@0@1@2@9@n[1-2]@bob@0@main@cpu=2@None@x@",
    ]

    told = list(of_squeue("\n".join(lines).replace("@", "<k>"), "<k>"))

    assert [(one.id, one.state, one.status, one.restarts) for one in told] == [
        ("5", "FAILED", 768, 1),
        ("6", "PENDING", 0, 0),
        ("9", "RUNNING", 0, 0),
    ]
    assert [one.reason for one in told] == [
        "NonZeroExitCode",
        "ReqNodeNotAvail, UnavailableNodes:n3",
        "",
    ]
    assert (told[0].held.cpus, told[0].held.memory_mib, told[1].started_s) == (2, 1024, 0.0)
    assert (told[2].nodes, told[2].user, told[2].comment) == ("n[1-2]", "bob", "x")
