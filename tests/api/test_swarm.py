"""Many simulated agents in one process against a real server, over real connections."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.herd import Herd
from bench.rota import Rota
from tests.api.running import WAIT_S, Caller, Running

pytestmark = pytest.mark.slow

AGENTS = 20


@contextmanager
def swarm(server: Running, found: dict[str, int]) -> Iterator[None]:
    """Connected while the block runs; ``found`` is what they counted."""
    command = [sys.executable, "-m", "rota.testing.swarm", "--agents", str(AGENTS), "--cpus", "2"]
    with subprocess.Popen(
        [*command, "--url", f"unix://{server.socket_path}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            # No token: the kernel says who we are.
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "ready\n"
            yield
            said, _ = child.communicate(timeout=WAIT_S)
            found.update(json.loads(said))
        finally:
            child.kill()


def test_a_swarm_runs_each_element_of_an_array_once_and_leaves_its_nodes_down(
    server: Running, caller: Caller
) -> None:
    counted: dict[str, int] = {}
    with swarm(server, counted):
        array = caller.submit(["true"], array="0-399")

        assert caller.until(array, "completed", "failed")["state"] == "completed"

    assert counted["starts"] == 400
    assert counted["sessions"] == AGENTS
    # Orders and reports of one tick share a message: far fewer than one for each start.
    assert counted["messages sent"] < 400
    while any(node["state"] == "up" for node in caller.get("/nodes").json["items"]):
        pass


def test_in_a_swarm_false_fails_and_a_long_job_runs_until_it_is_cancelled(
    server: Running, caller: Caller
) -> None:
    counted: dict[str, int] = {}
    with swarm(server, counted):
        long, broken = caller.submit(["sleep", "3600"]), caller.submit(["false"])
        assert caller.until(broken, "completed", "failed")["exit_code"] == 1
        caller.until(long, "running")

        caller.delete(f"/jobs/{long}")

        assert caller.until(long, "cancelled", "failed")["state"] == "cancelled"
    assert counted["starts"] == 2


@contextmanager
def open_files_at_most(count: int) -> Iterator[None]:
    """For programs that are started meanwhile; they may ask for more, up to the hard limit."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


def test_a_controller_takes_more_agents_than_its_shell_lets_it_open_files(
    socket_folder: Path,
) -> None:
    rota = Rota(socket_folder, "files", with_agent=False, settings={"ROTA_SERVER_TLS": "on"})
    # Starting it takes files of this process too, beside those that it has open by now.
    files = 60 + max(map(int, os.listdir("/proc/self/fd")))
    agents = files + 20
    with open_files_at_most(files):
        rota.start()
    try:
        with Herd(rota, agents=agents, cpus=1) as herd:
            nodes = rota.wire.get("/nodes")["items"]
            assert [node["state"] for node in nodes] == ["up"] * agents
    finally:
        rota.stop()
    assert herd.tally["sessions"] == agents
