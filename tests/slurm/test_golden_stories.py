"""Recorded stories of several commands, and the proof that every recording is compared."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm import test_golden_output as outputs
from tests.slurm import test_golden_showing as showing
from tests.slurm import test_golden_submitting as submitting
from tests.slurm import test_rest as rest
from tests.slurm.cluster import Cluster, recorded_cluster
from tests.slurm.goldens import Golden, read_golden

STORIES = {
    *("sbatch_dep_arrays", "err_sbatch_qos_maxwall", "rest_db_post_association_result"),
    "rest_notoken",
}
#: Compared one by one, by name.
NAMED = {
    *("err_sbatch_binary", "err_sbatch_dos", "err_sbatch_empty", "squeue_letters"),
    *("err_down_controller", "err_sbatch_output_unwritable"),
}


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Cluster]:
    with recorded_cluster(tmp_path) as cluster:
        yield cluster


def recording(shared_folder: Path, name: str) -> Golden:
    return read_golden(shared_folder / "slurm" / "golden" / f"{name}.txt")


def test_every_recording_is_compared(shared_folder: Path) -> None:
    recorded = {path.stem for path in (shared_folder / "slurm" / "golden").glob("*.txt")}
    compared = {*showing.showing_goldens(), *submitting.names(), *rest.recorded_requests()}
    compared |= STORIES | NAMED | {f"sbatch_output_{name}" for name in outputs.OUTPUTS}
    compared |= set(outputs.CALLS)

    assert recorded - compared == set()


def test_dependencies_between_arrays_are_shown_like_the_recorded_ones(
    fresh: Cluster, shared_folder: Path
) -> None:
    golden = recording(shared_folder, "sbatch_dep_arrays")
    first = fresh.submit("-H", "--array=1-3")
    fresh.submit("-H", "-d", f"aftercorr:{first}", "--array=1-3")
    fresh.submit("-d", f"afternotok:{first}")

    header, *rows = fresh.text("squeue", "-o", "%i|%t|%E|%r").splitlines()

    assert header == golden.stdout.splitlines()[2]
    shown = {re.sub(r"\d+", "N", row.split("|")[2]) for row in rows}
    assert {"afternotok:N_*(unfulfilled)", "aftercorr:N_*(unfulfilled)"} <= shown


def test_an_account_made_here_is_listed_like_one_made_by_slurmrestd(
    fresh: Cluster, shared_folder: Path
) -> None:
    golden = recording(shared_folder, "rest_db_post_association_result")
    fresh.text("sacctmgr", "-i", "add", "account", "team-r", "GrpTRES=gres/gpu=3")
    fresh.text("sacctmgr", "-i", "add", "user", "root", "account=team-r")
    asked = re.search(r"format=\S+?(?=;)", golden.command)
    assert asked is not None

    words = ("-P", "show", "assoc", "account=team-r", asked[0])
    shown = fresh.text("sacctmgr", *words)
    made = fresh.text("sbatch", "-A", "team-r", "--wrap", "true")

    # Whoever posts an account names no parent; sacctmgr does.
    alike = (shown + made).replace("team-r||root|", "team-r|||")
    assert re.sub(r"\d+\n$", "87\n", alike) == golden.stdout


def test_a_caller_without_a_token_gets_the_recorded_answer(
    fresh: Cluster, shared_folder: Path
) -> None:
    golden = recording(shared_folder, "rest_notoken")
    connection = fresh.server.network().connection

    connection.request("GET", "/slurm/v0.0.38/jobs")
    answer = connection.getresponse()

    kind = answer.headers["Content-Type"].partition(";")[0]
    said = f"{answer.read().decode()}\nHTTP {answer.status} {kind}\n"
    assert said == golden.stdout


def test_a_qos_has_no_longest_time_as_the_documentation_says(
    fresh: Cluster, shared_folder: Path
) -> None:
    golden = recording(shared_folder, "err_sbatch_qos_maxwall")
    fresh.text("sacctmgr", "-i", "add", "qos", "capped")

    refused = fresh.run("sacctmgr", "-i", "modify", "qos", "capped", "set", "MaxWall=60")
    job = int(fresh.text("sbatch", "--parsable", "-q", "capped", "-t600", "--wrap", "true"))
    fresh.start(job)

    assert golden.stdout.splitlines()[1] == "QOSMaxWallDurationPerJobLimit"
    assert refused.code == 1
    assert fresh.text("squeue", "-h", "-j", str(job), "-o", "%r") == "None\n"
    assert golden.name in showing.listed_differences()
