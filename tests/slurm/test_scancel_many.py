"""``scancel`` by filters: what it chooses of arrays, and that many jobs end at once."""

import pytest

from tests.slurm.cluster import Cluster

MANY = 100_000


@pytest.mark.parametrize("by_number", [False, True])
def test_waiting_elements_of_an_array_are_ended_together_and_running_ones_stay(
    by_number: bool, cluster: Cluster
) -> None:
    array = cluster.submit("-J", "large", f"--array=1-{MANY}%1")
    cluster.start(array + 1)

    cluster.text("scancel", "-t", "PD", *([str(array)] if by_number else ["-n", "large"]))

    assert cluster.text("squeue", "-h", "-n", "large", "-o", "%K %T") == "1 RUNNING\n"
    cluster.finish(array + 1)


def test_a_filter_by_another_name_ends_no_element(cluster: Cluster) -> None:
    array = cluster.submit("-H", "-J", "small", "--array=1-3")

    cluster.text("scancel", "-n", "other", str(array))
    cluster.text("scancel", "-t", "R", str(array))
    left = cluster.text("squeue", "-h", "-r", "-n", "small", "-o", "%K")
    cluster.text("scancel", "-v", "-n", "small", str(array))

    assert left.split() == ["1", "2", "3"]
    assert cluster.text("squeue", "-h", "-n", "small") == ""
