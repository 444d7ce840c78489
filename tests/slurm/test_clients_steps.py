"""What clients read of steps when they are over, and when some of their tasks are."""

import re
import sys

import pytest

from tests.journeys.box import until
from tests.slurm.real import Slurm

pytestmark = pytest.mark.slow


def seconds(text: str) -> float:
    """Of ``00:01.250``."""
    minutes, _, rest = text.rpartition(":")
    return int(minutes or 0) * 60 + float(rest)


def rows_of(slurm: Slurm, job: str, fields: str) -> dict[str, list[str]]:
    """What sacct says of a job and of each of its steps."""
    lines = slurm.text("sacct", "-nPj", job, "--units=M", "-o", f"jobid,{fields}").splitlines()
    return {name: rest for name, *rest in (line.split("|") for line in lines)}


def test_a_step_has_its_own_share_of_what_the_job_used(slurm: Slurm) -> None:
    work = f"{sys.executable} -c 'sum(range(2_000_000)); x = bytearray(50_000_000)'"

    job = slurm.script(f"srun -n2 {work}; echo $SLURM_JOB_ID", "-n2").strip()

    rows = rows_of(slurm, job, "totalcpu,maxrss")
    whole, script, step = (seconds(rows[job + part][0]) for part in ("", ".batch", ".0"))
    assert 0 < step <= whole
    assert script == pytest.approx(whole - step, abs=0.002)
    assert float(rows[f"{job}.0"][1].rstrip("M")) > 50


@pytest.mark.parametrize(
    ("exported", "seen"), [("ALL,B=2", "1 2"), ("A", "1 none"), ("NONE", "none none"), ("", "1 0")]
)
@pytest.mark.parametrize("inside", [True, False])
def test_tasks_get_what_srun_exports(slurm: Slurm, exported: str, seen: str, inside: bool) -> None:
    option = f"--export={exported}" if exported else ""
    words = f"srun {option} sh -c 'echo ${{A-none}} ${{B-none}}'"

    if inside:
        printed = slurm.script(f"export A=1 B=0; {words}")
    else:
        printed = slurm.text("sh", "-c", f"A=1 B=0 {words}")

    assert printed == f"{seen}\n"


@pytest.mark.parametrize("between", ["\0", "\n"])
def test_a_job_has_the_environment_of_the_file_that_is_named_and_no_other(
    slurm: Slurm, between: str
) -> None:
    entries = ("PATH=/usr/bin:/bin", "A=two words", "")
    (slurm.work / "variables").write_text(between.join(entries))

    printed = slurm.script("echo ${A-none}, ${HOME-none}", "--export-file=variables")

    assert printed == "two words, none\n"


def test_a_file_of_variables_that_is_missing_is_refused(slurm: Slurm) -> None:
    done = slurm.run("sbatch", "--export-file=/no/such", "--wrap", "true")

    said = "sbatch: error: Could not open user environment file /no/such\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


def test_a_file_of_variables_that_is_no_text_is_refused(slurm: Slurm) -> None:
    (slurm.work / "variables").write_bytes(b"A=\xff\xfe\0")

    done = slurm.run("sbatch", "--export-file=variables", "--wrap", "true")

    said = "sbatch: error: variables: not an environment in UTF-8 (at byte 2)\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


@pytest.mark.parametrize("options", ["-nPj", "-nXPj"])
def test_a_job_shows_the_worst_exit_code_of_its_steps_beside_its_own(
    slurm: Slurm, options: str
) -> None:
    job = slurm.script("echo $SLURM_JOB_ID; srun false; srun sh -c 'exit 5'; true").split()[0]

    lines = slurm.text("sacct", options, job, "-o", "jobid,exitcode,derivedexitcode").splitlines()

    assert lines[0] == f"{job}|0:0|5:0"
    assert (f"{job}.1|5:0|" in lines) == ("X" not in options)


@pytest.mark.parametrize(
    ("signal", "said", "code"),
    [
        ("SEGV", "Segmentation fault\n", 139),
        ("USR1", "User defined signal 1\n", 138),
        ("KILL", "Killed\nsrun: Force Terminated StepId={job}.0\n", 137),
    ],
)
def test_a_task_that_is_killed_leaves_the_others_alone(
    slurm: Slurm, signal: str, said: str, code: int
) -> None:
    body = f"echo $SLURM_JOB_ID; test $SLURM_PROCID = 0 && kill -{signal} $$; sleep 0.3; echo over"

    done = slurm.run("srun", "-n2", "sh", "-c", body)

    *ids, last = done.stdout.split()
    assert (done.returncode, last) == (code, "over")
    assert done.stderr == f"srun: error: box: task 0: {said.format(job=ids[0])}"
    slurm.box.ended(ids[0])
    ended = rows_of(slurm, ids[0], "state,exitcode")
    assert ended[ids[0]] == ["FAILED", f"0:{code - 128}"]
    assert ended[f"{ids[0]}.0"] == ["CANCELLED", f"0:{code - 128}"]


def test_with_a_wait_the_others_end_so_long_after_the_first(slurm: Slurm) -> None:
    together = "touch up$SLURM_PROCID; until [ -e up0 -a -e up1 -a -e up2 ]; do sleep 0.01; done"
    body = f"{together}; test $SLURM_PROCID = 1 || exit 0; echo $SLURM_JOB_ID; exec sleep 60"

    done = slurm.run("srun", "-W1", "-n3", "sh", "-c", body)

    step = f"{done.stdout.strip()}.0"
    assert done.returncode == 137
    assert done.stderr.splitlines()[:4] == [
        "srun: First task exited 1s ago",
        f"srun: StepId={step} task 1: running",
        f"srun: StepId={step} tasks 0,2: exited",
        f"srun: launch/slurm: _step_signal: Terminating StepId={step}",
    ]
    assert done.stderr.endswith("srun: error: box: task 1: Killed\n")


def test_the_job_of_salloc_ends_like_its_command(slurm: Slurm) -> None:
    done = slurm.run("salloc", "-Q", "sh", "-c", "echo $SLURM_JOB_ID; exit 4")

    job = done.stdout.strip()
    slurm.box.ended(job)
    assert done.returncode == 4
    assert rows_of(slurm, job, "state,exitcode")[job] == ["FAILED", "4:0"]


def test_the_step_of_an_srun_that_was_killed_is_cancelled(slurm: Slurm) -> None:
    body = "srun sh -c 'echo begin; exec sleep 60' > begun &\n"
    body += (
        "until grep -q begin begun; do sleep 0.05; done; echo id=$SLURM_JOB_ID; kill -9 $!; wait"
    )

    # The shell tells of the kill when it likes.
    (job,) = re.findall(r"id=(\d+)", slurm.script(body))

    until(lambda: rows_of(slurm, job, "state")[f"{job}.0"] != ["RUNNING"], "the end of the step")
    assert rows_of(slurm, job, "state,exitcode")[f"{job}.0"] == ["CANCELLED", "0:9"]


def test_a_step_without_memory_is_out_of_memory_like_its_job(slurm: Slurm) -> None:
    hungry = "import time; x = b'a' * 300_000_000; time.sleep(60)"
    words = ("sbatch", "--parsable", "--mem=60M", "-o", "/dev/null")
    job = slurm.text(*words, "--wrap", f'srun {sys.executable} -c "{hungry}"').strip()

    slurm.box.ended(job)

    ended = rows_of(slurm, job, "state,exitcode")
    assert ended[job] == ended[f"{job}.0"] == ["OUT_OF_MEMORY", "0:125"]
