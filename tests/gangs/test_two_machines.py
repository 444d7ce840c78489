"""Gangs on two machines that reach each other over a network only."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import until
from tests.support.machine import REPOSITORY, missing

if TYPE_CHECKING:
    from tests.network.site import Site

pytestmark = pytest.mark.slow

EXAMPLE = REPOSITORY / "examples" / "torch_example.py"
#: Of the first try, the task of rank 1 breaks before anybody has met.
BREAKS = f'[ "$ROTA_ATTEMPT $RANK" = "1 1" ] && exit 9; exec {sys.executable} {EXAMPLE}'
#: Ranks go by the order in which the nodes joined, and that is either one's.
BOTH_ADDED_UP = [
    [f"rank 0 of 2 on {first}: the sum is 3", f"rank 1 of 2 on {second}: the sum is 3"]
    for first, second in (("node1", "node2"), ("node2", "node1"))
]


def need_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        missing("torch: pip install 'torch==2.13.0+cpu'")


def said(site: Site, job: int, tasks: int) -> list[str]:
    """What the tasks printed, sorted; the words of a failed one in the message."""
    state = site.head.ended(job)["state"]
    logs = [site.head.rota("logs", str(job), "--task", str(task)).stdout for task in range(tasks)]
    errors = site.head.rota("logs", str(job), "--stderr", check=False).stdout
    assert state == "completed", errors
    return sorted(line for log in logs for line in log.splitlines() if line.startswith("rank "))


def test_torch_adds_up_over_two_machines_after_its_gang_was_restarted_as_one(machines: Site):
    need_torch()

    job = machines.head.submit(
        *("--nodes", "2", "--tasks-per-node", "1", "--retries", "1", "--backoff", "0", "--no-env"),
        *("--", "sh", "-c", BREAKS),
    )

    assert said(machines, job, 2) in BOTH_ADDED_UP
    tries = [attempt["number"] for attempt in machines.head.show(job)["attempts"]]
    assert sorted(tries) == [1, 1, 2, 2]


def test_torchrun_starts_its_own_workers_with_the_variables_of_a_job(machines: Site):
    need_torch()
    line = (
        f"{sys.executable} -m torch.distributed.run --nnodes=$SLURM_NNODES --node-rank=$NODE_RANK "
        "--nproc-per-node=1 --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT "
        f"{EXAMPLE}"
    )

    job = machines.head.submit("--nodes", "2", "--no-env", "--", "sh", "-c", line)

    assert said(machines, job, 2) in BOTH_ADDED_UP


def output(site: Site, job: int, task: int = 0) -> str:
    return site.head.rota("logs", str(job), "--task", str(task)).stdout


def test_an_elastic_gang_hears_of_every_change_of_its_world(machines: Site, tmp_path: Path):
    head, goal = machines.head, tmp_path / "goal"
    hog = head.job(["sleep", "300"], resources={"cpus": 2}, node_list=["node2"])
    head.reach(hog, "running")
    command = [sys.executable, str(Path(__file__).parent / "resizing.py"), str(goal)]

    job = head.job(command, tasks=4, min_tasks=2)
    until(lambda: output(machines, job) == "0 of 2\n", "the first world")
    head.rota("cancel", str(hog))
    until(lambda: output(machines, job) == "0 of 2\n0 of 4\n", "the larger world")
    head.rota("drain", "node1", "--deadline", "now+1s")
    for task in (2, 3):
        until(lambda task=task: " of 2" in output(machines, job, task), "the smaller world")
    goal.touch()

    assert head.ended(job)["state"] == "completed"
    assert output(machines, job, 2) == "2 of 4\n0 of 2\n"
    assert output(machines, job, 3) == "3 of 4\n1 of 2\n"
    head.rota("node", "resume", "node1")


def test_a_job_moves_to_another_machine_and_goes_on_from_its_checkpoint(
    machines: Site, tmp_path: Path
):
    head, goal = machines.head, tmp_path / "goal"
    command = [sys.executable, str(Path(__file__).parent / "counting.py"), str(goal)]
    job = head.job(
        command,
        node_list=["node1", "node2"],
        checkpoint_signal="USR1",
        save_signal="USR2",
        output=str(tmp_path / "out"),
    )
    first = until(lambda: head.show(job)["nodes"], "a node")[0]

    def said() -> str:
        file = tmp_path / "out"
        return file.read_text() if file.exists() else ""

    until(lambda: "begins at 0" in said(), "its begin")
    asked = head.rota("checkpoint", "trigger", str(job)).stdout
    until(lambda: "SIGUSR2" in said(), "the save that was asked for")
    until(lambda: head.show(job)["checkpoints"], "the report of it")
    shown = head.rota("drain", first, "--migrate", "--reason", "new fans").stdout
    until(lambda: said().count("begins") == 2, "its second begin")
    goal.touch()

    record = head.ended(job)
    lines = said().splitlines()
    other = "node2" if first == "node1" else "node1"
    moved = next(line.split()[1] for line in lines if "SIGUSR1" in line)
    assert (asked, shown) == (f"{job}: asked to save its work\n", f"drained {first}\n")
    assert record["state"] == "completed"
    assert [attempt["node"] for attempt in record["attempts"]] == [first, other]
    assert record["attempts"][0]["cause"] == f"migrated: node {first} is being emptied"
    assert f"begins at {moved} on {other}" in lines
    head.rota("node", "resume", first)
