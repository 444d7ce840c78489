"""Commands that wait for something when their controller is killed or stopped."""

import subprocess

import pytest

from tests.journeys.box import until
from tests.slurm.real import Slurm

pytestmark = pytest.mark.slow

BROKE = "error: the line to the controller broke\n"


def begin(slurm: Slurm, *argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        argv,
        cwd=slurm.work,
        env=slurm.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def named(slurm: Slurm, name: str, state: str) -> str:
    """The id of the one job of this name, once it is in this state, and that is on disk."""
    words = ("squeue", "-h", "-n", name, "-t", state, "-o", "%A")
    job = str(until(lambda: slurm.run(*words).stdout.strip(), f"{name} to be {state}"))
    slurm.text("sacct", "-j", job)
    return job


def over(slurm: Slurm, job: str) -> str:
    """State and exit code of a job that has ended, from a controller that may just be starting."""
    words = ("sacct", "-nPX", "-j", job, "-o", "state,exitcode")
    live = ("", "PENDING", "RUNNING", "COMPLETING")

    def ended() -> str:
        text = slurm.run(*words).stdout.strip()
        return "" if text.partition("|")[0] in live else text

    return str(until(ended, f"job {job} to end"))


def test_srun_whose_controller_dies_says_so_and_leaves_no_allocation_behind(slurm: Slurm) -> None:
    line = "touch began; while [ ! -e go ]; do sleep 0.05; done; exit 5"
    asked = begin(slurm, "srun", "-J", "orphan", "sh", "-c", line)
    until((slurm.work / "began").exists, "the task to begin")
    job = named(slurm, "orphan", "running")

    slurm.box.kill("controller")
    _, said = asked.communicate(timeout=60)
    (slurm.work / "go").touch()

    assert (asked.returncode, said) == (1, f"srun: {BROKE}")
    assert over(slurm, job) == "FAILED|5:0"
    rows = slurm.text("sacct", "-nP", "-j", f"{job}.0", "-o", "state,exitcode").split()
    assert rows == ["FAILED|5:0"]


def test_srun_that_waits_in_line_when_its_controller_dies_never_holds_nodes(slurm: Slurm) -> None:
    slurm.text("sbatch", "-J", "holder", "-o/dev/null", "-n4", "--wrap", "sleep 60")
    holder = named(slurm, "holder", "running")
    asked = begin(slurm, "srun", "-J", "waiting", "true")
    job = named(slurm, "waiting", "pending")

    slurm.box.kill("controller")
    _, said = asked.communicate(timeout=60)
    until(lambda: slurm.run("scancel", holder).returncode == 0, "a controller that answers")

    assert asked.returncode == 1
    assert said.endswith(f"srun: {BROKE}")
    assert over(slurm, job) == "FAILED|1:0"


def test_salloc_whose_controller_was_killed_gives_its_nodes_back(slurm: Slurm) -> None:
    line = "touch began; while [ ! -e go ]; do sleep 0.05; done; exit 6"
    asked = begin(slurm, "salloc", "-J", "kept", "sh", "-c", line)
    until((slurm.work / "began").exists, "the command to begin")
    job = named(slurm, "kept", "running")

    slurm.box.kill("controller")
    until(lambda: slurm.run("squeue").returncode == 0, "a controller that answers")
    (slurm.work / "go").touch()
    asked.communicate(timeout=60)

    assert asked.returncode == 6
    assert over(slurm, job).startswith("CANCELLED")


def test_sbatch_that_waits_never_calls_a_job_good_whose_end_it_has_not_seen(slurm: Slurm) -> None:
    asked = begin(slurm, "sbatch", "--wait", "-J", "long", "-o/dev/null", "--wrap", "sleep 60")
    job = named(slurm, "long", "running")

    slurm.box.down()
    _, said = asked.communicate(timeout=60)
    slurm.box.up()
    slurm.text("scancel", job)

    assert asked.returncode == 1
    assert said == f"sbatch: error: the controller was stopped before job {job} ended\n"


def test_a_controller_that_is_told_to_stop_does_so_at_once_whoever_waits_for_it(
    slurm: Slurm,
) -> None:
    line = "touch began-$0; while [ ! -e go ]; do sleep 0.05; done; exit 4"
    body = f"srun sh -c '{line}' inside; exit $?"
    inside = begin(slurm, "sbatch", "--parsable", "-o/dev/null", "--wrap", body)
    job = inside.communicate(timeout=60)[0].strip()
    outside = begin(slurm, "srun", "-J", "outside", "sh", "-c", line, "outside")
    listing = begin(slurm, "squeue", "-i", "60")
    for name in ("inside", "outside"):
        until((slurm.work / f"began-{name}").exists, f"the step {name}")
    other = named(slurm, "outside", "running")
    log = slurm.box.state / "controller.log"
    read = len(log.read_text())

    slurm.box.down()
    outside.communicate(timeout=60)
    listing.communicate(timeout=60)
    slurm.box.up()
    (slurm.work / "go").touch()

    # A request that does not end by itself is cut off after ten seconds, which the log says.
    said = log.read_text()[read:]
    assert "stopped" in said
    assert "cut off" not in said
    assert "Traceback" not in said
    assert (outside.returncode, listing.returncode) == (1, 1)
    assert (over(slurm, job), over(slurm, other)) == ("FAILED|4:0", "FAILED|4:0")
