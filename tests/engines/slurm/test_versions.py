"""What versions of Slurm say in their own shapes, and what is made of it."""

import asyncio
import json
import time
from pathlib import Path

import pytest

from rota.backends.api import EnginePhase
from rota.backends.slurm.commands import ByCommands
from rota.backends.slurm.driver import SlurmDriver, owner
from rota.backends.slurm.records import held_of, of_accounting, of_controller, of_sacct, of_squeue
from rota.backends.slurm.settings import SlurmSettings
from rota.backends.slurm.states import as_job
from rota.core.facts.states import Cause


def number(value: int, *, known: bool = True) -> dict[str, object]:
    return {"set": known, "infinite": False, "number": value}


def ended_as(code: int, signal: int = 0, status: str = "ERROR") -> dict[str, object]:
    return {
        "status": [status],
        "return_code": number(code, known=not signal),
        "signal": {"id": number(signal, known=bool(signal)), "name": "" if not signal else "KILL"},
    }


NEWER = {
    "job_id": 12,
    "comment": "rota:c1:a",
    "job_state": ["RUNNING"],
    "state_reason": "None",
    "state_description": "",
    "nodes": "n[1-2]",
    "user_name": "bob",
    "submit_time": number(1),
    "start_time": number(2),
    "end_time": number(3),
    "restart_cnt": 0,
    "partition": "main",
    "tres_alloc_str": "cpu=2,mem=1G,node=2,billing=2",
}


@pytest.mark.parametrize(
    ("words", "phase", "cause"),
    [
        (["PENDING"], EnginePhase.WAITING, None),
        (["RUNNING"], EnginePhase.RUNNING, None),
        (["RUNNING", "CONFIGURING"], EnginePhase.WAITING, None),
        (["CONFIGURING", "RUNNING"], EnginePhase.WAITING, None),
        (["RUNNING", "CONFIGURING", "POWER_UP_NODE"], EnginePhase.WAITING, None),
        (["RUNNING", "POWER_UP_NODE"], EnginePhase.WAITING, None),
        (["RUNNING", "RESIZING"], EnginePhase.RUNNING, None),
        (["RUNNING", "SIGNALING"], EnginePhase.RUNNING, None),
        (["SUSPENDED", "STOPPED"], EnginePhase.RUNNING, None),
        (["COMPLETED", "COMPLETING"], EnginePhase.RUNNING, None),
        (["COMPLETING", "NODE_FAIL"], EnginePhase.RUNNING, None),
        (["COMPLETED", "STAGE_OUT"], EnginePhase.ENDED, None),
        (["SIGNALING", "CANCELLED"], EnginePhase.ENDED, Cause.CANCELLED),
        (["PENDING", "REQUEUE_HOLD"], EnginePhase.WAITING, None),
        (["PENDING", "SPECIAL_EXIT"], EnginePhase.WAITING, None),
        (["PENDING", "LAUNCH_FAILED"], EnginePhase.WAITING, None),
        (["PENDING", "RECONFIG_FAIL"], EnginePhase.WAITING, None),
        (["PENDING", "RESV_DEL_HOLD"], EnginePhase.WAITING, None),
        (["COMPLETED", "REQUEUED"], EnginePhase.WAITING, None),
        (["NODE_FAIL", "REQUEUED"], EnginePhase.WAITING, None),
        (["PENDING", "REVOKED"], EnginePhase.ENDED, Cause.CANCELLED),
        (["BOOT_FAIL"], EnginePhase.ENDED, Cause.NODE_LOST),
        (["DEADLINE"], EnginePhase.ENDED, Cause.TIME_LIMIT),
        (["OUT_OF_MEMORY"], EnginePhase.ENDED, Cause.OUT_OF_MEMORY),
        (["preempted"], EnginePhase.ENDED, Cause.PREEMPTED),
        (["LAUNCH_FAILED"], EnginePhase.ENDED, Cause.START_FAILED),
        (["RUNNING", "A_FLAG_OF_THE_FUTURE"], EnginePhase.RUNNING, None),
    ],
)
def test_a_state_with_its_flags_means_the_same_in_whatever_order(words, phase, cause):
    told = of_controller(NEWER | {"job_state": words})

    job = as_job("a", told)

    assert (job.phase, job.cause) == (phase, cause)


@pytest.mark.parametrize("state", ["CONFIGURING", ["RUNNING", "CONFIGURING"]])
def test_one_whose_nodes_boot_has_them_already(state):
    job = as_job("a", of_controller(NEWER | {"job_state": state}))

    assert (job.phase, job.node, job.nodes) == (EnginePhase.WAITING, "n1", ("n1", "n2"))
    assert (job.started_s, job.reason) == (0.0, "its nodes boot")


@pytest.mark.parametrize(
    ("reason", "held"), [("JobHeldAdmin", True), ("JobHeldUser", False), ("Priority", False)]
)
def test_one_that_an_operator_holds_is_told_apart(reason, held):
    job = as_job("a", of_controller(NEWER | {"job_state": ["PENDING"], "state_reason": reason}))

    assert (job.held, job.reason) == (held, reason)


@pytest.mark.parametrize(
    ("state", "told", "status"),
    [
        ("COMPLETED", ended_as(0, status="SUCCESS"), 0),
        ("FAILED", ended_as(3), 768),
        ("FAILED", ended_as(0, 9, "SIGNALED"), 9),
        ("FAILED", {"status": "ERROR", "return_code": 3}, 768),
        ("FAILED", {"status": "SIGNALED", "signal": {"signal_id": 9, "name": "KILL"}}, 9),
        ("FAILED", number(768), 768),
        ("FAILED", "768", 768),
        ("FAILED", 768, 768),
        # Of one that failed a zero is no success.
        ("FAILED", 0, None),
        ("FAILED", ended_as(0, status="PENDING"), None),
        ("FAILED", number(0, known=False), None),
        ("FAILED", None, None),
    ],
)
def test_how_one_ended_is_read_in_every_shape(state, told, status):
    record = of_controller(NEWER | {"job_state": [state], "exit_code": told})

    assert record.status == status


def test_numbers_and_texts_are_read_in_every_shape():
    plain = of_controller(NEWER)
    odd = {"job_id": "12", "submit_time": "1", "start_time": 2, "end_time": number(3)}
    lists = {"nodes": ["n[1-2]"], "job_state": "RUNNING", "restart_cnt": number(0)}
    none = {"state_reason": None, "state_description": None, "array_job_id": number(0, known=False)}

    assert of_controller(NEWER | odd | lists | none) == plain
    assert of_controller(NEWER | {"user_id": number(5)}).user_id == 5
    assert of_controller({"job_state": []}).state == "UNKNOWN"


def test_a_number_without_an_end_is_none():
    endless = {"set": True, "infinite": True, "number": 4294967294}

    assert of_controller(NEWER | {"end_time": endless}).ended_s == 0


@pytest.mark.parametrize("nodes", ["None assigned", "", None, "(null)"])
def test_one_that_never_had_a_node_has_none_by_whatever_words(nodes):
    told = {"job_id": 5, "state": {"current": "CANCELLED"}, "nodes": nodes, "time": {"start": 2}}

    job = as_job("a", of_accounting(told))

    assert (job.node, job.started_s, job.cause) == ("", 0.0, Cause.CANCELLED)


@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        ("alice", 0, "alice"),
        ("nobody", 0, "root"),
        ("", 0, "root"),
        ("nobody", 4_000_000_000, ""),
        ("", 4_000_000_000, ""),
    ],
)
def test_a_slurmrestd_that_knows_no_users_hides_no_job(name, number, expected):
    assert owner(of_controller(NEWER | {"user_name": name, "user_id": number})) == expected


@pytest.mark.parametrize(
    "comment",
    ["rota:c1:a", {"administrator": "", "job": "rota:c1:a", "system": ""}],
)
@pytest.mark.parametrize("current", ["FAILED", ["FAILED"]])
def test_the_accounting_is_read_in_every_shape(comment, current):
    told = of_accounting(
        {
            "job_id": number(5),
            "comment": comment,
            "state": {"current": current, "reason": "None"},
            "exit_code": ended_as(3),
            "time": {"submission": 1, "start": number(2), "end": "3"},
            "nodes": "n1",
            "user": "bob",
        }
    )

    assert (told.id, told.comment, told.state, told.status) == ("5", "rota:c1:a", "FAILED", 768)
    assert (told.submitted_s, told.started_s, told.ended_s) == (1, 2, 3)


def test_a_zero_of_the_commands_says_nothing_of_a_failure():
    fields = "5@FAILED@0@1@2@3@n1@alice@0@main@cpu=2@None@rota:c1:a@"
    newer = "6@FAILED@3:0@1@2@3@n1@alice@0@main@cpu=2@None@rota:c1:b@"

    told = list(of_squeue(f"{fields}\n{newer}".replace("@", "<k>"), "<k>"))
    past = list(of_sacct("7@out_of_memory@0:125@1@2@3@n1@a@x".replace("@", "<k>"), "<k>"))

    assert [one.status for one in told] == [None, 768]
    assert (past[0].state, past[0].status) == ("OUT_OF_MEMORY", 125)


def test_gpus_that_are_counted_by_their_types_alone_are_counted():
    assert held_of("cpu=1,gres/gpu:a100=2,gres/gpu:h200=1").gpus == 3
    assert held_of("cpu=1,gres/gpu=2,gres/gpu:a100=2").gpus == 2


@pytest.fixture
def site(tmp_path: Path, monkeypatch):
    """The commands of a Slurm that answers by hand: ``say`` gives the lines of one."""

    def say(command: str, *lines: str) -> None:
        body = "\n".join(lines)
        script = (
            "#!/bin/sh\n"
            'for word in "$@"; do case $word in\n'
            "--delimiter=*) mark=${word#--delimiter=} ;;\n"
            "--Format=*) mark=${word##*:} ;;\n"
            "esac; done\n"
            f"sed \"s/@/$mark/g\" <<'END'\n{body}\nEND\n"
        )
        (tmp_path / command).write_text(script)
        (tmp_path / command).chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    say("squeue")
    say("sacct")
    return say


def asked(tmp_path: Path, question):
    """What a driver answers that knows nothing from before."""

    async def ask():
        settings = SlurmSettings(folder=str(tmp_path / "shared"))
        driver = SlurmDriver(settings, ByCommands(settings))
        driver.cluster = "c1"
        try:
            return await question(driver)
        finally:
            await driver.close()

    return asyncio.run(ask())


def test_what_slurmctld_no_longer_knows_does_not_live_whatever_the_accounting_was_told(
    site, tmp_path
):
    """A slurmctld that lost a job tells nobody of its end: it is a runaway there for ever."""
    site(
        "sacct",
        "7@RUNNING@0:0@1@2@Unknown@n1@root@rota:c1:a",
        "8@COMPLETED@0:0@1@2@3@n1@root@rota:c1:b",
    )

    found = asked(tmp_path, lambda one: one.find(["a", "b"]))

    assert [(job.uid, job.phase) for job in found] == [("b", EnginePhase.ENDED)]


def test_what_one_holds_whose_nodes_boot_is_not_free(site, tmp_path):
    node = {"name": "n1", "cpus": 8, "real_memory": 8000, "state": "mixed", "partitions": ["main"]}
    site("sinfo", json.dumps({"nodes": [node]}))
    site("squeue", "7@CONFIGURING@0@1@2@9@n1@bob@0@main@cpu=6,mem=2000M@None@x@")

    (seen,) = asked(tmp_path, lambda one: one.nodes())

    assert (seen.spec.cpu_milli, seen.spec.memory_mib) == (2000, 6000)


def test_ten_thousand_jobs_of_others_cost_little(site, tmp_path):
    """One look, all of it: the process of an engine has other things to do."""
    others = [
        f"{n}@PENDING@0@1@N/A@N/A@@u{n}@0@main@cpu=4,mem=16G@Priority@a comment of theirs {n}@"
        for n in range(10_000)
    ]
    site("squeue", *others, "99@RUNNING@0@1@2@9@n1@root@0@main@cpu=2@None@rota:c1:a@")

    began_s = time.process_time()
    jobs = asked(tmp_path, lambda one: one.jobs())

    assert [job.uid for job in jobs] == ["a"]
    assert time.process_time() - began_s < 1.0
