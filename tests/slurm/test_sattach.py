"""``sattach``: watch a step that another command runs, speak to it, and end as it ends."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.journeys.box import until
from tests.slurm.real import Slurm

pytestmark = pytest.mark.slow

#: A task that says it is there until it is told to go on, so that a watcher hears it.
WAITS = "touch up$SLURM_PROCID; until [ -e go ]; do echo here; sleep 0.05; done"


def started(slurm: Slurm, *words: str, **how: object) -> subprocess.Popen[str]:
    """A command that runs on while others are called."""
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        words,
        cwd=slurm.work,
        env=slurm.env,
        stdin=how.get("stdin", subprocess.DEVNULL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def batch(slurm: Slurm, body: str, *options: str) -> str:
    """A batch job that has begun its first step; its id."""
    words = ("sbatch", "--parsable", "-o", "out", *options)
    job = slurm.run(*words, stdin=f"#!/bin/bash\n{body}\n").stdout.strip()
    until((slurm.work / "up0").exists, "the first task")
    return job


def watched(watcher: subprocess.Popen[str], go: Path) -> tuple[str, str, int]:
    """What a watcher saw of a step that goes on when it is told that somebody watches."""
    go.touch()
    out, err = watcher.communicate(timeout=60)
    return out, err, watcher.returncode


def joined(watcher: subprocess.Popen[str]) -> None:
    """Wait until a watcher gets what is printed."""
    assert watcher.stdout is not None
    assert "here" in watcher.stdout.readline()


@pytest.mark.parametrize("options", ["", "-l ", "-o file "])
def test_what_a_step_of_a_script_prints_is_seen_until_it_ends(slurm: Slurm, options: str) -> None:
    step = f"{WAITS}; echo out; echo err >&2; exit 3"
    job = batch(slurm, f"srun {options}sh -c '{step}'")
    watcher = started(slurm, "sattach", f"{job}.0")
    joined(watcher)

    out, err, code = watched(watcher, slurm.work / "go")

    assert "out\n" in out
    assert "err\n" in out + err
    assert err.endswith("sattach: error: task 0 exited with exit code 3\n")
    assert code == 3


def test_lines_are_told_apart_and_one_task_can_be_picked(slurm: Slurm) -> None:
    body = f"{WAITS}; echo said $SLURM_PROCID; echo moaned $SLURM_PROCID >&2"
    runner = started(slurm, "srun", "-n2", "sh", "-c", f"echo $SLURM_JOB_ID > job; {body}")
    until(lambda: (slurm.work / "up0").exists() and (slurm.work / "up1").exists(), "both tasks")
    job = (slurm.work / "job").read_text().strip()
    words = ("sattach", "-l", "--output-filter=1", "--error-filter", "0", f"{job}.0")
    watcher = started(slurm, *words)
    joined(watcher)

    out, err, code = watched(watcher, slurm.work / "go")

    assert set(out.splitlines()) - {"1: here"} == {"1: said 1"}
    assert (err, code) == ("0: moaned 0\n", 0)
    assert {"said 0", "said 1"} <= set(runner.communicate(timeout=60)[0].splitlines())


def test_what_is_typed_goes_to_the_task_that_is_meant(slurm: Slurm) -> None:
    step = "echo $SLURM_JOB_ID; read word; echo $SLURM_PROCID got $word"
    runner = started(slurm, "srun", "-n2", "sh", "-c", step, stdin=subprocess.PIPE)
    assert runner.stdout is not None
    job = runner.stdout.readline().strip()
    runner.stdout.readline()

    watcher = started(slurm, "sattach", "--input-filter=1", f"{job}.0", stdin=subprocess.PIPE)
    assert watcher.stdin is not None
    watcher.stdin.write("one\n")
    watcher.stdin.flush()
    first = runner.stdout.readline()
    rest = runner.communicate("rest\n", timeout=60)[0]

    assert (first, rest) == ("1 got one\n", "0 got rest\n")
    watcher.communicate(timeout=60)
    assert watcher.returncode == 0


def test_an_interrupt_ends_the_watching_and_not_the_step(slurm: Slurm) -> None:
    job = batch(slurm, f"srun sh -c '{WAITS}; echo done'")
    watcher = started(slurm, "sattach", f"{job}.0")
    joined(watcher)

    watcher.send_signal(2)

    watcher.communicate(timeout=60)
    assert watcher.returncode == 130
    (slurm.work / "go").touch()
    until(lambda: not slurm.text("squeue", "-h", "-j", job), "the end of the job")
    assert (slurm.work / "out").read_text().endswith("done\n")


def test_the_layout_says_which_tasks_run_where(slurm: Slurm) -> None:
    job = batch(slurm, f"srun -n2 sh -c '{WAITS}'", "-n2")

    shown = slurm.text("sattach", "--layout", f"{job}.0")

    (slurm.work / "go").touch()
    lines = ["Job step layout:", "\t2 tasks, 1 nodes (box)", "", "\tNode 0 (box), 2 task(s): 0 1 "]
    assert shown.splitlines() == lines


@pytest.mark.parametrize(
    ("words", "said", "shown"),
    [
        ("999999.0", "Could not get job step info: Invalid job id specified", ""),
        ("999999", "Failed to parse stepid from command line options", "Usage: sattach"),
        ("what", "Failed to parse stepid from command line options", "Usage: sattach"),
        ("", "too many parameters", "Usage: sattach"),
        ("1.0 2.0", "too many parameters", "Usage: sattach"),
        ("--output-filter=x 1.0", 'Invalid numeric value "x" for output-filter.', ""),
    ],
)
def test_what_cannot_be_watched_is_told_as_slurm_tells_it(
    words: str, said: str, shown: str, slurm: Slurm
) -> None:
    done = slurm.run("sattach", *words.split())

    assert (done.returncode, done.stderr) == (1, f"sattach: error: {said}\n")
    assert done.stdout.startswith(shown)


def test_a_step_that_is_over_or_never_was_is_told_as_such(slurm: Slurm) -> None:
    job = batch(slurm, f"srun true; srun sh -c '{WAITS}'")

    over, never = (slurm.run("sattach", f"{job}.{step}") for step in (0, 7))
    (slurm.work / "go").touch()
    until(lambda: not slurm.text("squeue", "-h", "-j", job), "the end of the job")
    gone = slurm.run("sattach", f"{job}.1")

    lead = "sattach: error: Could not get job step info:"
    assert over.stderr == f"{lead} Job/step already completing or completed\n"
    assert never.stderr == f"{lead} Invalid job id specified\n"
    assert gone.stderr == over.stderr
    assert {one.returncode for one in (over, never, gone)} == {1}


def test_help_names_every_option(slurm: Slurm) -> None:
    shown = slurm.text("sattach", "--help")

    named = set(re.findall(r"--([a-z-]+)", shown))
    assert {"input-filter", "output-filter", "error-filter", "label", "layout", "pty"} <= named
    assert shown.startswith("Usage: sattach [OPTIONS] JOB.STEP\n")
