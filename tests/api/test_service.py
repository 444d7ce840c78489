"""``rota up`` and ``rota down`` as a user runs them: real processes, killed and found again."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.running import Caller, UnixConnection

pytestmark = pytest.mark.slow

#: Guards against hanging only.
PATIENCE_S = 60.0
VARIABLES = ("PATH", "PYTHONPATH", "HOME", "LANG")


class Service:
    """One state folder, and ``rota`` commands on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: os.environ[name] for name in VARIABLES if name in os.environ}
        self.environment = kept | {"ROTA_STATE_DIR": str(folder), "ROTA_AGENT_CPUS": "2"}
        self.environment["ROTA_SERVER_SOCKET"] = "none"
        self.up_options = ("--detach", "--listen", "127.0.0.1:0")

    def rota(self, *words: str, expect: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "rota.cli.main", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr

    def status(self) -> Any:
        connection = UnixConnection(str(self.folder / "rota.sock"))
        try:
            return Caller(connection).get("/status").json
        finally:
            connection.close()

    def pids(self) -> dict[str, int]:
        status = self.status()
        supervisor = int((self.folder / "supervisor.lock").read_text())
        return {
            "supervisor": supervisor,
            "controller": status["controller"]["pid"],
            "agent": status["agent"]["pid"],
        }

    def until(self, condition: Callable[[Any], object]) -> None:
        """Wait until the status is as wanted."""
        begun_s = time.monotonic()
        seen: object = None
        while time.monotonic() - begun_s < PATIENCE_S:
            try:
                seen = self.status()
                if condition(seen):
                    return
            except (OSError, http.client.HTTPException) as away:
                seen = away
            time.sleep(0.005)
        raise AssertionError(f"it did not happen in time; the last that was seen: {seen!r}")

    def logs(self) -> str:
        return "".join(file.read_text() for file in self.folder.glob("*.log"))


@pytest.fixture
def service(socket_folder: Path) -> Iterator[Service]:
    made = Service(socket_folder)
    yield made
    made.rota("down", "--stop-jobs")


@pytest.fixture
def up(service: Service) -> Service:
    service.rota("up", *service.up_options)
    return service


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def submit_until(up: Service, go: Path, *then: str) -> str:
    """A job that runs until the file is there, and then does something more; it runs by now."""
    script = f"until [ -e {go} ]; do sleep 0.02; done; {' '.join(then)}"
    job_id = up.rota("submit", "--", "sh", "-c", script).strip()
    up.until(lambda status: status["jobs"].get("running"))
    return job_id


def test_up_says_where_and_down_leaves_nothing_running(service: Service) -> None:
    said = service.rota("up", *service.up_options)
    pids = service.pids()

    assert said.startswith("rota is up at http://127.0.0.1:")
    assert str(service.folder) in said
    assert len(said.splitlines()) == 1
    assert "already up" in service.rota("up", "--detach")
    said = service.rota("down")
    assert str(pids["controller"]) in said
    assert not any(alive(pid) for pid in pids.values())
    assert "not running" in service.rota("down")
    assert not (service.folder / "rota.sock").exists()


def test_a_job_runs_from_submit_to_its_last_byte(up: Service) -> None:
    said = up.rota("run", "--", "sh", "-c", "echo out; echo err >&2; exit 3", expect=3)

    assert "out\n" in said
    assert "err\n" in said


@pytest.mark.parametrize("victim", ["controller", "agent"])
def test_what_is_killed_comes_back_and_the_job_never_notices(up: Service, victim: str) -> None:
    go = up.folder / "go"
    job_id = submit_until(up, go)
    before = up.pids()

    os.kill(before[victim], signal.SIGKILL)

    up.until(
        lambda status: (
            status["agent"]["node"] and status[victim]["pid"] not in (None, before[victim])
        )
    )
    go.touch()
    up.rota("wait", job_id)
    after = up.pids()
    assert {name for name in before if before[name] != after[name]} == {victim}
    job = json.loads(up.rota("show", job_id, "--json"))
    assert len(job["attempts"]) == 1


def test_without_a_supervisor_they_live_on_and_the_next_one_adopts_them(up: Service) -> None:
    before = up.pids()
    os.kill(before["supervisor"], signal.SIGKILL)
    while alive(before["supervisor"]):
        pass

    up.rota("up", *up.up_options)

    after = up.pids()
    assert after["supervisor"] != before["supervisor"]
    assert (after["controller"], after["agent"]) == (before["controller"], before["agent"])


def test_running_jobs_go_on_after_down_and_are_found_again(up: Service) -> None:
    go, marker = up.folder / "go", up.folder / "marker"
    job_id = submit_until(up, go, "echo", "done", ">", str(marker))

    said = up.rota("down")
    go.touch()

    assert "1 running job" in said
    up.rota("up", *up.up_options)
    up.rota("wait", job_id)
    assert marker.read_text() == "done\n"


def test_down_can_stop_the_jobs_first(up: Service) -> None:
    up.rota("submit", "--", "sleep", "600")
    up.until(lambda status: status["jobs"].get("running"))

    said = up.rota("down", "--stop-jobs")

    assert "go on" not in said


def test_a_second_controller_on_the_same_folder_is_refused(up: Service) -> None:
    plan = json.dumps({"state_dir": str(up.folder), "host": "127.0.0.1", "port": 0})

    done = subprocess.run(
        [sys.executable, "-m", "rota.api", plan],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 2
    assert f"pid {up.pids()['controller']}" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert up.rota("run", "--", "echo", "still here") == "still here\n"


@pytest.mark.parametrize("mode", [("--detach",), ()])
def test_what_keeps_it_from_starting_is_one_line(service: Service, mode: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        in_use = service.rota("up", *mode, "--listen", f"127.0.0.1:{port}", expect=2)
    database = service.rota("up", *mode, "--database", "mysql://x/y", expect=2)
    folder = service.rota("up", *mode, "--state-dir", "/proc/nowhere", expect=2)

    for said, hint in (
        (in_use, "address already in use"),
        (database, "sqlite:///"),
        (folder, "cannot write in /proc/nowhere"),
    ):
        assert hint in said
        assert len(said.splitlines()) == 1
        assert said.startswith("rota: ")


def test_in_the_foreground_ctrl_c_ends_it(service: Service) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "rota.cli.main", "up", "--listen", "127.0.0.1:0", "--no-agent"],
        env=service.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    controller = service.status()["controller"]["pid"]

    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=PATIENCE_S)[0]

    assert first.startswith("rota is up at ")
    assert "no node here" in first
    assert rest == ""
    assert process.returncode == 0
    assert not alive(controller)


def test_an_acknowledged_submit_survives_the_kill_of_the_controller(up: Service) -> None:
    connection = UnixConnection(str(up.folder / "rota.sock"))
    ids = [Caller(connection).submit(hold=True) for _ in range(100)]
    connection.close()

    os.kill(up.pids()["controller"], signal.SIGKILL)

    up.until(lambda status: status["jobs"].get("held") == len(ids))
    connection = UnixConnection(str(up.folder / "rota.sock"))
    assert Caller(connection).submit() == ids[-1] + 1
    connection.close()
