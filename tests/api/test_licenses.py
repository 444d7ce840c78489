"""Licences: so many of each on the whole site, held by jobs while they have room."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.core.facts.states import JobState
from tests.slurm.cluster import Cluster, recorded_cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with recorded_cluster(tmp_path) as cluster:
        answer = cluster.server.local().patch(
            "/policy", {"rules": {"licenses": ["matlab:3", "ansys:1"]}}
        )
        assert answer.status == 200, answer.body
        yield cluster


def submitted(cluster: Cluster, *licenses: str) -> int:
    body = {"command": ["true"], "licenses": list(licenses)}
    answer = cluster.server.local().post("/jobs", body)
    assert answer.status == 201, answer.body
    return int(answer.json["id"])


def state(cluster: Cluster, job: int) -> JobState | None:
    return cluster.server.host.cluster.state_of(job)


def test_a_job_waits_for_a_licence_and_starts_when_one_is_given_back(cluster: Cluster) -> None:
    first, second, free = (
        submitted(cluster, "matlab:2"),
        submitted(cluster, "matlab:2"),
        submitted(cluster, "matlab"),
    )
    cluster.start(first)
    cluster.start(free)

    waiting = state(cluster, second)
    cluster.finish(first)
    cluster.start(second)

    assert waiting is JobState.QUEUED
    assert state(cluster, second) is JobState.RUNNING


def test_of_licences_that_are_in_use_beyond_what_there_is_none_is_free(cluster: Cluster) -> None:
    cluster.start(submitted(cluster, "matlab:3"))

    caller = cluster.server.local()
    caller.patch("/policy", {"rules": {"licenses": ["matlab:2", "ansys:1"]}})

    shown = cluster.text("scontrol", "show", "lic", "matlab")
    assert "Total=2 Used=3 Free=0 Reserved=0" in shown


def test_why_names_the_licence_that_is_short(cluster: Cluster) -> None:
    cluster.start(submitted(cluster, "matlab:2", "ansys"))
    second = submitted(cluster, "matlab:2")

    answer = cluster.server.local().get(f"/jobs/{second}/why").json

    assert "license matlab: 2 of 3 in use, 2 wanted" in str(answer)
    assert cluster.text("squeue", "-h", "-j", str(second), "-o", "%r") == "Licenses\n"


@pytest.mark.parametrize(
    ("license", "said"),
    [
        ("nosuch", "there is no licence nosuch here; known: ansys, matlab"),
        ("matlab:4", "4 of matlab wanted, and this site has 3"),
        ("matlab:x", "'matlab:x' is not valid; NAME or NAME:COUNT, such as matlab:2"),
        ("matlab:0", "'matlab:0' is not valid; NAME or NAME:COUNT, such as matlab:2"),
    ],
)
def test_licences_that_there_are_not_are_refused(license: str, said: str, cluster: Cluster) -> None:
    body = {"command": ["true"], "licenses": [license]}

    answer = cluster.server.local().post("/jobs", body)

    assert (answer.status, answer.json["detail"]) == (400, f"licenses: {said}")


def test_sbatch_counts_the_same_licences_and_scontrol_shows_them(cluster: Cluster) -> None:
    cluster.start(cluster.submit("-L", "matlab:2"))

    shown = cluster.text("scontrol", "show", "licenses")
    refused = cluster.run("sbatch", "-L", "nosuch", "--wrap", "true")

    assert "LicenseName=matlab\n    Total=3 Used=2 Free=1 Reserved=0 Remote=no\n" in shown
    assert "LicenseName=ansys\n    Total=1 Used=0 Free=1 Reserved=0 Remote=no\n" in shown
    said = "sbatch: error: Batch job submission failed: Invalid license specification\n"
    assert (refused.code, refused.stderr) == (1, said)


def test_the_licences_of_a_waiting_job_can_be_changed(cluster: Cluster) -> None:
    job = cluster.submit("-H", "-L", "matlab:2")

    cluster.text("scontrol", "update", f"jobid={job}", "licenses=ansys")

    assert cluster.job(job).spec.licenses == (("ansys", 1),)
    assert "Licenses=ansys" in cluster.text("scontrol", "show", "job", str(job))


def test_a_rule_that_is_no_count_is_refused(cluster: Cluster) -> None:
    answer = cluster.server.local().patch("/policy", {"rules": {"licenses": ["matlab:many"]}})

    assert answer.status == 400
    assert "expected NAME:COUNT" in answer.json["detail"]
