"""What real jobs leave in their output is what a real Slurm left there, values aside."""

import os
import re
from pathlib import Path

import pytest

from tests.journeys.box import until
from tests.slurm.goldens import Golden, differences, read_golden
from tests.slurm.real import Slurm
from tests.slurm.test_golden_showing import listed_differences

pytestmark = pytest.mark.slow

#: Recorded calls that need jobs which really run; each is compared below.
CALLS = (
    *("sbatch_wait_exit", "sbatch_wait_ok", "sbatch_parsable", "sbatch_stdin"),
    *("sbatch_array_step", "srun_exit", "srun_immediate", "srun_nocommand", "srun_signal"),
    "salloc",
)
OUTPUTS = (
    *("args", "array", "cancelled", "names", "ok", "oom", "script", "stdin", "timeout"),
    "unwritable",
)
#: Names that Slurm gives a script and we do not: they are about a Slurm that is not there.
NOT_OURS = {
    *("GPU_DEVICE_ORDINAL", "SLURM_CONF", "SLURM_NODE_ALIASES", "SLURM_TASK_PID"),
    *("SLURM_TOPOLOGY_ADDR", "SLURM_TOPOLOGY_ADDR_PATTERN", "SLURM_WORKING_CLUSTER"),
}


@pytest.fixture
def golden(shared_folder: Path, request: pytest.FixtureRequest) -> Golden:
    return read_golden(shared_folder / "slurm" / "golden" / f"{request.param}.txt")


def told(text: str) -> str:
    """With the name of the machine, of the node and every number taken out."""
    named = re.sub(rf"\b(n\d|vm|box|{os.uname().nodename})\b", "NODE", text)
    return re.sub(r"\d+", "N", named)


def recorded(golden: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("golden", [golden], indirect=True)


def cancelled(slurm: Slurm, *options: str) -> str:
    """What is in the output of a job that was cancelled."""
    job = running(slurm, *options)
    slurm.text("scancel", job)
    slurm.box.ended(job)
    return (slurm.work / "out").read_text()


def running(slurm: Slurm, *options: str) -> str:
    words = ("sbatch", "--parsable", "-o", "out", *options, "--wrap", "exec sleep 60")
    job = slurm.text(*words).strip()
    slurm.box.reach(job, "running")
    return job


@pytest.mark.parametrize("golden", CALLS, indirect=True)
def test_a_recorded_call_of_a_job_that_runs_is_answered_alike(slurm: Slurm, golden: Golden) -> None:
    holder = running(slurm, "-n4") if golden.name == "srun_immediate" else ""
    words = ["sh", "-c", golden.command.replace("-N4", "-N1")]

    done = slurm.run(*words)

    if holder:
        slurm.text("scancel", holder)
    # The tasks of a step and srun itself write as they come.
    lines = sorted(told(done.stderr).splitlines())
    assert (done.returncode, told(done.stdout)) == (golden.code, told(golden.stdout))
    assert lines == sorted(told(golden.stderr).splitlines())


@recorded("sbatch_output_ok")
def test_output_of_a_script_and_its_step(slurm: Slurm, golden: Golden) -> None:
    assert told(slurm.script("srun hostname; echo hello")) == told(golden.stdout)


@recorded("sbatch_output_args")
def test_arguments_reach_the_script(slurm: Slurm, golden: Golden) -> None:
    (slurm.work / "args.sh").write_text('#!/bin/sh\necho "args: $*"\n')

    slurm.text("sbatch", "-W", "-o", "args.out", "args.sh", "one", "two", "three")

    assert (slurm.work / "args.out").read_text() == golden.stdout


@recorded("sbatch_output_array")
def test_an_element_knows_its_array(slurm: Slurm, golden: Golden) -> None:
    show = "env | grep -E ^SLURM_ARRAY\\|^SLURM_JOB_ID | sort"
    words = ("sbatch", "-W", "--parsable", "-o", "arr-%A_%a.out", "--array=1-9:4,20")
    array = slurm.text(*words, "--wrap", show).strip()

    text = (slurm.work / f"arr-{array}_5.out").read_text()

    ids = r"(JOB_ID)=\d+"
    assert re.sub(ids, r"\1", text) == re.sub(ids, r"\1", golden.stdout)


@recorded("sbatch_output_names")
def test_files_have_the_recorded_names(slurm: Slurm, golden: Golden) -> None:
    stdin = "#!/bin/sh\n#SBATCH -J scripted -o %x-%j.out\ntrue\n"
    slurm.text("sbatch", "-W", stdin=stdin)
    slurm.text("sbatch", "-W", "-o", "stdin.out", stdin="#!/bin/sh\ntrue\n")
    slurm.text("sbatch", "-W", "-o", "args.out", "--wrap", "true")
    slurm.text("sbatch", "-W", "--wrap", "true")
    slurm.text("sbatch", "-W", "-a0-1", "--wrap", "true")
    slurm.text("sbatch", "-W", "-a1", "-o", "arr-%A_%a.out", "--wrap", "true")

    names = {told(path.name) for path in slurm.work.iterdir()}

    assert names == set(told(golden.stdout).split())


@recorded("sbatch_output_script")
def test_a_script_finds_the_recorded_variables_but_for_those_that_are_listed(
    slurm: Slurm, golden: Golden
) -> None:
    body = """#SBATCH -J scripted -n2 -c2 --gres=gpu:1 --mem=400
export SLURM_JOB_ACCOUNT=${SLURM_JOB_ACCOUNT-main}
env | grep -E '^(SLURM|CUDA_VISIBLE|GPU_DEVICE)' | sort
srun -l sh -c 'echo "task $SLURM_PROCID of $SLURM_NTASKS on $SLURMD_NODENAME"' | sort"""

    printed = slurm.script(body, "-c1")

    ours, theirs = (dict(_variables(text)) for text in (printed, golden.stdout))
    assert theirs.keys() - ours.keys() == NOT_OURS
    assert ours.keys() - theirs.keys() == set()
    assert told(printed).splitlines()[-2:] == told(golden.stdout).splitlines()[-2:]
    assert golden.name in listed_differences()


def _variables(text: str) -> list[list[str]]:
    return [line.split("=", 1) for line in text.splitlines() if "=" in line]


@recorded("sbatch_output_stdin")
def test_a_script_from_standard_input_is_a_file_with_a_path(slurm: Slurm, golden: Golden) -> None:
    path = re.compile(r"/\S+ ?\n")

    printed = slurm.script("echo $0 $1")

    assert path.fullmatch(golden.stdout)
    assert path.fullmatch(printed)


@recorded("sbatch_output_timeout")
def test_a_job_over_its_limit_says_so_in_its_output(slurm: Slurm, golden: Golden) -> None:
    job = running(slurm, "-t1")

    # A minute is the least that sbatch takes, and more than a test should.
    slurm.box.api("PATCH", f"/jobs/{job}", {"time_limit_s": 1})

    assert slurm.box.ended(job)["state"] == "timeout"
    text = (slurm.work / "out").read_text()
    assert told(text) == told(golden.stdout)
    assert f"*** JOB {job} ON box CANCELLED AT " in text


@recorded("sbatch_output_cancelled")
def test_a_cancelled_job_says_so_in_its_output(slurm: Slurm, golden: Golden) -> None:
    text = cancelled(slurm, "-e", "errors")

    said = r"slurmstepd-box: error: \*\*\* JOB \d+ ON box CANCELLED AT [-\dT:]{19} \*\*\*\n"
    assert text == ""
    assert re.fullmatch(said, (slurm.work / "errors").read_text())
    assert bool(golden.stdout) is False
    assert golden.name in listed_differences()


def test_a_job_that_is_put_back_says_so_in_its_output(slurm: Slurm) -> None:
    job = running(slurm, "--open-mode=append")

    slurm.text("scontrol", "requeue", job)
    until(lambda: "JOB REQUEUE" in (slurm.work / "out").read_text(), "the line")
    slurm.text("scancel", job)
    slurm.box.ended(job)

    first = (slurm.work / "out").read_text().splitlines()[0]
    said = rf"slurmstepd-box: error: \*\*\* JOB {job} ON box CANCELLED AT \S+ DUE TO JOB REQUEUE"
    assert re.match(said, first)


def test_a_job_that_did_not_come_through_slurms_commands_has_no_line_of_slurms(
    slurm: Slurm,
) -> None:
    box = slurm.box.at(slurm.work)
    job = box.job(["sleep", "60"], output="out")
    box.reach(job, "running")

    slurm.text("scancel", str(job))
    box.ended(job)

    assert (slurm.work / "out").read_text() == ""


def test_the_file_of_a_job_that_was_removed_is_not_made_again(slurm: Slurm) -> None:
    job = running(slurm)
    (slurm.work / "out").unlink()

    slurm.text("scancel", job)
    slurm.box.ended(job)

    assert not (slurm.work / "out").exists()


@recorded("sbatch_output_oom")
def test_a_job_over_its_memory_says_so_in_its_output(slurm: Slurm, golden: Golden) -> None:
    hungry = "exec python3 -c 'import time; x = bytearray(100 << 20); time.sleep(60)'"

    job = slurm.text("sbatch", "--parsable", "-o", "out", "--mem=40", "--wrap", hungry).strip()

    assert slurm.box.ended(job)["cause"].startswith("out_of_memory")
    line = told(golden.stdout).splitlines()[-1]
    until(lambda: line in told((slurm.work / "out").read_text()), "the line")


@recorded("err_sbatch_output_unwritable")
def test_a_job_whose_output_cannot_be_written_fails_like_the_recorded_one(
    slurm: Slurm, golden: Golden
) -> None:
    made = slurm.run("sbatch", "-W", "-o", "/proc/none/x.out", "--wrap", "true")
    job = made.stdout.split()[-1]
    shown = slurm.text("sacct", "-XnPj", job, "-o", "jobid,state,exitcode")

    assert differences(golden, made.stdout + shown, "", 0) == []
    assert shown == f"{job}|FAILED|0:53\n"
    steps = slurm.text("sacct", "-nPj", f"{job}.batch", "-o", "state,exitcode")
    assert steps == "CANCELLED|0:53\n"


@recorded("err_down_controller")
def test_without_a_controller_a_command_says_what_the_recorded_one_said(
    slurm: Slurm, golden: Golden
) -> None:
    done = slurm.run("squeue", env={"ROTA_STATE_DIR": str(slurm.work)})

    assert (done.returncode, done.stdout, done.stderr) == (golden.code, "", golden.stderr)
