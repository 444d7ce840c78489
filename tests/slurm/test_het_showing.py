"""A heterogeneous job is listed group by group, and ended as a whole."""

import pytest

from tests.slurm.cluster import Cluster


@pytest.fixture
def het(cluster: Cluster) -> str:
    """A job of two groups that holds a node for each of them."""
    words = ("-J", "mixed", "-p", "main", "-n1", ":", "-n2", "--mem-per-cpu=100")
    job = cluster.submit(*words)
    cluster.start(job)
    return str(job)


def test_squeue_and_sacct_list_each_group_with_what_it_holds(cluster: Cluster, het: str) -> None:
    queue = cluster.text("squeue", "-h", "-j", het, "-o", "%i %C %t").split("\n")
    account = cluster.text("sacct", "-nPj", het, "-o", "jobid,alloccpus,state").split()

    assert sorted(queue) == ["", f"{het}+0 1 R", f"{het}+1 2 R"]
    assert account == [
        f"{het}+0|1|RUNNING",
        f"{het}+0.batch|1|RUNNING",
        f"{het}+0.extern|1|RUNNING",
        f"{het}+1|2|RUNNING",
        f"{het}+1.extern|2|RUNNING",
    ]


def test_scontrol_shows_each_group_and_which_one_it_is(cluster: Cluster, het: str) -> None:
    blocks = cluster.text("scontrol", "show", "job", het).strip().split("\n\n")

    for offset, block in enumerate(blocks):
        first, second, *_ = block.splitlines()
        assert first.split()[1:3] == [f"HetJobId={het}", f"HetJobOffset={offset}"]
        assert second.strip() == f"HetJobIdSet={het}"
    assert len(blocks) == 2


def test_a_group_can_be_asked_for_by_itself(cluster: Cluster, het: str) -> None:
    assert cluster.text("squeue", "-h", "-j", f"{het}+1", "-o", "%i") == f"{het}+1\n"
    assert cluster.text("sacct", "-nXPj", f"{het}+1", "-o", "jobid") == f"{het}+1\n"
    assert "HetJobOffset=1" in cluster.text("scontrol", "show", "job", f"{het}+1")


def test_a_group_is_not_cancelled_without_the_others(cluster: Cluster, het: str) -> None:
    alone = cluster.run("scancel", f"{het}+1")
    after = cluster.text("squeue", "-h", "-j", het, "-o", "%T").split()
    whole = cluster.run("scancel", f"{het}+0")

    why = "Operation not permitted on individual component of heterogeneous job"
    said = f"scancel: error: Kill job error on job id {het}+1: {why}\n"
    assert (alone.code, alone.stderr) == (60, said)
    assert after == ["RUNNING", "RUNNING"]
    assert whole.code == 0
    shown = cluster.text("squeue", "-h", "-j", het, "-o", "%T").split()
    assert shown == ["COMPLETING", "COMPLETING"]
