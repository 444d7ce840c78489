"""What a real Slurm 22.05.8 answered to the same calls, where that had been another answer."""

import pytest

from tests.slurm.cluster import Cluster

RULE = "-" * 80


@pytest.mark.parametrize(
    ("call", "code", "stdout", "stderr"),
    [
        ("sdiag -r", 0, "Reset scheduling statistics\n", ""),
        ("scontrol write", 1, "", "too few arguments for keyword:write\n"),
        ("scontrol write foo", 1, "", "invalid write argument:foo\n"),
        ("scontrol delete foo=bar", 1, "", "Invalid deletion entity: foo=bar\n"),
        (
            "scontrol delete reservation=nosuch",
            1,
            "",
            "delete_reservation reservation=nosuch: Requested reservation is invalid\n",
        ),
        ("scontrol hold name=nosuch", 0, "", ""),
        (
            "scontrol update partitionname=main state=foo",
            1,
            "",
            "scontrol: error: Invalid input: state=foo\n"
            "scontrol: error: Acceptable State values are UP, DOWN, DRAIN and INACTIVE\n"
            "slurm_update error: No error\n",
        ),
        (
            "scancel 99999.1",
            1,
            "",
            "scancel: error: Kill job error on job step id 99999.1: Invalid job id specified\n",
        ),
        ("scancel -Q 99999.1", 1, "", ""),
        (
            "sacct -B",
            1,
            "",
            "sacct: fatal: When requesting job scripts you must also request specific jobs with "
            "the '-j' option.\n",
        ),
        (
            "sbatch --mem=1 --mem-per-cpu=1 --wrap true",
            1,
            "",
            "sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.\n",
        ),
        (
            "srun --jobid=abc true",
            1,
            "",
            'srun: error: Invalid numeric value "abc" for --jobid.\n',
        ),
        ("srun --mpi=list", 0, "MPI plugin types are...\n\tnone\n", ""),
        ("sreport foo", 1, "", "invalid keyword: foo\n"),
        (
            "sreport cluster foo",
            1,
            "",
            'Not valid report foo\nValid cluster reports are, "AccountUtilizationByUser", '
            '"UserUtilizationByAccount", "UserUtilizationByWckey", "Utilization", and '
            '"WCKeyUtilizationByUser"\n',
        ),
        ("sreport cluster utilization format=foo", 1, "", " Unknown field 'foo'\n"),
    ],
)
def test_a_call_is_answered_in_the_same_words(
    call: str, code: int, stdout: str, stderr: str, cluster: Cluster
) -> None:
    program, *words = call.split()

    answer = cluster.run(program, *words)

    assert (answer.code, answer.stdout, answer.stderr) == (code, stdout, stderr)


@pytest.mark.parametrize("program", ["sbatch --wrap", "srun", "salloc"])
def test_a_job_for_another_cluster_is_refused(program: str, cluster: Cluster) -> None:
    name, *words = program.split()

    answer = cluster.run(name, "-M", "nosuch", *words, "true")

    assert answer.code == 1
    assert answer.stderr.startswith(f"{name}: error: No cluster 'nosuch' known by database.\n")


def test_memory_in_the_script_and_on_the_command_line_exclude_each_other(
    cluster: Cluster,
) -> None:
    script = b"#!/bin/sh\n#SBATCH --mem-per-cpu=10\ntrue\n"

    named = cluster.run("sbatch", "--mem=100", stdin=script)
    variable = cluster.run(
        "sbatch", "--mem=100", "-H", "--wrap", "true", env={"SBATCH_MEM_PER_CPU": "10"}
    )

    assert named.stderr.startswith("sbatch: fatal: --mem, --mem-per-cpu,")
    assert variable.code == 0


def test_squeue_shows_the_step_that_is_named_and_no_other(cluster: Cluster) -> None:
    job = cluster.submit("-t", "5")
    cluster.start(job)

    def steps(ref: str) -> str:
        return cluster.text("squeue", "-h", "-s", ref, "-o", "%i|%l|%b")

    assert steps(f"{job}.batch") == f"{job}.batch|UNLIMITED|(null)\n"
    assert steps(f"{job}.9") == ""


def test_squeue_knows_every_field_of_steps(cluster: Cluster) -> None:
    job = cluster.submit("-t", "5")
    cluster.start(job)
    fields = "stepid:|,cpufreq:|,resvports:|,tres-per-step:|,arrayjobid:|,arraytaskid"

    answer = cluster.run("squeue", "-h", "-s", f"{job}.batch", "-O", fields)

    assert answer.stderr == ""
    assert str(answer.stdout).split() == [f"{job}.batch|0-0:0|(null)|(null)|N/A|N/A"]


def test_an_element_that_an_array_has_not_is_no_unknown_job(cluster: Cluster) -> None:
    job = cluster.submit("-H", "--array=0-3")

    queue = cluster.run("squeue", "-h", "-j", f"{job}_9")
    block = cluster.run("scontrol", "show", "job", f"{job}_9")

    assert (queue.code, queue.stdout, queue.stderr) == (0, "", "")
    assert (block.code, block.stdout) == (1, f"Job {job}_9 not found\n")


@pytest.mark.parametrize("entity", ["user", "account", "assoc", "qos", "cluster", "tres"])
def test_every_table_of_sacctmgr_takes_every_field(entity: str, cluster: Cluster) -> None:
    fields = "user,name,account,share,id,maxsubmitjobsperuser,maxwall,description,lft,qosraw"

    lines = cluster.text("sacctmgr", "-P", "show", entity, f"format={fields}").splitlines()

    assert lines[0] == "User|Name|Account|Share|ID|MaxSubmitPU|MaxWall|Descr|LFT|QOS_RAW"


def test_sacctmgr_shows_trees_coordinators_and_shares_of_licences(cluster: Cluster) -> None:
    tree = cluster.text("sacctmgr", "show", "assoc", "tree", "format=account,user").splitlines()
    people = cluster.text("sacctmgr", "-P", "show", "user", "withcoord").splitlines()
    licences = cluster.text("sacctmgr", "show", "resource").splitlines()

    assert tree[1] == f"{'-' * 20} {'-' * 10} "
    assert people[0].endswith("|Coord Accounts")
    assert licences[0].split() == [
        "Name",
        "Server",
        "Type",
        "Count",
        "%",
        "Allocated",
        "ServerType",
    ]


def test_reports_have_their_titles_units_and_columns(cluster: Cluster) -> None:
    job = cluster.submit("-t", "5", "-n2")
    cluster.finish(job)
    window = ("start=now-1hour", "end=now+1hour")

    def report(*words: str) -> list[str]:
        return cluster.text("sreport", *words, *window).splitlines()

    plain = report("cluster", "utilization")
    percent = report("-P", "-t", "percent", "cluster", "utilization")
    both = report("-t", "hourper", "cluster", "utilization")
    by_user = report("-P", "-t", "seconds", "cluster", "userutilizationbyaccount")
    named = report("-nP", "-t", "percent", "cluster", "accountutil", "format=login,used")
    kinds = report("-P", "-T", "cpu,gres/gpu", "cluster", "utilization", "format=tresname")
    sizes = report("-nP", "job", "sizesbyaccount", "printjobcount", "grouping=2")

    assert plain[4] == "  Cluster Allocate     Down PLND Dow     Idle  Planned Reported "
    assert percent[2] == "Usage reported in Percentage of Total"
    assert percent[5].endswith("|100.00%")
    assert both[2] == "Usage reported in CPU Hours/Percentage of Total"
    assert both[6].count("%)") == 6
    assert by_user[1].startswith("Cluster/User/Account Utilization ")
    assert by_user[4] == "Cluster|Login|Proper Name|Account|Used|Energy"
    assert [line.split("|")[0] for line in named] == ["", "alice"]
    assert kinds[4:] == ["TRES Name", "cpu", "gres/gpu"]
    assert kinds[2] == "Usage reported in TRES Minutes"
    assert sum(int(line.split("|")[3]) for line in sizes) >= 1


def test_top_users_are_so_many_and_a_unit_that_is_none_is_told(cluster: Cluster) -> None:
    top = cluster.text("sreport", "user", "top", "topcount=3").splitlines()
    odd = cluster.run("sreport", "-t", "foo", "cluster", "utilization")

    assert top[1].startswith("Top 3 Users ")
    assert (odd.code, odd.stderr) == (0, "unknown time format foo\n")


def test_words_that_are_no_options_mean_nothing_to_sinfo(cluster: Cluster) -> None:
    assert cluster.text("sinfo", "foo", "-h") == cluster.text("sinfo", "-h")


def test_an_unknown_user_is_told_by_sprio(cluster: Cluster) -> None:
    answer = cluster.run("sprio", "-u", "nosuch")

    assert (answer.code, answer.stderr) == (0, "sprio: error: Invalid user: nosuch\n")
