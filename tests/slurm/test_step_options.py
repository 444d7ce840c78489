"""Options of srun that change how tasks run: files, programs, limits, prologs."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.real import Slurm

pytestmark = pytest.mark.slow


def program(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture(autouse=True)
def nothing_is_left(slurm: Slurm) -> Iterator[None]:
    """Others on this server need its CPUs."""
    yield
    slurm.run("scancel", "-u", "root")


def test_tasks_that_print_to_one_file_lose_nothing(slurm: Slurm) -> None:
    loop = "for n in $(seq 200); do echo $SLURM_PROCID $n; done"
    (slurm.work / "out").write_text("what was there before\n")

    slurm.text("srun", "-I60", "-O", "-n4", "-o", "out", "sh", "-c", loop)

    lines = (slurm.work / "out").read_text().splitlines()
    assert sorted(lines) == sorted(f"{rank} {n}" for rank in range(4) for n in range(1, 201))


def test_each_task_runs_what_the_file_says(slurm: Slurm) -> None:
    (slurm.work / "conf").write_text("# who does what\n0 echo first %t\n1-2 echo 'rest of' %t %o\n")

    printed = slurm.text("srun", "-I60", "-O", "-n3", "-l", "--multi-prog", "conf")

    assert sorted(printed.splitlines()) == ["0: first 0", "1: rest of 1 0", "2: rest of 2 1"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 true\n", "conf: no program for task 1"),
        ("0-1\n", "conf: line 1: no program for tasks 0-1"),
        ("x true\n", "conf: line 1: tasks x: expected numbers such as 0-3,5 or *"),
        ("* true\n0 true\n", "conf: line 2: task 0 has a program already"),
    ],
)
def test_a_file_that_leaves_tasks_without_a_program_is_refused(
    text: str, said: str, slurm: Slurm
) -> None:
    (slurm.work / "conf").write_text(text)

    done = slurm.run("srun", "-I60", "-O", "-n2", "--multi-prog", "conf")

    assert (done.returncode, done.stderr) == (1, f"srun: error: {said}\n")


def test_a_file_of_programs_that_is_not_there_costs_no_allocation(slurm: Slurm) -> None:
    before = slurm.text("sacct", "-nX", "-o", "jobid")

    done = slurm.run("srun", "-I60", "--multi-prog", "nofile")

    said = "srun: error: Unable to open configuration file nofile: No such file or directory\n"
    assert (done.returncode, done.stderr) == (1, said)
    assert slurm.text("sacct", "-nX", "-o", "jobid") == before


def test_prologs_and_epilogs_run_around_tasks_and_around_srun(slurm: Slurm) -> None:
    before = program(slurm.work / "before", "echo before $1; true")
    after = program(slurm.work / "after", "echo after")
    task_before = program(slurm.work / "task_before", "echo export MOOD=good; echo print hello")
    task_after = program(slurm.work / "task_after", 'echo "bye $SLURM_PROCID" > bye')
    words = (f"--prolog={before}", f"--epilog={after}", f"--task-prolog={task_before}")

    printed = slurm.text(
        *("srun", "-I60", *words, f"--task-epilog={task_after}"), "sh", "-c", "echo mood $MOOD"
    )

    assert printed.splitlines() == ["before sh", "hello", "mood good", "after"]
    assert (slurm.work / "bye").read_text() == "bye 0\n"


def test_a_task_whose_prolog_fails_does_not_run(slurm: Slurm) -> None:
    fails = program(slurm.work / "fails", "exit 3")

    done = slurm.run("srun", "-I60", f"--task-prolog={fails}", "echo", "ran")

    assert (done.returncode, done.stdout) == (3, "")
    assert "TaskProlog failed status=3" in done.stderr


def test_a_step_ends_at_its_own_limit(slurm: Slurm) -> None:
    body = "srun -t1 sleep 300; echo $?; echo $SLURM_JOB_ID"

    printed = slurm.script(body, "-t5")

    *_, code, job = printed.split()
    assert code == "143"
    assert "DUE TO TIME LIMIT" in printed
    rows = slurm.text("sacct", "-nPj", f"{job}.0", "-o", "state").split()
    assert rows == ["TIMEOUT"]


def test_verbose_tells_the_options_the_step_and_its_tasks(slurm: Slurm) -> None:
    done = slurm.run("srun", "-I60", "-v", "-n1", "true")

    lines = done.stderr.splitlines()
    assert done.returncode == 0
    assert lines[0] == "srun: defined options"
    assert {"srun: ntasks              : 1", "srun: verbose             : 1"} <= set(lines)
    assert any(line.startswith("srun: launching StepId=") for line in lines)
    assert any(line.endswith("box: task 0: Completed") for line in lines)


@pytest.mark.parametrize("kind", ["cores", "core,verbose", "v,mask_cpu:0x3,0xc", "no"])
def test_options_without_an_effect_are_told(slurm: Slurm, kind: str) -> None:
    done = slurm.run("srun", "-I60", f"--cpu-bind={kind}", "echo", "ran")

    said = "srun: warning: --cpu-bind has no effect here\n"
    assert (done.stdout, done.stderr) == ("ran\n", said)


def test_nodes_of_a_file_are_those_of_the_job(slurm: Slurm) -> None:
    (slurm.work / "nodes").write_text("box\n")

    printed = slurm.text("srun", "-I60", "-F", "nodes", "sh", "-c", "echo $SLURMD_NODENAME")

    assert printed == "box\n"


def test_the_srun_of_a_job_is_the_one_beside_the_sbatch_that_was_called(either: Slurm) -> None:
    other = either.work / "other"
    other.mkdir()
    program(other / "srun", "echo another srun")
    called = str(either.folder / "sbatch")
    env = {"PATH": f"{other}:/usr/bin:/bin"}

    done = either.run(called, "--wait", "-o", "out", "--wrap", "srun echo ours", env=env)

    assert done.returncode == 0, done.stderr
    assert (either.work / "out").read_text() == "ours\n"


def test_scancel_asks_on_the_terminal(either: Slurm) -> None:
    job = either.text("sbatch", "-H", "--parsable", "-J", "kept", "--wrap", "true").strip()

    kept = either.run("scancel", "-i", job, stdin="n\n")
    gone = either.run("scancel", "-i", job, stdin="y\n")

    question = f"Cancel job_id={job} name=kept partition=default [y/n]? "
    assert kept.stdout == gone.stdout == question
    assert either.text("squeue", "-h", "-j", job, "-t", "all", "-o", "%T").strip() == "CANCELLED"


class Waiting:
    """An ``srun`` outside of a job whose task waits for an interrupt."""

    TASK = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(7))\n"
        "print('ready', flush=True)\n"
        "time.sleep(100)\n"
    )

    def __init__(self, slurm: Slurm, *options: str) -> None:
        self.process = subprocess.Popen(
            ["srun", *options, sys.executable, "-c", self.TASK],
            cwd=slurm.work,
            env=slurm.env,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def code(self) -> int:
        """The exit code of srun, once it has ended."""
        self.process.communicate(timeout=60)
        return self.process.returncode

    def interrupt(self) -> str:
        """Ctrl-C; the next line that srun says."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.stderr is not None
        return self.process.stderr.readline()


def test_the_first_interrupt_of_srun_asks_and_the_second_is_for_the_tasks(slurm: Slurm) -> None:
    waiting = Waiting(slurm)

    asked = waiting.interrupt()
    assert waiting.process.stderr is not None
    standing = waiting.process.stderr.readline()
    running = waiting.process.poll()
    sent = waiting.interrupt()
    while "sending" not in sent:
        # So late that it was a first one again.
        sent = waiting.interrupt()

    assert asked == "srun: interrupt (one more within 1 sec to abort)\n"
    assert standing.endswith(" task 0: running\n")
    assert running is None
    assert sent.startswith("srun: sending Ctrl-C to StepId=")
    assert waiting.code() == 7


@pytest.mark.parametrize("option", ["-X", "--quit-on-interrupt"])
def test_an_option_makes_the_first_interrupt_one_for_the_tasks(option: str, slurm: Slurm) -> None:
    waiting = Waiting(slurm, option)

    said = waiting.interrupt()

    assert said.startswith("srun: sending Ctrl-C to StepId=")
    assert waiting.code() == 7
