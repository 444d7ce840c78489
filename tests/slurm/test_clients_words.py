"""Words and formats that clients and people's scripts use beside the recorded ones."""

import asyncio
import json

import pytest

from rota.core.facts.tenant import Access, Actor
from rota.slurm.call.command import Call, CallerLine, CallRequest
from rota.slurm.serving import answer_to
from tests.api.running import Answer
from tests.slurm.cluster import Cluster


@pytest.mark.parametrize("words", [["job=ID"], ["jobid", "ID"], ["JobId=ID"], ["jobs", "ID"]])
def test_scontrol_takes_the_id_of_a_job_behind_any_name_for_jobs(
    cluster: Cluster, words: list[str]
) -> None:
    job = str(cluster.submit("-H", "-J", "held"))

    shown = cluster.text("scontrol", "show", *(word.replace("ID", job) for word in words))

    assert shown.startswith(f"JobId={job} JobName=held\n")


def test_scontrol_takes_names_of_nodes_and_partitions_behind_an_equals_sign(
    cluster: Cluster,
) -> None:
    assert cluster.text("scontrol", "show", "hostnames=n[1-2]") == "n1\nn2\n"
    assert cluster.text("scontrol", "show", "node=n3").startswith("NodeName=n3 ")
    assert cluster.text("scontrol", "show", "partition=short").startswith("PartitionName=short\n")


@pytest.mark.parametrize(
    ("words", "stderr"),
    [
        (["job", "1", "2"], "too many arguments for keyword:show\n"),
        (["jobids=1"], "invalid entity:jobids for keyword:show \n"),
        (["job=99999"], "slurm_load_jobs error: Invalid job id specified\n"),
    ],
)
def test_scontrol_refuses_what_it_cannot_show_in_slurms_words(
    cluster: Cluster, words: list[str], stderr: str
) -> None:
    answer = cluster.run("scontrol", "show", *words)

    assert (answer.code, answer.stderr) == (1, stderr)


def test_a_step_that_a_job_never_had_is_not_found(cluster: Cluster) -> None:
    job = cluster.submit()
    cluster.start(job)

    answer = cluster.run("scontrol", "show", "step", f"{job}.7")

    assert (answer.code, answer.stdout) == (1, f"Job step {job}.7 not found\n")


@pytest.mark.parametrize(("program", "fields"), [("squeue", 52), ("sinfo", 42)])
def test_the_format_all_shows_every_field_between_bars(
    cluster: Cluster, program: str, fields: int
) -> None:
    cluster.submit("-H")

    lines = cluster.text(program, "-o", "%all").splitlines()

    assert len(lines) > 1
    assert {line.count("|") + 1 for line in lines} == {fields}


def test_groups_of_a_heterogeneous_job_have_their_own_names_or_that_of_the_one_before(
    cluster: Cluster,
) -> None:
    script = b"#!/bin/sh\n#SBATCH -H -J lead-0\n#SBATCH hetjob\n#SBATCH -n1 -J lead-1\n"
    script += b"#SBATCH hetjob\n#SBATCH -n1\n:\n"

    job = cluster.text("sbatch", "--parsable", stdin=script).strip()

    rows = cluster.text("sacct", "-nXPj", job, "-o", "jobid,jobname").split()
    assert rows == [f"{job}+0|lead-0", f"{job}+1|lead-1", f"{job}+2|lead-1"]


def test_the_last_element_of_an_array_has_the_id_of_the_array_once_it_began(
    cluster: Cluster,
) -> None:
    array = cluster.submit("--array=3-7:2%2")
    for element in (array + 1, array + 2):
        cluster.finish(element)
    cluster.start(array + 3)

    rows = cluster.text("sacct", "-nXPj", str(array), "-o", "jobid,jobidraw,state").split()

    assert rows == [
        f"{array}_3|{array + 1}|COMPLETED",
        f"{array}_5|{array + 2}|COMPLETED",
        f"{array}_7|{array}|RUNNING",
    ]
    assert cluster.text("squeue", "-hj", str(array), "-o", "%i %A").split() == [
        f"{array}_7",
        str(array),
    ]
    assert cluster.text("squeue", "-hj", str(array), "-O", "jobid").split() == [str(array)]
    shown = cluster.text("scontrol", "-o", "show", "job", f"{array}_7")
    assert shown.startswith(f"JobId={array} ArrayJobId={array} ArrayTaskId=7 ")
    listed = json.loads(cluster.text("squeue", "--json"))["jobs"]
    assert [job["job_id"] for job in listed if job["array_job_id"] == array] == [array]
    cluster.text("scancel", f"{array}_7")


def test_a_job_that_must_not_be_requeued_is_not(cluster: Cluster) -> None:
    job = cluster.submit("--no-requeue")
    cluster.start(job)

    answer = cluster.run("scontrol", "requeue", str(job))

    said = f"Requested operation is presently disabled for job {job}\n"
    assert (answer.code, answer.stderr) == (1, said)


def test_whether_a_job_may_be_requeued_can_be_changed(cluster: Cluster) -> None:
    job = str(cluster.submit("-H"))

    cluster.text("scontrol", "update", f"jobid={job}", "requeue=0")

    assert " Requeue=0 " in cluster.text("scontrol", "show", "job", "-o", job).replace("   ", " ")


def test_jobs_are_held_and_released_by_their_name_too(cluster: Cluster) -> None:
    mine, other = cluster.submit("-J", "named", "-n99"), cluster.submit("-n99", user="bob")
    reasons = ("squeue", "-h", "-o", "%r", "-j")

    cluster.text("scontrol", "hold", "jobname=named", user="alice")
    held = [cluster.text(*reasons, str(job)).strip() for job in (mine, other)]
    cluster.text("scontrol", "release", "jobname=named", user="alice")

    assert (held[0], held[1] != "JobHeldUser") == ("JobHeldUser", True)
    assert cluster.text(*reasons, str(mine)).strip() != "JobHeldUser"


def test_a_name_that_none_of_the_callers_jobs_has_is_refused(cluster: Cluster) -> None:
    job = cluster.submit("-H", "-J", "hers")

    answer = cluster.run("scontrol", "hold", "jobname=hers", user="bob")

    assert answer.code == 1
    assert answer.stderr == (
        f"Invalid user id for job {job}\nslurm_suspend error: Invalid user id\n"
    )


def test_the_least_cpus_of_a_node_are_those_of_the_tasks_on_it(cluster: Cluster) -> None:
    job = cluster.submit("-H", "-N2", "-n4", "-c2", "--ntasks-per-node=2")

    assert cluster.text("squeue", "-h", "-j", str(job), "-o", "%c %C").split() == ["4", "8"]


def test_srun_waits_for_a_number_of_seconds_only(cluster: Cluster) -> None:
    answer = cluster.run("srun", "-W", "soon", "true")

    said = 'srun: error: Invalid numeric value "soon" for --wait.\n'
    assert (answer.code, answer.stderr) == (1, said)


def test_a_failed_job_is_listed_with_its_reason_and_a_done_one_with_its_nodes(
    cluster: Cluster,
) -> None:
    failed, done = cluster.submit("-w", "n1"), cluster.submit("-w", "n1")
    cluster.finish(failed, code=3)
    cluster.finish(done)

    words = ("squeue", "-h", "-t", "all", "-o", "%i %R", "-j", f"{failed},{done}")

    assert sorted(cluster.text(*words).splitlines()) == [
        f"{failed} (NonZeroExitCode)",
        f"{done} n1",
    ]


def test_a_script_that_a_signal_ended_is_cancelled_and_its_job_has_failed(cluster: Cluster) -> None:
    job = cluster.submit()
    cluster.finish(job, signal=11)

    rows = cluster.text("sacct", "-nPj", str(job), "-o", "jobid,state,exitcode").split()

    assert rows[:2] == [f"{job}|FAILED|0:11", f"{job}.batch|CANCELLED|0:11"]


@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [
        ("users", "User|Def Acct|Admin|Cluster|Account|Partition|Share|Priority|", ""),
        (
            "account",
            "Account|Descr|Org|Cluster|ParentName|User|Share|Priority|",
            "GrpJobs|GrpNodes|GrpCPUs|GrpMem|GrpSubmit|GrpWall|GrpCPUMins|",
        ),
    ],
)
def test_accounts_and_users_are_listed_with_their_associations_as_slurm_has_them(
    cluster: Cluster, kind: str, first: str, last: str
) -> None:
    heading = cluster.text("sacctmgr", "-P", "show", kind, "withassoc").splitlines()[0]

    limits = "MaxJobs|MaxNodes|MaxCPUs|MaxSubmit|MaxWall|MaxCPUMins|QOS|Def QOS"
    assert heading == first + last + limits


def test_without_a_node_that_is_out_of_order_there_is_no_reason_to_list(cluster: Cluster) -> None:
    assert cluster.text("sinfo", "-R").splitlines() == [
        "REASON               USER      TIMESTAMP           NODELIST"
    ]


def test_commands_that_look_at_running_work_say_that_a_job_is_unknown_and_succeed(
    cluster: Cluster,
) -> None:
    stat = cluster.run("sstat", "-n", "-j", "99999")
    priorities = cluster.text("sprio", "-j", "99999")

    assert (stat.code, stat.stderr) == (0, "sstat: error: No steps running for job 99999\n")
    assert priorities == "Unable to find jobs matching user/id(s) specified\n"


def ask(cluster: Cluster, path: str, token: str) -> Answer:
    caller = cluster.server.network()
    headers = {"X-SLURM-USER-NAME": "alice", "X-SLURM-USER-TOKEN": token}
    caller.connection.request("GET", path, None, headers)
    return Answer(caller.connection.getresponse())


@pytest.mark.parametrize("version", ["v0.0.36", "v0.0.37", "v0.0.38"])
def test_a_token_of_scontrol_opens_the_paths_of_slurmrestd(cluster: Cluster, version: str) -> None:
    job = cluster.submit("-H")

    name, _, token = cluster.text("scontrol", "token", user="alice").strip().partition("=")

    answer = ask(cluster, f"/slurm/{version}/job/{job}", token)
    assert (name, answer.status) == ("SLURM_JWT", 200)
    assert [item["user_name"] for item in answer.json["jobs"]] == ["alice"]


@pytest.mark.parametrize(
    ("words", "stderr"),
    [
        (["username=bob"], "scontrol: error: token: Access/permission denied\n"),
        (["lifespan=0"], "lifespan=0 is not valid: 1 to 2678400 seconds\n"),
        (["lifespan=x"], "lifespan=x is not valid: 1 to 2678400 seconds\n"),
        (["color=red"], "Invalid option: `color=red`\n"),
    ],
)
def test_a_token_for_others_or_without_an_end_is_refused(
    cluster: Cluster, words: list[str], stderr: str
) -> None:
    answer = cluster.run("scontrol", "token", *words, user="alice")

    assert (answer.code, answer.stdout) == (1, "")
    assert answer.stderr.endswith(stderr)


def test_a_job_makes_no_token_that_outlives_its_own(cluster: Cluster) -> None:
    actor = Actor("alice", Access.USER, job=cluster.submit("-H"))
    request = CallRequest(program="scontrol", argv=("token",), actor=actor)
    call = Call(request, CallerLine(b""), cluster.server.context)

    answer = asyncio.run_coroutine_threadsafe(answer_to(call), cluster.server.loop).result(60)

    assert (answer.code, answer.stdout) == (1, "")
    assert answer.stderr == "scontrol: error: token: Access/permission denied\n"


def test_accounting_finds_jobs_by_what_they_asked_for_and_why_they_wait(cluster: Cluster) -> None:
    cluster.server.local().patch("/nodes/n2", {"labels": {"fast": ""}})
    job = cluster.submit("-H", "-C", "fast", "-J", "choosy")
    names = ("-nXP", "--name", "choosy", "-o", "jobid", "-S", "00:00")

    found = [
        cluster.text("sacct", *names, *words).split()
        for words in (["-C", "fast"], ["-C", "x"], ["-R", "JobHeldUser"], ["--reason=Priority"])
    ]
    refused = cluster.run("sacct", "-F", "SchedMain")

    assert found == [[str(job)], [], [str(job)], []]
    assert refused.code == 1
    assert refused.stderr.startswith("sacct: error: --flags is not possible here: ")
    cluster.text("scancel", str(job))
    cluster.server.local().patch("/nodes/n2", {"labels": {}})


def test_jobs_of_others_are_listed_without_ones_own(cluster: Cluster) -> None:
    mine, theirs = (cluster.submit("-H", "-J", "whose", user=name) for name in ("alice", "bob"))

    listed = cluster.text("squeue", "-h", "-n", "whose", "-o", "%i", "--notme", user="alice")

    assert listed.split() == [str(theirs)]
    cluster.text("scancel", str(mine), str(theirs))
