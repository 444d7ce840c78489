"""Keywords, options and tables that monitors and site tools ask for, in the words of Slurm."""

import json

import pytest

from tests.slurm.cluster import Cluster


@pytest.mark.parametrize(
    ("call", "code", "said"),
    [
        ("scancel -u nosuch", 1, "scancel: error: Invalid user name: nosuch\n"),
        ("scontrol create", 1, "too few arguments for create keyword\n"),
        ("scontrol create foo", 1, "scontrol: error: Invalid creation entity: foo\n"),
        ("scontrol notify 99999 hello", 1, "job notify failure: Invalid job id specified\n"),
        ("scontrol update", 1, "too few arguments for update keyword\n"),
        ("scontrol wait_job 99999", 1, "scontrol: Problem running job 99999\n"),
        ("squeue -s 1", 1, "squeue: error: Invalid job_step id: 1.??\n"),
        ("squeue -w nosuch", 1, "squeue: error: Invalid node name nosuch\n"),
        (
            "sacct -S 2026-01-02 -E 2026-01-01",
            1,
            "sacct: error: Start time (2026-01-02T00:00:00) requested is after end time "
            "(2026-01-01T00:00:00).\n",
        ),
        (
            "sacct --units=1",
            1,
            "sacct: error: Invalid unit type '1'. Possible options are 'KMGTP'\n",
        ),
        (
            "sacct --whole-hetjob=1",
            1,
            'sacct: error: Invalid --whole-hetjob value "1". Valid values: [yes|no].\n',
        ),
    ],
)
def test_a_mistake_is_told_in_the_words_of_slurm(
    call: str, code: int, said: str, cluster: Cluster
) -> None:
    program, *words = call.split()

    answer = cluster.run(program, *words)

    assert (answer.code, answer.stderr) == (code, said)


@pytest.mark.parametrize(
    ("call", "first"),
    [
        ("scontrol version", "slurm-wlm 22.05.8"),
        ("scontrol completing", ""),
        ("scontrol show aliases", "n1 n2 n3 n4"),
        ("squeue --priority -h", ""),
        ("squeue -s -o %A|%b|%U", "TASKS|TRES_PER_JOB|UID"),
        ("sacctmgr show federation", "Federation    Cluster ID             Features     FedState "),
        ("sacctmgr show wckey", "     WCKey    Cluster       User "),
        ("sacctmgr show runawayjobs", "Runaway Jobs: No runaway jobs found on cluster rota"),
        (
            "sprio -u root",
            "          JOBID PARTITION     USER   PRIORITY       SITE        AGE  FAIRSHARE"
            "    JOBSIZE  PARTITION        QOS",
        ),
        (
            "sprio -n",
            "          JOBID PARTITION PRIORITY   AGE        FAIRSHARE  JOBSIZE    PARTITION"
            "  QOS       ",
        ),
        (
            "sshare -m",
            "Account                    User    Partition  RawShares  NormShares    RawUsage"
            "  EffectvUsage  FairShare ",
        ),
        ("sprio -h --jobs", ""),
        ("sprio -h --jobs 99999", "Unable to find jobs matching user/id(s) specified"),
        ("sshare -e", "Account           Cluster           EffectvUsage      FairShare        "),
        ("sstat -i -j 99999", "JobID                    Nodelist                 Pids "),
    ],
)
def test_a_call_begins_its_answer_as_slurm_does(call: str, first: str, cluster: Cluster) -> None:
    program, *words = call.split()

    assert cluster.text(program, *words).split("\n")[0] == first


def test_a_partition_is_created_used_and_deleted(cluster: Cluster) -> None:
    cluster.text("scontrol", "create", "partitionname=extra", "state=down", "nodes=ALL")
    job = cluster.submit("-p", "extra")
    shown = cluster.text("scontrol", "-o", "show", "partition", "extra")
    again = cluster.run("scontrol", "create", "partitionname=extra")
    busy = cluster.run("scontrol", "delete", "partitionname=extra")
    cluster.text("scancel", str(job))
    denied = cluster.run("scontrol", "delete", "partitionname=extra", user="alice")
    cluster.text("scontrol", "delete", "partitionname=extra")

    assert "State=DOWN" in shown
    assert again.stderr == "Error creating the partition: Invalid partition name specified\n"
    assert busy.stderr.endswith("queue extra is the default or still has jobs\n")
    assert denied.stderr.endswith("Access/permission denied\n")
    gone = cluster.run("scontrol", "delete", "partitionname=extra")
    assert gone.stderr.endswith("partitionname=extra: Invalid partition name specified\n")


@pytest.mark.parametrize("word", ["nodes=n1", "maxtime=5"])
def test_a_partition_with_nodes_or_limits_of_its_own_is_refused(
    word: str, cluster: Cluster
) -> None:
    answer = cluster.run("scontrol", "create", "partitionname=narrow", word)

    assert answer.code == 1
    assert "narrow" not in cluster.text("sinfo", "-h", "-o", "%R")


def test_scontrol_waits_until_a_job_has_its_nodes(cluster: Cluster) -> None:
    job = cluster.submit("-J", "ready")
    cluster.start(job)

    answer = cluster.run("scontrol", "wait_job", str(job))

    assert (answer.code, answer.stderr) == (0, f"scontrol: Job {job} is ready for use\n")
    cluster.finish(job)


def test_nothing_deleted_is_told_on_standard_output(cluster: Cluster) -> None:
    answer = cluster.run("sacctmgr", "-i", "delete", "user", "nosuch")

    assert (answer.code, answer.stdout, answer.stderr) == (1, " Nothing deleted\n", "")


def test_steps_in_a_document_tell_what_they_used(cluster: Cluster) -> None:
    job = cluster.submit("-J", "measured")
    cluster.finish(job)

    document = json.loads(cluster.text("sacct", "--json", "-j", str(job)))

    step = next(one for one in document["jobs"][0]["steps"] if one["step"]["id"] == "batch")
    used = {one["type"]: one["count"] for one in step["tres"]["requested"]["max"]}
    assert used == {"cpu": 250, "mem": 12 << 20}


def test_sbatch_tells_which_resources_there_are_and_takes_the_top(cluster: Cluster) -> None:
    told = cluster.text("sbatch", "--gres=help")
    job = cluster.submit("-H", "--priority=TOP", user="root")

    assert told == "Valid gres options are:\ngpu[[:type]:count]\n"
    assert cluster.job(job).spec.priority == 100
    cluster.text("scancel", str(job))
