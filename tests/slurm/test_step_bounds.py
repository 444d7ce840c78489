"""What a step asks for in vain, or has too many of: srun says so in the words of Slurm."""

import pytest

from tests.slurm.real import Slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
UNABLE = "srun: error: Unable to create step for job ID: "
NO_MEMORY = f"{UNABLE}Memory required by task is not available"
NO_GRES = f"{UNABLE}Invalid generic resource (gres) specification"


def said(slurm: Slurm, options: str, *steps: str) -> list[str]:
    """What each srun printed and its exit code, in a job with these options."""
    lines = [f"srun {step} 2>&1; echo code $?" for step in steps]
    printed = slurm.script("\n".join(lines), *options.split())
    job = slurm.text("sacct", "-nXP", "-o", "jobid").split()[-1]
    return [line.replace(f"job {job}:", "job ID:") for line in printed.splitlines()]


def test_fewer_tasks_than_nodes_take_fewer_nodes(slurm: Slurm) -> None:
    printed = said(slurm, "-n1", "-N2 true", "-N2-3 -n1 true")

    warned = "srun: Warning: can't run 1 processes on 2 nodes, setting nnodes to 1"
    assert printed == [warned, "code 0", warned, "code 0"]


def test_more_nodes_than_the_job_has_are_refused(slurm: Slurm) -> None:
    printed = said(slurm, "-N1 -n2", "-N2 -n2 true")

    assert printed == ["srun: error: Only allocated 1 nodes asked for 2", "code 1"]


def test_more_memory_than_the_job_has_is_refused(slurm: Slurm) -> None:
    steps = ("--mem=50 true", "--mem=2000 true", "--mem-per-cpu=2000 true", "--mem=0 true")

    printed = said(slurm, "-n1 --mem=100", *steps)

    assert printed == ["code 0", NO_MEMORY, "code 1", NO_MEMORY, "code 1", "code 0"]


def test_more_gpus_than_the_job_has_are_refused(slurm: Slurm) -> None:
    steps = ("--gres=gpu:1 true", "--gres=gpu:2 true", "--gpus=2 true")

    printed = said(slurm, "-n1 --gres=gpu:1", *steps)
    without = said(slurm, "-n1", "--gres=gpu:1 true")

    more = "srun: error: Step requested gres_per_node=gpu:2 is more than the job's "
    assert printed == ["code 0", f"{more}gres_per_node=gpu:1", NO_GRES, "code 1", NO_GRES, "code 1"]
    none = "srun: error: Step requested GRES but job doesn't have GRES"
    assert without == [none, NO_GRES, "code 1"]
