"""srun and salloc, inside a job and outside, with real processes."""

import re
import signal
import subprocess

import pytest

from tests.journeys.box import until
from tests.slurm.real import Slurm

pytestmark = pytest.mark.slow


def test_tasks_of_a_step_know_their_rank_and_are_labelled(slurm: Slurm) -> None:
    body = "srun -l sh -c 'echo \"$SLURM_PROCID/$SLURM_NTASKS $SLURM_LOCALID $SLURM_STEP_ID\"'"

    printed = slurm.script(body, "-n3")

    assert sorted(printed.splitlines()) == ["0: 0/3 0 0", "1: 1/3 1 0", "2: 2/3 2 0"]


def test_steps_are_numbered_and_listed(slurm: Slurm) -> None:
    printed = slurm.script("srun true; srun sh -c 'echo $SLURM_STEP_ID'; echo $SLURM_JOB_ID")

    step, job = printed.split()
    assert step == "1"
    rows = slurm.text("sacct", "-nPj", job, "-o", "jobid,state").split()
    assert {f"{job}.0|COMPLETED", f"{job}.1|COMPLETED"} <= set(rows)


def test_a_step_is_named_by_srun_and_never_after_the_job(slurm: Slurm) -> None:
    printed = slurm.script("srun true; srun -J second true; echo $SLURM_JOB_ID", "-J", "whole")

    rows = slurm.text("sacct", "-nPj", printed.strip(), "-o", "jobname").split()
    assert rows == ["whole", "batch", "extern", "true", "second"]


def test_tasks_that_overcommit_need_no_cpu_each(slurm: Slurm) -> None:
    done = slurm.run("srun", "-I60", "-O", "-n6", "echo", "here")

    assert (done.returncode, done.stdout) == (0, "here\n" * 6)


def test_steps_of_a_cancelled_job_are_cancelled_not_failed(slurm: Slurm) -> None:
    words = ("sbatch", "--parsable", "-o", "out")
    job = slurm.text(*words, "--wrap", "srun sh -c 'echo begin; exec sleep 60'").strip()
    output = slurm.work / "out"
    until(lambda: output.exists() and "begin" in output.read_text(), "the step to begin")

    slurm.text("scancel", job)
    slurm.box.ended(job)

    rows = slurm.text("sacct", "-nPj", f"{job}.0", "-o", "state,exitcode").split()
    assert rows == ["CANCELLED|0:15"]


def test_srun_in_a_script_takes_its_tasks_from_the_job(slurm: Slurm) -> None:
    printed = slurm.script("srun echo a; srun -n1 echo b", "-n2")

    assert printed.split() == ["a", "a", "b"]


def test_the_worst_exit_code_of_the_tasks_is_that_of_srun(slurm: Slurm) -> None:
    body = "srun -n2 sh -c 'exit $((SLURM_PROCID * 4))'; exit $?"

    printed = slurm.script(body, "-n2", code=4)

    assert re.fullmatch(r"srun: error: box: task 1: Exited with exit code 4\n", printed)


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (["sh", "-c", "exit 7"], 7, "srun: error: box: task 0: Exited with exit code 7\n"),
        (["sh", "-c", "kill -9 $$"], 137, "srun: error: box: task 0: Killed\n"),
        (["/no/such"], 2, "execve(): /no/such: No such file or directory\n"),
    ],
)
def test_outside_a_job_srun_makes_one_and_ends_like_its_task(
    slurm: Slurm, command: list[str], code: int, said: str
) -> None:
    done = slurm.run("srun", *command)

    assert done.returncode == code
    assert said in done.stderr


def test_standard_input_reaches_the_tasks(slurm: Slurm) -> None:
    assert slurm.text("srun", "cat", stdin="to me\n") == "to me\n"
    assert slurm.text("srun", "-n2", "cat", stdin="x") == "xx"
    assert slurm.script("echo inside | srun cat") == "inside\n"


def test_much_output_arrives_whole(slurm: Slurm) -> None:
    printed = slurm.text("srun", "sh", "-c", "seq 100000")

    assert printed == "".join(f"{number}\n" for number in range(1, 100001))


def test_each_task_may_have_a_file_of_its_own(slurm: Slurm) -> None:
    slurm.script("srun -o 'step-%s-%2t' sh -c 'echo $SLURM_PROCID'", "-n2")

    names = ["step-0-00", "step-0-01"]
    assert [(slurm.work / name).read_text() for name in names] == ["0\n", "1\n"]


@pytest.mark.parametrize(
    ("option", "stream", "why"),
    [
        ("-o/dev/null/x", "stdout", "Not a directory"),
        ("-i/no/such", "stdin", "No such file or directory"),
    ],
)
def test_a_task_whose_file_cannot_be_opened_does_not_begin(
    slurm: Slurm, option: str, stream: str, why: str
) -> None:
    done = slurm.run("srun", option, "touch", "began")

    said = f"slurmstepd-box: error: Could not open {stream} file {option[2:]}: {why}\n"
    assert done.returncode == 1
    assert said in done.stderr
    assert not (slurm.work / "began").exists()


def test_a_task_whose_folder_is_missing_begins_in_tmp_and_says_so(slurm: Slurm) -> None:
    done = slurm.run("srun", "-D", "/no/such", "pwd")

    assert (done.returncode, done.stdout) == (0, "/tmp\n")
    assert "couldn't chdir to `/no/such': No such file or directory" in done.stderr


def test_gpus_are_shared_out_among_the_tasks(slurm: Slurm) -> None:
    body = "srun --gpus-per-task=1 sh -c 'echo $CUDA_VISIBLE_DEVICES'"

    printed = slurm.script(body, "-n2", "--gres=gpu:2")

    assert len(set(printed.split())) == 2


def test_salloc_holds_nodes_while_its_command_runs(slurm: Slurm) -> None:
    line = "echo $SLURM_JOB_NODELIST; srun -n2 sh -c 'echo $SLURM_PROCID'; exit 3"

    done = slurm.run("salloc", "-n2", "sh", "-c", line)

    assert done.returncode == 3
    assert sorted(done.stdout.split()) == ["0", "1", "box"]
    said = [re.sub(r"\d+", "N", text) for text in done.stderr.splitlines()]
    assert said == [
        "salloc: Granted job allocation N",
        "salloc: Waiting for resource configuration",
        "salloc: Nodes box are ready for job",
        "salloc: Relinquishing job allocation N",
        "salloc: Job allocation N has been revoked.",
    ]


def test_salloc_of_a_command_that_is_not_there_says_so_and_gives_back(slurm: Slurm) -> None:
    done = slurm.run("salloc", "no-such-command")

    assert done.returncode == 2
    said = 'salloc: error: Unable to exec command "no-such-command": No such file or directory\n'
    assert said in done.stderr
    assert "Relinquishing job allocation" in done.stderr


def test_immediate_gives_up_when_nodes_are_busy(slurm: Slurm) -> None:
    holder = slurm.text("sbatch", "--parsable", "-o/dev/null", "-n4", "--wrap", "sleep 60").strip()
    slurm.box.reach(holder, "running")

    done = slurm.run("srun", "-I1", "-n4", "true")

    assert done.returncode == 1
    assert "srun: error: Unable to allocate resources: Requested nodes are busy\n" in done.stderr
    slurm.text("scancel", holder)


def test_scancel_with_a_signal_reaches_the_steps_and_with_b_the_script(slurm: Slurm) -> None:
    body = """trap 'echo script' USR2
srun sh -c 'trap "echo step; exit 0" USR1; echo ready; while :; do sleep 0.05; done' &
wait; wait; wait"""
    words = ("sbatch", "--parsable", "-o", "out")
    job = slurm.text(*words, stdin=f"#!/bin/bash\n{body}\n").strip()
    output = slurm.work / "out"
    until(lambda: output.exists() and "ready" in output.read_text(), "the step to be ready")

    slurm.text("scancel", "-s", "USR2", "-b", job)
    until(lambda: "script" in output.read_text(), "the script to hear")
    slurm.text("scancel", "-s", "USR1", job)

    slurm.box.ended(job)
    # The shell says a word about its own children, which hear the signal as well.
    heard = [word for word in output.read_text().split() if word in ("ready", "script", "step")]
    assert heard == ["ready", "script", "step"]


def test_a_job_is_warned_before_its_limit(slurm: Slurm) -> None:
    body = "trap 'echo warned; exit 0' USR1; while :; do sleep 0.05; done"

    assert slurm.script(body, "-t1", "--signal=B:USR1@56") == "warned\n"


def test_srun_that_is_ended_takes_its_job_with_it(slurm: Slurm) -> None:
    line = ["srun", "-J", "doomed", "sleep", "60"]
    process = subprocess.Popen(line, env=slurm.env, cwd=slurm.work, stderr=subprocess.DEVNULL)
    until(lambda: "doomed" in slurm.text("squeue", "-h", "-tR", "-o%j"), "it to run")

    process.send_signal(signal.SIGKILL)
    process.wait()

    until(lambda: "doomed" not in slurm.text("squeue", "-h", "-o%j"), "its job to be gone")


def test_a_job_can_be_put_back_from_inside(slurm: Slurm) -> None:
    body = """echo "try ${SLURM_RESTART_COUNT-first}"
[ "$SLURM_RESTART_COUNT" = 1 ] || { scontrol requeue $SLURM_JOB_ID; sleep 60; }"""

    printed = slurm.script(body, "--open-mode=append").splitlines()

    assert [line for line in printed if "slurmstepd" not in line] == ["try first", "try 1"]


def test_a_script_reads_the_file_that_is_its_input(slurm: Slurm) -> None:
    (slurm.work / "in-01").write_text("from the file\n")

    printed = slurm.script("cat; echo $1", "-i", "in-%2a", "-a", "1", "-o", "out", code=0)

    assert printed == ""
    assert (slurm.work / "out").read_text() == "from the file\n\n"


def test_a_script_whose_input_is_missing_fails_and_says_so(slurm: Slurm) -> None:
    printed = slurm.script("cat", "-i", "/no/such", code=1)

    said = "slurmstepd: error: Could not open stdin file /no/such: No such file or directory\n"
    assert printed == said


def test_output_begins_anew_unless_it_is_appended_to(slurm: Slurm) -> None:
    for mode in ("append", "append", "truncate"):
        words = ("sbatch", "-W", "-o", "deep/er/%x", f"--open-mode={mode}", "-J", mode[0])
        slurm.text(*words, "--wrap", "echo line")
    slurm.text("sbatch", "-W", "-o", "deep/er/t", "--wrap", "echo line")

    assert (slurm.work / "deep/er/a").read_text() == "line\nline\n"
    assert (slurm.work / "deep/er/t").read_text() == "line\n"


def test_a_job_with_a_bare_environment_still_finds_the_commands(slurm: Slurm) -> None:
    printed = slurm.script("srun echo found; env | grep -c ^MINE=", "--export=NONE", code=1)

    assert printed == "found\n0\n"


@pytest.mark.parametrize("label", ["", "-l"])
def test_tasks_go_on_when_nobody_reads_what_they_print_any_more(either: Slurm, label: str) -> None:
    """As ``srun … | grep -q`` has it: the reader leaves first, and that is no failure."""
    task = "echo first; until [ -e left ]; do sleep 0.02; done; yes | head -50000; touch ended"
    line = f"srun {label} sh -c '{task}' | (head -1; exec <&-; touch left)"

    done = either.run("bash", "-c", f"{line}; echo ${{PIPESTATUS[0]}}")

    assert done.stdout.split()[-2:] == ["first", "0"]
    assert done.stderr == ""
    assert (either.work / "ended").exists()


def test_on_a_terminal_srun_gives_one(either: Slurm) -> None:
    line = "srun --pty sh -c 'test -t 0 && test -t 1 && echo terminal'"

    shown = either.text("script", "-qec", line, "/dev/null")

    assert "terminal" in shown


def test_without_a_terminal_srun_gives_none_and_says_so(either: Slurm) -> None:
    done = either.run("srun", "--pty", "sh", "-c", "test -t 1 || echo plain; exit 3")

    said = "srun: error: Not using a pseudo-terminal, disregarding --pty option"
    assert (done.returncode, done.stdout) == (3, "plain\n")
    assert said in done.stderr.splitlines()


def test_the_groups_of_a_heterogeneous_job_start_together_and_count_their_ranks_through(
    slurm: Slurm,
) -> None:
    body = """#SBATCH -n1
#SBATCH hetjob
#SBATCH -n2
echo "$SLURM_HET_SIZE $SLURM_JOB_NODELIST_HET_GROUP_1 $SLURM_NTASKS"
srun sh -c 'echo "first $SLURM_PROCID"' : sh -c 'echo "second $SLURM_PROCID"' | sort
srun --het-group=1 -n1 echo alone"""

    printed = slurm.script(body)

    assert printed.splitlines() == ["2 box 1", "first 0", "second 1", "second 2", "alone"]


def test_outside_a_job_several_commands_run_side_by_side_in_one_of_their_own(slurm: Slurm) -> None:
    rank = "echo $SLURM_PROCID/$SLURM_NTASKS"

    done = slurm.run("srun", "sh", "-c", f"{rank} first", ":", "-n2", "sh", "-c", f"{rank} second")

    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["0/3 first", "1/3 second", "2/3 second"]


def test_outside_a_job_the_worst_of_several_commands_counts(slurm: Slurm) -> None:
    done = slurm.run("srun", "true", ":", "sh", "-c", "exit 5")

    assert done.returncode == 5
    assert "task 1: Exited with exit code 5\n" in done.stderr


def test_salloc_holds_a_group_for_each_part_between_colons(slurm: Slurm) -> None:
    line = "srun echo first : echo second"

    done = slurm.run("salloc", "-Q", "-n1", ":", "-n2", "sh", "-c", line)

    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == ["first", "second", "second"]


def test_a_step_outlives_the_controller(slurm: Slurm) -> None:
    body = "srun sh -c 'echo begin; while [ ! -e go ]; do sleep 0.05; done; exit 3'; echo $?"
    words = ("sbatch", "--parsable", "-o", "out")
    job = slurm.text(*words, stdin=f"#!/bin/bash\n{body}\n").strip()
    output = slurm.work / "out"
    until(lambda: output.exists() and "begin" in output.read_text(), "the step to begin")

    slurm.box.kill("controller")
    assert slurm.box.reach(job, "running")["state"] == "running"
    (slurm.work / "go").touch()

    assert slurm.box.ended(job)["state"] == "completed"
    assert output.read_text() == "begin\n3\n"
    rows = slurm.text("sacct", "-nPj", f"{job}.0", "-o", "state,exitcode").split()
    assert rows == ["FAILED|3:0"]


def test_steps_are_on_record_after_the_controller_was_killed_and_numbers_go_on(
    slurm: Slurm,
) -> None:
    body = """srun true; srun sh -c 'exit 3'; touch half
while [ ! -e go ]; do sleep 0.05; done
srun sh -c 'echo $SLURM_STEP_ID'"""
    words = ("sbatch", "--parsable", "-o", "out")
    job = slurm.text(*words, stdin=f"#!/bin/bash\n{body}\n").strip()
    until((slurm.work / "half").exists, "two steps to be over")

    slurm.box.kill("controller")
    slurm.box.reach(job, "running")
    (slurm.work / "go").touch()
    slurm.box.ended(job)

    assert (slurm.work / "out").read_text().splitlines()[-1] == "2"
    rows = slurm.text("sacct", "-nPj", job, "-o", "jobid,jobname,state,exitcode").splitlines()
    assert rows[-3:] == [
        f"{job}.0|true|COMPLETED|0:0",
        f"{job}.1|sh|FAILED|3:0",
        f"{job}.2|sh|COMPLETED|0:0",
    ]
