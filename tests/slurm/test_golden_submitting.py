"""The commands that submit and change jobs answer as a real Slurm answered."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, recorded_cluster
from tests.slurm.goldens import Golden, differences, read_golden, renamed
from tests.slurm.stage import set_the_stage
from tests.slurm.test_golden_showing import FOLDER, listed_differences

PROGRAMS = {"sbatch", "scancel", "scontrol", "srun", "salloc"}
#: Files of the recorded machine that the pretended caller does not have: see below.
FILES = {"err_sbatch_binary"}
#: These wait for jobs that really run: the tests with a real machine do that.
REAL = {"sbatch_wait_exit", "sbatch_wait_ok", "srun_exit", "srun_immediate", "srun_nocommand"}
#: What must have happened before, in the recorded story.
FIRST = {
    "scontrol_resume": (("scontrol", "suspend", "24"),),
    "scontrol_delete_reservation": (
        (
            *("scontrol", "create", "reservation", "reservationname=maint"),
            *("starttime=now+9hours", "duration=60", "users=root", "nodes=n2"),
        ),
    ),
}


def is_ours(golden: Golden) -> bool:
    if not golden.simple or golden.argv[0] not in PROGRAMS or golden.name in REAL | FILES:
        return False
    return golden.argv[0] != "scontrol" or not {"show", "ping"} & set(golden.argv)


def names() -> list[str]:
    paths = sorted(FOLDER.glob("*.txt")) if FOLDER.is_dir() else []
    return [path.stem for path in paths if is_ours(read_golden(path))]


@pytest.fixture(scope="module")
def stage(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Cluster, dict[str, str]]]:
    with recorded_cluster(tmp_path_factory.mktemp("box")) as cluster:
        yield cluster, set_the_stage(cluster)


def _ours(words: list[str] | tuple[str, ...], ids: dict[str, str]) -> list[str]:
    return [renamed(word, ids) if re.fullmatch(r"(\w+=)?[\d,_]+", word) else word for word in words]


@pytest.mark.parametrize("name", names())
def test_a_recorded_call_is_answered_alike_or_listed_as_different(
    name: str, stage: tuple[Cluster, dict[str, str]], shared_folder: Path
) -> None:
    cluster, ids = stage
    golden = read_golden(shared_folder / "slurm" / "golden" / f"{name}.txt")
    waiting = str(cluster.submit("-H", user="alice"))
    for theirs in ("39", "29", "32", "36"):
        ids[theirs] = waiting
    for words in FIRST.get(name, ()):
        assert cluster.run(*_ours(words, ids)).code == 0, words

    answer = cluster.run(*_ours(golden.argv, ids), user=golden.user)

    assert isinstance(answer.stdout, str)
    assert "internal error" not in answer.stderr
    found = differences(golden, answer.stdout, answer.stderr, answer.code)
    if name in listed_differences():
        assert found, f"{name} is listed as different and is not"
    else:
        assert not found


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("err_sbatch_dos", b"#!/bin/bash\r\ntrue\r\n"),
        ("err_sbatch_empty", b""),
        ("err_sbatch_binary", b"\x7fELF\x02\x01"),
    ],
)
def test_a_script_that_no_shell_could_run_is_refused_alike(
    name: str, script: bytes, stage: tuple[Cluster, dict[str, str]], shared_folder: Path
) -> None:
    golden = read_golden(shared_folder / "slurm" / "golden" / f"{name}.txt")

    answer = stage[0].run("sbatch", "/dev/stdin", stdin=script)

    assert (answer.stderr, answer.code) == (golden.stderr, golden.code)
