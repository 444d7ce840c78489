"""What the showing commands say about a cluster on which known jobs wait, run and have ended."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, recorded_cluster

FORMAT = "%i|%j|%T|%r|%N"


def shown(cluster: Cluster, job_id: object, *words: str) -> list[str]:
    """The fields of one line of squeue."""
    text = cluster.text("squeue", "-h", "-t", "all", "-j", str(job_id), "-o", FORMAT, *words)
    return text.strip().split("|")


def test_a_job_is_known_to_squeue_and_sacct_the_moment_sbatch_returned(cluster: Cluster) -> None:
    job = cluster.submit("-H", "-J", "fresh", "-t", "5")

    queued = shown(cluster, job)
    account = cluster.text("sacct", "-nXP", "-j", str(job), "-o", "jobid,state,timelimit,nodelist")

    assert queued == [str(job), "fresh", "PENDING", "JobHeldUser", ""]
    assert account == f"{job}|PENDING|00:05:00|None assigned\n"


def test_an_ended_job_leaves_the_default_list_but_stays_with_all_states(cluster: Cluster) -> None:
    job = cluster.submit("-J", "short", "-t", "5")
    cluster.finish(job, code=3)

    usual = cluster.text("squeue", "-h", "-o", "%i")
    steps = cluster.text("sacct", "-nP", "-j", str(job), "-o", "jobid,state,exitcode,maxrss")

    assert str(job) not in usual.split()
    assert shown(cluster, job)[2:4] == ["FAILED", "NonZeroExitCode"]
    assert steps.splitlines() == [
        f"{job}|FAILED|3:0|",
        f"{job}.batch|FAILED|3:0|12M",
        f"{job}.extern|COMPLETED|0:0|0",
    ]


def test_a_signal_stands_behind_the_colon_of_the_exit_code(cluster: Cluster) -> None:
    job = cluster.submit("-t", "5")
    cluster.finish(job, signal=11)

    text = cluster.text("sacct", "-nXP", "-j", str(job), "-o", "state,exitcode")

    assert text == "FAILED|0:11\n"


def test_a_cancelled_job_names_who_cancelled_it(cluster: Cluster) -> None:
    job = cluster.submit("-H")
    cluster.text("scancel", str(job))

    text = cluster.text("sacct", "-nXP", "-j", str(job), "-o", "state,start,nodelist")

    assert text == "CANCELLED by 0|None|None assigned\n"
    assert shown(cluster, job)[2:4] == ["CANCELLED", "None"]


def test_an_array_is_one_line_for_what_waits_and_one_for_each_that_runs(cluster: Cluster) -> None:
    array = cluster.submit("--array=0-5%2", "-t", "5")
    cluster.start(array + 1)
    cluster.start(array + 2)

    together = cluster.text("squeue", "-h", "-j", str(array), "-o", "%i %t %K %F %A").splitlines()
    split = cluster.text("squeue", "-hr", "-j", str(array), "-o", "%i").split()
    one = cluster.text("squeue", "-h", "-j", f"{array}_4", "-o", "%i %t").strip()
    account = cluster.text("sacct", "-nXP", "-j", str(array), "-o", "jobid,jobidraw").splitlines()

    assert together[0] == f"{array}_[2-5%2] PD 2-5%2 {array} {array}"
    assert together[1:] == [f"{array}_{n} R {n} {array} {array + 1 + n}" for n in (0, 1)]
    assert sorted(split) == [f"{array}_{n}" for n in range(6)]
    assert one == f"{array}_4 PD"
    assert account[0] == f"{array}_0|{array + 1}"
    assert account[-1] == f"{array}_[2-5%2]|{array}"
    cluster.text("scancel", str(array))


def test_the_rest_of_a_cancelled_array_is_told_for_all_and_for_each(cluster: Cluster) -> None:
    array = cluster.submit("-H", "--array=1-3")
    cluster.text("scancel", str(array))

    whole = cluster.text("sacct", "-nXP", "-j", str(array), "-o", "jobid,state")
    one = cluster.text("sacct", "-nXP", "-j", f"{array}_2", "-o", "jobid,state")

    assert whole == f"{array}_[1-3]|CANCELLED by 0\n"
    assert one == f"{array}_2|CANCELLED by 0\n"


def test_a_dependency_is_told_with_what_it_waits_for(cluster: Cluster) -> None:
    parent = cluster.submit("-H")
    child = cluster.submit("-d", f"afterok:{parent}")

    line = cluster.text("squeue", "-h", "-j", str(child), "-o", "%E|%r")

    assert line == f"afterok:{parent}(unfulfilled)|Dependency\n"


def test_jobs_are_chosen_by_user_name_partition_state_and_node(cluster: Cluster) -> None:
    mine = cluster.submit("-H", "-p", "short", "-J", "mine", user="bob")
    running = cluster.submit("-J", "there", "-t", "5", user="bob")
    cluster.start(running)
    node = cluster.job(running).round[0].allocation.node

    def chosen(*words: str, user: str = "root") -> list[str]:
        return cluster.text("squeue", "-h", "-o", "%A", *words, user=user).split()

    assert set(chosen("-u", "bob")) == set(chosen("--me", user="bob")) == {str(mine), str(running)}
    assert chosen("-u", "bob", "-p", "short") == chosen("-n", "mine") == [str(mine)]
    assert chosen("-u", "bob", "-t", "r") == chosen("-u", "bob", "-w", node) == [str(running)]
    cluster.finish(running)


def test_other_people_see_a_job_but_not_its_folder_or_line(cluster: Cluster) -> None:
    job = cluster.submit("-H", "--comment=private", user="alice")

    theirs = cluster.text("squeue", "-h", "-j", str(job), "-o", "%u|%Z|%k", user="bob")
    own = cluster.text("squeue", "-h", "-j", str(job), "-o", "%u|%Z|%k", user="alice")
    line = cluster.text("sacct", "-nXP", "-j", str(job), "-o", "submitline,workdir", user="bob")

    assert theirs == "alice||(null)\n"
    assert own == "alice|/tmp/demo|private\n"
    assert line == "|\n"


def test_variables_stand_in_for_options_and_options_overrule_them(cluster: Cluster) -> None:
    cluster.submit("-H", "-J", "formatted")
    env = {"SQUEUE_FORMAT": "%j", "SQUEUE_NAMES": "formatted"}

    plain = cluster.text("squeue", env=env)
    named = cluster.text("squeue", "-h", "-o", "%T", env=env)

    assert plain == "NAME\nformatted\n"
    assert named == "PENDING\n"


def test_every_word_of_a_job_on_one_line_holds_an_equals_sign(cluster: Cluster) -> None:
    job = cluster.submit("-H", "--gres=gpu:1", "-J", "plain")

    words = cluster.text("scontrol", "-o", "show", "job", str(job)).split()

    assert all("=" in word for word in words)
    assert "TresPerNode=gres:gpu:1" in words


def test_nodes_tell_what_is_held_on_them(cluster: Cluster) -> None:
    job = cluster.submit("--gres=gpu:3", "-n3", "-w", "n2", "-t", "5")
    cluster.start(job)

    fields = "nodelist:|,cpusstate:|,gresused:|,statelong:"
    line = cluster.text("sinfo", "-h", "-N", "-p", "main", "-n", "n2", "-O", fields)
    block = cluster.text("scontrol", "show", "node", "n2")
    held = cluster.text("scontrol", "-d", "show", "job", str(job))

    assert line == "n2|3/1/0/4|gpu:h200:3(IDX:0-2)|mixed\n"
    assert "AllocTRES=cpu=3,gres/gpu=3,gres/gpu:h200=3\n" in block
    assert "GRES=gpu:h200:3(IDX:0-2)" in held
    cluster.finish(job)


def test_json_of_a_running_job_holds_what_it_holds(cluster: Cluster) -> None:
    job = cluster.submit("--mem=100", "-t", "7", "-J", "json")
    cluster.start(job)

    document = json.loads(cluster.text("squeue", "--json", "-j", str(job)))["jobs"][0]
    account = json.loads(cluster.text("sacct", "--json", "-j", str(job)))["jobs"][0]

    assert (document["job_state"], document["time_limit"], document["name"]) == (
        "RUNNING",
        7,
        "json",
    )
    assert document["job_resources"]["allocated_nodes"][0]["memory_allocated"] == 100
    assert account["state"]["current"] == "RUNNING"
    assert [step["step"]["id"] for step in account["steps"]] == ["batch", "extern"]
    cluster.finish(job)


def test_configuration_holds_the_lines_that_clients_look_for(cluster: Cluster) -> None:
    text = cluster.text("scontrol", "show", "config")

    assert "MinJobAge               = 300 sec\n" in text
    assert "ClusterName             = rota\n" in text
    assert "SLURM_VERSION           = 22.05.8\n" in text


def test_an_account_is_made_limited_used_and_removed(cluster: Cluster) -> None:
    cluster.text("sacctmgr", "-i", "add", "account", "lab", "parent=main")
    cluster.text("sacctmgr", "-i", "modify", "account", "lab", "set", "GrpTRES=gres/gpu=4,cpu=8")

    shown_limits = cluster.text(
        *("sacctmgr", "-nP", "show", "assoc", "account=lab", "user=", "format=account,grptres")
    )
    held = cluster.server.host.cluster.accounts.projects["lab"].quota.hard
    again = cluster.run("sacctmgr", "-i", "add", "account", "lab")
    cluster.text("sacctmgr", "-i", "delete", "account", "lab")

    assert shown_limits == "lab|cpu=8,gres/gpu=4\n"
    assert (held.cpu_milli, held.device_milli) == (8000, 4000)
    assert (again.code, again.stdout) == (1, " Nothing new added.\n")
    assert "lab" not in cluster.server.host.cluster.accounts.projects


def test_a_qos_is_a_queue_that_jobs_may_name(cluster: Cluster) -> None:
    cluster.text("sacctmgr", "-i", "add", "qos", "slow", "MaxJobsPU=2", "Priority=20")

    job = cluster.submit("-H", "--qos=slow")
    listed = cluster.text(
        "sacctmgr", "-nP", "show", "qos", "slow", "format=name,priority,maxjobspu"
    )

    assert cluster.job(job).spec.queue == "slow"
    assert listed == "slow|20|2\n"


def test_without_immediate_a_change_waits_for_a_yes(cluster: Cluster) -> None:
    no = cluster.run("sacctmgr", "add", "account", "maybe", stdin=b"n\n")
    after_no = "maybe" in cluster.server.host.cluster.accounts.projects
    cluster.run("sacctmgr", "add", "account", "maybe", stdin=b"y\n")

    assert no.stdout == "\n Changes Discarded\n"
    assert not after_no
    assert "maybe" in cluster.server.host.cluster.accounts.projects


def test_a_user_may_change_no_accounts(cluster: Cluster) -> None:
    answer = cluster.run(
        "sacctmgr", "-i", "modify", "account", "main", "set", "fairshare=9", user="bob"
    )

    assert answer.code == 1
    assert answer.stderr == " Problem modifying accounts: Access/permission denied\n"


@pytest.mark.parametrize(
    ("words", "stderr"),
    [
        (("squeue", "-S", "foo"), "squeue: error: Invalid sort specification: o\n"),
        (("squeue", "-w", "nope"), "squeue: error: Invalid node name nope\n"),
        (("squeue", "more"), "squeue: error: Unrecognized option: more\n"),
        (("sacct", "-s", "bogus"), "sacct: fatal: unrecognized job state value 'bogus'\n"),
        (("sacct", "-o", "bogus"), 'sacct: error: Invalid field requested: "bogus"\n'),
        (("sacct", "-1"), "sacct: invalid option -- '1'\n"),
        (("sacct", "-u", "nosuch"), "sacct: error: Invalid user id: nosuch\n"),
        (("sacctmgr", "show", "assoc", "format=bogus"), "Unknown field 'bogus'\n"),
        (("scontrol", "show"), "too few arguments for keyword:show\n"),
        (("sstat",), "sstat: error: You didn't give me any jobs to stat.\n"),
    ],
)
def test_a_bad_word_is_refused_in_slurms_words(
    cluster: Cluster, words: tuple[str, ...], stderr: str
) -> None:
    answer = cluster.run(*words)

    assert (answer.code, answer.stderr) == (1, stderr)


def test_a_requeued_job_shows_its_earlier_round_only_with_duplicates(cluster: Cluster) -> None:
    job = cluster.submit("-t", "5", "-J", "twice")
    ((agent, uid),) = cluster.start(job)
    cluster.text("scontrol", "requeue", str(job))
    agent.stopping(uid)
    agent.report_end(uid, code=143)
    cluster.until(lambda: len(cluster.job(job).tasks[0].attempts) == 2)

    def states(*words: str) -> list[str]:
        return cluster.text("sacct", "-nXP", "-j", str(job), "-o", "state", *words).split()

    assert states("-D")[0] == "REQUEUED"
    assert len(states("-D")) == 2
    assert len(states()) == 1
    assert cluster.text("squeue", "-h", "-j", str(job), "-O", "restartcnt:").strip() == "1"
    cluster.finish(job)


def test_accounting_keeps_to_the_window_the_states_and_the_units(cluster: Cluster) -> None:
    job = cluster.submit("--mem=1000", "-t", "5", "-J", "windowed")
    cluster.finish(job)

    def lines(*words: str) -> list[str]:
        command = ("sacct", "-nXP", "-o", "jobid,reqmem", "--name", "windowed")
        return cluster.text(*command, *words).splitlines()

    assert lines("-S", "now-1hour") == lines() == [f"{job}|1000M"]
    assert lines("-S", "now-2hours", "-E", "now-1hour") == []
    assert lines("-s", "F", "-S", "now-1hour", "-E", "now") == []
    assert lines("-s", "cd", "-S", "now-1hour", "-E", "now", "--units=G") == [f"{job}|0.98G"]


def test_states_and_a_begin_alone_mean_that_moment(cluster: Cluster) -> None:
    """As Slurm has it: with ``-s`` the end is the begin where only that is named."""
    job = cluster.submit("-t", "5", "-J", "momentary")
    cluster.finish(job)
    words = ("sacct", "-nXP", "-o", "jobid", "--name", "momentary", "-S", "now-1hour", "-s", "cd")

    assert cluster.text(*words) == cluster.text(*words, "-j", str(job)) == ""
    assert cluster.text(*words, "-E", "now") == f"{job}\n"


def test_a_suspended_job_says_so(cluster: Cluster) -> None:
    job = cluster.submit("-t", "5")
    cluster.start(job)
    cluster.text("scontrol", "suspend", str(job))

    line = cluster.text("squeue", "-h", "-j", str(job), "-o", "%t %T")

    assert line == "S SUSPENDED\n"
    cluster.text("scontrol", "resume", str(job))
    cluster.finish(job)


@pytest.fixture
def empty_cluster(tmp_path: Path) -> Iterator[Cluster]:
    with recorded_cluster(tmp_path) as running:
        yield running


def test_a_waiting_job_says_when_and_where_it_is_to_start(empty_cluster: Cluster) -> None:
    for node in ("n1", "n2", "n3", "n4"):
        empty_cluster.start(empty_cluster.submit("-n4", "-w", node, "-t", "5"))
    waiting = empty_cluster.submit("-n4", "-t", "5", "-J", "next")

    line = empty_cluster.text("squeue", "-h", "-j", str(waiting), "-o", "%S|%Y|%r").strip()

    start, where, reason = line.split("|")
    assert start != "N/A"
    assert where in ("n1", "n2", "n3", "n4")
    assert reason == "Resources"


def test_the_accounts_that_a_user_is_told_can_be_submitted_with(cluster: Cluster) -> None:
    cluster.submit("-H", user="bob")

    shares = cluster.text("sshare", "-U", "--format", "Account%20", "--noheader", user="bob")
    users = cluster.text("sacctmgr", "-ns", "list", "user", "bob", "format=account%20", user="bob")
    told = {*shares.split(), *users.split()}

    assert "main" in told
    for account in told:
        cluster.submit("-H", "-A", account, user="bob")


def test_a_table_of_id_user_state_and_gpus_is_printed_as_asked_for(cluster: Cluster) -> None:
    job = cluster.submit("-H", "--gres=gpu:2", "-J", "gpus", user="bob")

    table = cluster.text("squeue", "-n", "gpus", "-o", "%.6i %8u %9T %b").splitlines()

    assert table == [
        " JOBID USER     STATE     TRES_PER_NODE",
        f"{job:>6} bob      PENDING   gres:gpu:2",
    ]


def test_an_element_of_a_job_that_is_no_array_names_nobody(cluster: Cluster) -> None:
    job = cluster.submit("-H")

    shown_as_element = cluster.run("squeue", "-j", f"{job}_7")
    cluster.run("scancel", f"{job}_7")
    cluster.run("scontrol", "release", f"{job}_7")

    block = cluster.run("scontrol", "show", "job", f"{job}_7")

    assert (shown_as_element.code, str(shown_as_element.stdout).count("\n")) == (0, 1)
    assert (block.code, block.stdout) == (1, f"Job {job}_7 not found\n")
    assert shown(cluster, job)[2:4] == ["PENDING", "JobHeldUser"]


def test_a_heterogeneous_job_is_a_line_for_each_of_its_groups(cluster: Cluster) -> None:
    words = ("-H", "-n1", "-J", "het", ":", "-n2", "--gres=gpu:1", "--wrap", "true")
    job = cluster.text("sbatch", "--parsable", *words, user="alice").strip()

    lines = cluster.text("squeue", "-h", "-j", job, "-o", "%i %C %b").splitlines()
    second = cluster.text("sacct", "-nXP", "-j", f"{job}+1", "-o", "jobid,state")
    block = cluster.text("scontrol", "-o", "show", "job", job)

    assert sorted(lines) == [f"{job}+0 1 N/A", f"{job}+1 2 gres:gpu:1"]
    assert second == f"{job}+1|PENDING\n"
    assert block.count(f"HetJobId={job} ") == 2
