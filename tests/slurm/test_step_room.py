"""Steps of one job share its CPUs: who finds none waits, unless he may overlap."""

import re
from pathlib import Path

import pytest

from tests.journeys.box import until
from tests.slurm.real import Slurm

pytestmark = pytest.mark.slow

BUSY = "step creation temporarily disabled, retrying (Requested nodes are busy)"
#: A step that says that it runs, and does so until a file is there.
HOLD = "touch began-$1; while [ ! -e go ]; do sleep 0.02; done"


def begin(slurm: Slurm, body: str, *options: str) -> str:
    """A batch job in which ``hold NAME OPTIONS`` runs a step that waits for the file ``go``."""
    hold = f"hold() {{ name=$1; shift; srun \"$@\" sh -c '{HOLD}' - $name; }}"
    script = f"#!/bin/bash\n{hold}\n{body}\n"
    return slurm.text("sbatch", "--parsable", "-o", "out", *options, stdin=script).strip()


def until_began(slurm: Slurm, *names: str) -> None:
    for name in names:
        until((slurm.work / f"began-{name}").exists, f"step {name} to begin")


def until_printed(slurm: Slurm, text: str) -> None:
    path = slurm.work / "out"
    until(lambda: path.exists() and text in path.read_text(), f"{text!r} in the output")


def finish(slurm: Slurm, job: str) -> list[str]:
    (slurm.work / "go").touch()
    assert slurm.box.ended(job)["state"] == "completed"
    return (slurm.work / "out").read_text().splitlines()


def test_two_steps_of_one_task_run_at_once_and_a_third_waits(slurm: Slurm) -> None:
    body = """hold a -n1 & hold b -n1 &
until [ -e began-a -a -e began-b ]; do sleep 0.02; done
hold c -n1 & wait"""
    job = begin(slurm, body, "-n2")
    until_began(slurm, "a", "b")
    until_printed(slurm, BUSY)

    assert not (slurm.work / "began-c").exists()
    printed = finish(slurm, job)
    until_began(slurm, "c")
    assert printed == [f"srun: Job {job} {BUSY}", f"srun: Step created for job {job}"]


def test_a_step_that_overlaps_takes_nothing_and_waits_for_nobody(slurm: Slurm) -> None:
    body = "hold a & until [ -e began-a ]; do sleep 0.02; done; srun --overlap echo beside; wait"

    job = begin(slurm, body, "-n2")

    until_printed(slurm, "beside")
    assert finish(slurm, job).count("beside") == 2


def test_steps_of_a_job_with_room_for_both_never_wait(slurm: Slurm) -> None:
    job = begin(slurm, "hold a -n1 --exact & hold b -n1 --exclusive & wait", "-n2")

    until_began(slurm, "a", "b")
    assert finish(slurm, job) == []


def test_a_step_that_will_not_wait_is_refused_and_one_told_to_be_quiet_says_nothing(
    slurm: Slurm,
) -> None:
    body = """hold a & until [ -e began-a ]; do sleep 0.02; done
srun -I true; echo $?
srun -Q echo quiet & touch asked; wait"""
    job = begin(slurm, body)
    until((slurm.work / "asked").exists, "all to be asked")

    printed = finish(slurm, job)

    refused = f"srun: error: Unable to create step for job {job}: Requested nodes are busy"
    assert printed == [refused, "1", "quiet"]


def test_a_step_that_asks_for_more_than_the_job_has_is_refused_at_once(slurm: Slurm) -> None:
    printed = slurm.script("srun -n3 true; echo $?", "-n2")

    assert re.search("More processors requested than permitted\n1\n$", printed)


def test_who_waits_for_room_and_is_interrupted_gives_up(slurm: Slurm) -> None:
    body = """hold a & until [ -e began-a ]; do sleep 0.02; done
srun true & echo $! > pid; wait $!; echo $?; wait"""
    job = begin(slurm, body)
    until_printed(slurm, BUSY)

    slurm.text("sh", "-c", "kill $(cat pid)")
    until_printed(slurm, "\n1\n")

    printed = finish(slurm, job)
    assert "srun: Cancelled pending job step with signal 15" in printed


def test_a_step_of_a_job_is_run_from_outside_of_it(slurm: Slurm) -> None:
    job = begin(slurm, "until [ -e go ]; do sleep 0.02; done", "-n2")
    slurm.box.reach(job, "running")
    show = 'echo "$SLURM_JOB_ID.$SLURM_STEP_ID $SLURM_PROCID/$SLURM_NTASKS $PWD $MINE"; exit 4'

    done = slurm.run("srun", f"--jobid={job}", "sh", "-c", show, env={"MINE": "yes"})
    both = slurm.text("srun", f"--jobid={job}", "--overlap", "-n2", "-l", "cat", stdin="in\n")

    assert (done.returncode, done.stdout) == (4, f"{job}.0 0/1 {slurm.work} yes\n")
    assert done.stderr == "srun: error: box: task 0: Exited with exit code 4\n"
    assert sorted(both.splitlines()) == ["0: in", "1: in"]
    finish(slurm, job)
    rows = slurm.text("sacct", "-nPj", job, "-o", "jobid,state,exitcode").splitlines()
    assert rows[-2:] == [f"{job}.0|FAILED|4:0", f"{job}.1|COMPLETED|0:0"]


def test_a_step_from_outside_ends_with_its_job(slurm: Slurm) -> None:
    job = begin(slurm, "until [ -e go ]; do sleep 0.02; done")
    slurm.box.reach(job, "running")
    inside = "echo $$ > pid; touch go; exec sleep 60"

    done = slurm.run("srun", f"--jobid={job}", "sh", "-c", inside)

    assert done.returncode == 137
    assert slurm.box.ended(job)["state"] == "completed"
    assert not Path(f"/proc/{(slurm.work / 'pid').read_text().strip()}").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-H",), "Unable to confirm allocation for job {}: Job is pending execution"),
        (("-W",), "Slurm job {} has expired"),
    ],
)
def test_a_job_that_does_not_run_takes_no_steps(
    slurm: Slurm, options: tuple[str, ...], said: str
) -> None:
    job = slurm.text("sbatch", "--parsable", "-o/dev/null", *options, "--wrap", "true").strip()

    done = slurm.run("srun", f"--jobid={job}", "true")

    check = f"srun: Check SLURM_JOB_ID environment variable. Expired or invalid job {job}\n"
    assert (done.returncode, done.stderr) == (1, f"srun: error: {said.format(job)}\n{check}")
    slurm.text("scancel", job)


def test_a_step_that_is_cancelled_says_so(slurm: Slurm) -> None:
    job = begin(slurm, "hold a; echo $?")
    until_began(slurm, "a")

    slurm.text("scancel", f"{job}.0")
    until_printed(slurm, "task 0: ")

    first, second, *rest = finish(slurm, job)
    assert first == "srun: Job step aborted: Waiting up to 32 seconds for job step to finish."
    said = rf"slurmstepd-box: error: \*\*\* STEP {job}\.0 ON box CANCELLED AT [-\dT:]{{19}} \*\*\*"
    assert re.fullmatch(said, second)
    assert rest == ["srun: error: box: task 0: Killed", "137"]
