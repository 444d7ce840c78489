"""``sbcast``: a file comes to the nodes of a job, or it is said why not."""

import subprocess
from pathlib import Path

import pytest

from rota.slurm.submit.sbcast import _COPY
from tests.journeys.box import until
from tests.slurm.real import Slurm

pytestmark = pytest.mark.slow


def test_a_file_of_any_bytes_is_copied_and_no_step_is_listed(either: Slurm) -> None:
    body = bytes(range(256)) * 4096
    (either.work / "source").write_bytes(body)

    printed = either.script(f"sbcast source {either.work}/copy; echo $?; srun echo $SLURM_JOB_ID")

    code, job = printed.split()
    assert code == "0"
    assert (either.work / "copy").read_bytes() == body
    assert [path.name for path in either.work.glob("copy*")] == ["copy"]
    listed = either.text("sacct", "-n", "-P", "-o", "jobid", "-j", job).split()
    assert listed == [job, f"{job}.batch", f"{job}.extern", f"{job}.0"]


def test_nobody_knows_beforehand_where_a_copy_begins(tmp_path: Path) -> None:
    planted = tmp_path / "of another user"
    copy = ["/bin/sh", "-c", _COPY, "sbcast", tmp_path / "copy", "0", "644", ""]
    # The number of the process is that of the shell before it.
    plant = 'ln -s "$0" "$1.sbcast.$$"; shift; exec "$@"'

    subprocess.run(
        ["/bin/sh", "-c", plant, planted, tmp_path / "copy", *copy], input=b"secret", check=True
    )

    assert not planted.exists()
    assert (tmp_path / "copy").read_bytes() == b"secret"
    assert not (tmp_path / "copy").is_symlink()


def test_a_file_that_is_there_is_replaced_only_by_force(slurm: Slurm) -> None:
    (slurm.work / "source").write_text("new")
    (slurm.work / "copy").write_text("old")

    printed = slurm.script(
        "sbcast source copy; echo $?; cat copy; echo; sbcast -f source copy; echo $?; cat copy"
    )

    assert printed.splitlines() == [
        "sbcast: error: REQUEST_FILE_BCAST(box): File exists",
        *("17", "old", "0", "new"),
    ]


def test_mode_and_time_are_kept_where_that_is_wanted(slurm: Slurm) -> None:
    source = slurm.work / "source"
    source.write_text("#!/bin/sh\n")
    source.chmod(0o750)

    slurm.script("touch -d @1000000000 source; sbcast -p source copy")

    made = (slurm.work / "copy").stat()
    assert (made.st_mode & 0o777, made.st_mtime) == (0o750, 1000000000)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("nosuch copy", 255, "Can't open `nosuch`: No such file or directory"),
        ("source /no/such/place", 2, "REQUEST_FILE_BCAST(box): No such file or directory"),
        ("source", 1, "Need two file names, have 1 names"),
        ("-j 99999 source copy", 1, "Slurm job ID 99999 lookup error: Invalid job id specified"),
    ],
)
def test_what_cannot_be_copied_is_told_as_slurm_tells_it(
    words: str, code: int, said: str, slurm: Slurm
) -> None:
    (slurm.work / "source").write_text("x")

    printed = slurm.script(f"sbcast {words}; echo $?")

    assert printed.splitlines()[-1] == str(code)
    assert said in printed


def test_outside_of_a_job_one_must_be_named(slurm: Slurm) -> None:
    done = slurm.run("sbcast", "source", "copy")

    assert done.returncode == 1
    assert "Need a job id to run this command." in done.stderr


def test_a_file_comes_from_outside_to_a_job_that_is_named(slurm: Slurm) -> None:
    (slurm.work / "source").write_text("from outside")
    waits = "while [ ! -e brought ]; do sleep 0.05; done; cat brought"
    job = slurm.text("sbatch", "--parsable", "-o", "out", "--wrap", waits).strip()
    until(lambda: slurm.text("squeue", "-h", "-j", job, "-o", "%t") == "R\n", "the job")

    slurm.text("sbcast", "-j", job, "source", "brought")

    until(lambda: not slurm.text("squeue", "-h", "-j", job), "its end")
    assert (slurm.work / "out").read_text() == "from outside"
