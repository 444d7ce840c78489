"""Jobs and steps over several nodes: two agents that reach the controller over the network only."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.hostlist import expand
from tests.journeys.box import until
from tests.journeys.site import Site
from tests.slurm.real import Slurm

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Path]]:
    site = Site(tmp_path_factory.mktemp("site"))
    for name in ("n1", "n2"):
        site.join(name)
    until(lambda: site.is_up("n1") and site.is_up("n2"), "both nodes")
    commands = site.root / "commands"
    site.head.rota("slurm", "install", str(commands))
    yield site, commands
    slurm = Slurm(site.head, commands, site.root)
    until(lambda: not slurm.text("squeue", "-h"), "all jobs to be gone")
    site.close()


@pytest.fixture
def slurm(pair: tuple[Site, Path], tmp_path: Path) -> Slurm:
    return Slurm(pair[0].head, pair[1], tmp_path)


def test_a_script_runs_on_the_first_node_and_its_steps_on_all(slurm: Slurm) -> None:
    body = """echo "$SLURM_JOB_NODELIST $SLURM_NNODES $SLURM_TASKS_PER_NODE $1"
srun sh -c 'echo "$SLURM_PROCID $SLURMD_NODENAME $SLURM_NODEID"' | sort"""
    (slurm.work / "job.sh").write_text(f"#!/bin/sh\n{body}\n")

    slurm.text("sbatch", "-W", "-N2", "-n2", "-o", "out", "job.sh", "argument")

    first, *ranks = (slurm.work / "out").read_text().splitlines()
    nodes = expand(first.split()[0])
    assert first.split()[1:] == ["2", "1(x2)", "argument"]
    assert set(nodes) == {"n1", "n2"}
    assert ranks == [f"{rank} {node} {rank}" for rank, node in enumerate(nodes)]


def test_the_exit_code_of_the_script_is_that_of_the_job(slurm: Slurm) -> None:
    slurm.script("srun true; exit 6", "-N2", code=6)


def test_srun_on_its_own_starts_tasks_on_every_node(slurm: Slurm) -> None:
    done = slurm.run("srun", "-N2", "sh", "-c", "echo $SLURMD_NODENAME; exit $SLURM_PROCID")

    assert sorted(done.stdout.split()) == ["n1", "n2"]
    assert re.fullmatch(r"srun: error: n\d: task 1: Exited with exit code 1\n", done.stderr)
    assert done.returncode == 1


def test_input_for_all_tasks_crosses_the_network(slurm: Slurm) -> None:
    assert slurm.text("srun", "-N2", "cat", stdin="word\n") == "word\nword\n"


def test_steps_that_run_at_once_take_the_nodes_that_are_free(slurm: Slurm) -> None:
    step = "srun -N1 -n1 sh -c 'touch on-$SLURMD_NODENAME; until [ -e go ]; do sleep 0.02; done'"
    body = f"{step} & {step} & until [ -e on-n1 -a -e on-n2 ]; do sleep 0.02; done; touch go; wait"

    assert slurm.script(body, "-N2", "-n2") == ""


def test_from_outside_a_step_runs_on_every_node_of_a_job(slurm: Slurm) -> None:
    wait = "until [ -e go ]; do sleep 0.02; done"
    job = slurm.text("sbatch", "--parsable", "-N2", "-o", "out", "--wrap", wait).strip()
    slurm.box.reach(job, "running")

    printed = slurm.text("srun", f"--jobid={job}", "-N2", "sh", "-c", "echo $SLURMD_NODENAME")
    (slurm.work / "go").touch()

    assert sorted(printed.split()) == ["n1", "n2"]
    assert slurm.box.ended(job)["state"] == "completed"
    assert (slurm.work / "out").read_text() == ""


def test_tasks_of_several_nodes_print_to_one_file_without_a_loss(slurm: Slurm) -> None:
    loop = "for n in $(seq 200); do echo $SLURM_PROCID $n; done"

    slurm.text("srun", "-N2", "-n2", "-o", "out", "sh", "-c", loop)

    lines = (slurm.work / "out").read_text().splitlines()
    assert sorted(lines) == sorted(f"{rank} {n}" for rank in range(2) for n in range(1, 201))


def test_tasks_are_dealt_in_blocks_or_by_cyclic_distribution_one_after_the_other(
    slurm: Slurm,
) -> None:
    words = ("srun", "-O", "-N2", "-n4", "-l", "sh", "-c", "echo $SLURM_NODEID")

    blocks = slurm.text(*words)
    cyclic = slurm.text("srun", "-m", "cyclic", *words[1:])

    assert sorted(blocks.split("\n"))[1:] == ["0: 0", "1: 0", "2: 1", "3: 1"]
    assert sorted(cyclic.split("\n"))[1:] == ["0: 0", "1: 1", "2: 0", "3: 1"]


def test_a_step_may_begin_at_a_later_node_of_its_job(slurm: Slurm) -> None:
    body = "srun -N1 -n1 -r1 sh -c 'echo $SLURMD_NODENAME'; echo $SLURM_JOB_NODELIST"

    printed = slurm.script(body, "-N2")

    node, nodes = printed.split()
    assert node == expand(nodes)[1]


def test_a_file_is_broadcast_to_all_nodes_of_a_job(slurm: Slurm) -> None:
    body = "0123456789abcdef" * 65536
    (slurm.work / "source").write_text(body)

    printed = slurm.script("sbcast -v -f source copy 2>&1; echo $?", "-N2")

    assert printed.splitlines()[-2:] == ["sbcast: node_list  = n[1-2]", "0"]
    assert (slurm.work / "copy").read_text() == body


def test_tasks_on_all_nodes_know_where_the_first_one_is(slurm: Slurm) -> None:
    told = "echo $SLURM_LAUNCH_NODE_IPADDR $SLURM_SRUN_COMM_HOST $SLURMD_NODENAME"
    body = f"echo ${{SLURM_LAUNCH_NODE_IPADDR-none}}; srun -l sh -c '{told}'"

    script, *lines = slurm.script(body, "-N2", "-n2").splitlines()

    first, second = (line.split()[1:] for line in sorted(lines))
    shown = slurm.text("scontrol", "show", "node", first[2])
    assert script == "none"
    assert first[:2] == second[:2] == re.findall("NodeAddr=([^ ]+)", shown) * 2


def test_a_watcher_sees_each_line_of_every_node_once(slurm: Slurm) -> None:
    waits = "until [ -e go ]; do echo here; sleep 0.05; done; echo said $SLURM_PROCID"
    words = ("sbatch", "--parsable", "-N2", "-n2", "-o", "out", "--wrap", f"srun sh -c '{waits}'")
    job = slurm.text(*words).strip()
    until(lambda: f"{job}.0" in slurm.text("squeue", "-hs", "-j", job, "-o", "%i"), "the step")
    watching = subprocess.Popen(
        ["sattach", "-l", f"{job}.0"],
        cwd=slurm.work,
        env=slurm.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    watching.stdout.readline()

    (slurm.work / "go").touch()
    seen = watching.communicate(timeout=60)[0].splitlines()

    assert sorted(line for line in seen if "said" in line) == ["0: said 0", "1: said 1"]
    assert watching.returncode == 0
    slurm.box.ended(job)
    printed = (slurm.work / "out").read_text().splitlines()
    assert sorted(line for line in printed if "said" in line) == ["said 0", "said 1"]
