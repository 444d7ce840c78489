"""``scancel -s``: which processes of a batch job hear a signal."""

from tests.journeys.box import until
from tests.slurm.real import Slurm

#: A script and two children, of which one has a session of its own. Each says when it listens.
#: With the script ends the job, and what is left of it.
SCRIPT = """\
hear() {{
    trap "touch heard-$1; $2; exit 0" USR1
    touch ready-$1
    while :; do sleep 60 & wait $!; done
}}
export -f hear
bash -c 'hear child :' &
setsid bash -c 'hear session :' &
hear script '{last}'
"""
CHILDREN_TOO = "until [ -e heard-child ] && [ -e heard-session ]; do sleep 0.05; done"


def waiting_job(slurm: Slurm, last: str) -> str:
    """A batch job with two children, all three of which listen. ``last``: what its script does
    before its end.
    """
    script = f"#!/bin/bash\n{SCRIPT.format(last=last)}"
    job = slurm.run("sbatch", "--parsable", stdin=script).stdout.strip()
    ready = {"ready-script", "ready-child", "ready-session"}
    until(lambda: ready <= {path.name for path in slurm.work.iterdir()}, "all three to listen")
    return job


def heard(slurm: Slurm) -> set[str]:
    return {path.name.removeprefix("heard-") for path in slurm.work.glob("heard-*")}


def test_a_full_signal_reaches_the_script_and_all_its_children(slurm: Slurm) -> None:
    job = waiting_job(slurm, CHILDREN_TOO)

    slurm.text("scancel", "-f", "-s", "USR1", job)

    until(lambda: heard(slurm) == {"script", "child", "session"}, "all three to hear it")
    slurm.box.ended(job)


def test_a_signal_for_the_batch_script_reaches_nobody_else(slurm: Slurm) -> None:
    job = waiting_job(slurm, ":")

    slurm.text("scancel", "-b", "-s", "USR1", job)

    slurm.box.ended(job)
    assert heard(slurm) == {"script"}
