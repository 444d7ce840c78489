"""``rota service`` under a real systemd, and what a unit hears through its socket."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rota.cli.service import units
from tests.journeys.box import DEADLINE_S, until
from tests.support import systemd
from tests.support.machine import missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.journeys.box import Box
    from tests.support.systemd import Machine


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    if why := systemd.obstacle():
        missing(f"a systemd of its own: {why}")
    with systemd.running_machine() as made:
        for name in (units.HEAD, units.AGENT):
            made.write(
                f"/etc/systemd/system/{name}.d/code.conf",
                f"[Service]\nEnvironment=PYTHONPATH={systemd.python_path()}\n",
            )
        yield made


def test_a_machine_and_a_node_are_installed_and_restarts_leave_jobs_alone(machine: Machine) -> None:
    said = machine.rota("service", "install", "--no-agent")
    assert "started rota.service: rota is up at http://127.0.0.1:8082" in said
    machine.write("/run/join.token", machine.rota("token", "create", "--join", "-q"))
    joined = machine.rota(
        *("service", "install", "--agent", "--join", "http://127.0.0.1:8082"),
        *("--token-file", "/run/join.token", "--name", "n1"),
    )
    assert "started rota-agent.service: node n1" in joined
    until(lambda: "up" in machine.rota("nodes"), "the node to be up")
    script = "until [ -e /run/go ]; do sleep 0.05; done; exit 7"
    job = machine.rota("submit", "--workdir", "/", "--", "sh", "-c", script).split()[-1]
    until(lambda: state_of(machine, job) == "running", "the job to run")

    machine.run("systemctl", "restart", units.HEAD, units.AGENT)
    machine.write("/run/go", "")

    until(lambda: state_of(machine, job) == "failed", "the job to end")
    shown = json.loads(machine.rota("show", job, "--json"))
    assert (shown["exit_code"], len(shown["attempts"])) == (7, 1)


def test_status_says_what_the_service_says_and_remove_leaves_the_state(machine: Machine) -> None:
    machine.rota("service", "install")

    status = machine.rota("service", "status")
    person = ("env", "HOME=/nonexistent", "setpriv", "--reuid=65534")
    people = machine.run(*person, sys.executable, "-m", "rota.cli.main", "nodes")
    removed = machine.rota("service", "remove", "--yes")

    assert "active (running), pid " in status
    assert "rota is up at http://127.0.0.1:8082" in status
    assert "NODE" in people
    assert "/var/lib/rota are left as they are" in removed
    assert "there is no" in machine.rota("service", "status", check=False)
    assert "rota.db" in machine.run("ls", "/var/lib/rota")


def state_of(machine: Machine, job: str) -> str:
    return str(json.loads(machine.rota("show", job, "--json"))["state"])


def test_a_unit_hears_when_rota_is_ready_and_when_it_stops(
    new_box: Callable[..., Box], tmp_path: Path
) -> None:
    box = new_box()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(str(tmp_path / "notify"))
        ear.settimeout(DEADLINE_S)
        process = subprocess.Popen(
            [sys.executable, "-m", "rota.cli.main", "up"],
            env={**box.env, "NOTIFY_SOCKET": str(tmp_path / "notify")},
            stdout=subprocess.DEVNULL,
        )

        first = ear.recv(4096).decode()
        seen = box.ran(["env"])
        process.terminate()
        last = ear.recv(4096).decode()
        process.wait()

    assert first.startswith("READY=1\nSTATUS=rota is up at http://127.0.0.1:")
    assert last == "STOPPING=1"
    assert "NOTIFY_SOCKET" not in box_log(box, seen["id"])


def box_log(box: Box, job: int) -> str:
    (file,) = (box.state / "agent" / "logs").glob("*.out")
    assert file.stat().st_size, job
    return file.read_text()
