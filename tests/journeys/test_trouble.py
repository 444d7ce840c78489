"""The machine's own trouble: ports, folders, disks and databases that are not as they should be."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import Box, until
from tests.support.machine import missing, small_disk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_second_controller_on_the_same_state_is_refused(box: Box) -> None:
    box.kill("supervisor")
    until(lambda: not box.pid("supervisor"), "the supervisor to be dead")

    plan = {"state_dir": str(box.state), "host": "127.0.0.1", "port": 0}
    second = subprocess.run(
        [sys.executable, "-m", "rota.api", json.dumps(plan)],
        env=box.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert second.returncode == 2
    assert f"pid {box.pid('controller')}" in second.stderr
    assert len(second.stderr.splitlines()) == 1
    assert box.ran(["true"])["state"] == "completed", "the first goes on"


def test_a_port_in_use_is_named_and_nothing_is_left_running(new_box: Callable[..., Box]) -> None:
    box = new_box()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        line = box.refusal("up", "--detach", "--listen", f"127.0.0.1:{port}")

    assert f"127.0.0.1:{port}: address already in use" in line
    assert "--listen" in line
    assert not any(box.pid(part) for part in ("supervisor", "controller"))


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(
    new_box: Callable[..., Box],
) -> None:
    box = new_box()
    box.state.mkdir()
    (box.state / "rota.db").write_bytes(b"my diary, not a database\n" * 500)

    line = box.refusal("up", "--detach")

    assert "rota.db" in line
    assert "is not a Rota database" in line
    assert (box.state / "rota.db").read_bytes().startswith(b"my diary")


def test_a_database_of_a_newer_rota_is_refused(new_box: Callable[..., Box]) -> None:
    box = new_box()
    box.up()
    box.rota("down")
    with sqlite3.connect(box.state / "rota.db") as database:
        database.execute("UPDATE alembic_version SET version_num = '999'")
    database.close()

    line = box.refusal("up", "--detach")

    assert "999" in line or "newer" in line


def test_a_database_that_cannot_be_reached_is_refused_without_its_password(
    new_box: Callable[..., Box],
) -> None:
    box = new_box()

    box.env["ROTA_SERVER_DATABASE"] = "postgresql://me:hush@127.0.0.1:1/nothing"

    line = box.refusal("up", "--detach")

    assert "127.0.0.1" in line
    assert "hush" not in line


@pytest.mark.root
def test_a_read_only_state_folder_is_refused_in_one_line(new_box: Callable[..., Box]) -> None:
    box = new_box()
    with small_disk(box.state, "ro,size=1m"):
        line = box.refusal("up", "--detach")

    assert str(box.state) in line
    assert "read-only" in line.lower()


def test_down_stops_rota_although_its_disk_has_become_read_only(box: Box) -> None:
    # What runs has files open for writing, so only the command sees it so.
    mounts = f"mount --bind {box.state} {box.state} && mount -o remount,ro,bind {box.state}"
    down = f"{sys.executable} -m rota.cli.main down"
    environment = {**os.environ, **box.env}
    script = ["unshare", "-m", "sh", "-c", f"{mounts} && ! touch {box.state}/x && exec {down}"]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr or "mount" in done.stderr:
        missing(done.stderr.strip())

    assert done.stdout.startswith("stopped supervisor (pid")
    assert not box.pid("supervisor")


def test_a_rota_whose_state_folder_was_removed_ends_and_leaves_its_jobs_running(box: Box) -> None:
    job = box.job(["sleep", "600"])
    pid = box.reach(job, "running")["attempts"][0]["pid"]
    parts = [box.pid(name) for name in ("supervisor", "controller", "agent")]

    moved = box.state.with_name("removed")
    box.state.rename(moved)

    until(
        lambda: not any(os.path.exists(f"/proc/{part}") for part in parts), "the end of its parts"
    )
    assert os.path.exists(f"/proc/{pid}")
    moved.rename(box.state)
    os.kill(pid, signal.SIGKILL)


def test_a_state_folder_that_is_a_file_is_refused_in_one_line(new_box: Callable[..., Box]) -> None:
    box = new_box()
    box.state.write_text("in the way")

    line = box.refusal("up", "--detach")

    assert f"{box.state} is not a folder; move it away" in line


@pytest.mark.root
@pytest.mark.parametrize("below", ["", "state"])
def test_root_works_in_no_folder_of_a_user(new_box: Callable[..., Box], below: str) -> None:
    box = new_box()
    home = box.state.parent / "home"
    home.mkdir()
    shutil.chown(home, "nobody")

    line = box.refusal("up", "--detach", env={"ROTA_STATE_DIR": str(home / below)})

    assert f"{home} belongs to nobody, and this is root" in line
    assert list(home.iterdir()) == []


def test_a_state_folder_in_which_everybody_may_write_is_refused(
    new_box: Callable[..., Box],
) -> None:
    box = new_box()
    box.state.mkdir()
    box.state.chmod(0o777)

    assert box.refusal("up", "--detach").endswith(f"chmod o-w {box.state}")


@pytest.mark.parametrize(
    ("variable", "value", "clue"),
    [
        ("ROTA_SERVER_LISTTEN", "x", "ROTA_SERVER_LISTEN"),
        ("ROTA_SCHEDULING_POLICY", "fifoo", "fifo"),
        ("SCHEDULING_POLICY", "magic", "fifo"),
        ("QUOTA_PROVIDER", "bank", "local"),
        ("ROTA_AGENT_CPUS", "-3", "-3"),
        ("ROTA_CONFIG", "/no/such/rota.toml", "/no/such/rota.toml"),
        ("ROTA_FAKE_GPUS", "/no/such/gpus.json", "/no/such/gpus.json"),
    ],
)
def test_a_bad_setting_is_refused_at_start_with_the_known_ones(
    new_box: Callable[..., Box], variable: str, value: str, clue: str
) -> None:
    box = new_box()

    line = box.refusal("up", "--detach", env={variable: value})

    assert clue in line


@pytest.mark.root
@pytest.mark.parametrize("free_kib", [0, 8, 64])
def test_a_start_on_a_full_disk_is_refused_in_one_line_and_works_once_there_is_room(
    new_box: Callable[..., Box], free_kib: int
) -> None:
    box = new_box()
    with small_disk(box.state, "size=12m"):
        (box.state / "supervisor.lock").touch()
        ballast = box.state / "ballast"
        _fill(ballast)
        os.truncate(ballast, ballast.stat().st_size - free_kib * 1024)

        line = box.refusal("up", "--detach")
        ballast.unlink()
        box.up()
        box.down()

    assert str(box.state) in line
    assert ("full" if free_kib else "No space left") in line


@pytest.mark.root
@pytest.mark.timeout(300)
def test_a_full_disk_refuses_new_jobs_keeps_the_old_ones_and_recovers(
    new_box: Callable[..., Box],
) -> None:
    box = new_box()
    with small_disk(box.state, "size=12m"):
        try:
            _fill_and_free(box)
        finally:
            box.down("--stop-jobs")


def _fill_and_free(box: Box) -> None:
    box.up()
    kept = [box.job("exit 3") for _ in range(3)]
    for job in kept:
        box.ended(job)
    ballast = box.state / "ballast"
    _fill(ballast)

    accepted, refusal = [], {}
    for _ in range(2000):
        status, answer = box.api("POST", "/jobs", {"script": "#" * 5000, "workdir": "/"})
        if status != 201:
            refusal = answer
            break
        accepted.append(answer["id"])
    line = until(lambda: _refused(box, ballast), "a submit that is refused")
    ballast.unlink()

    assert refusal["status"] == 503
    assert "disk" in refusal["detail"] or "space" in refusal["detail"]
    assert "disk" in line or "space" in line
    later = until(lambda: _try_submit(box), "submits to be taken again")
    assert box.ended(later)["state"] == "completed"
    box.kill("controller")
    assert [box.ended(job)["exit_code"] for job in kept] == [3, 3, 3]
    for job in accepted:
        assert box.ended(job)["id"] == job, "what was acknowledged stays"


def _refused(box: Box, ballast: Path) -> str:
    """The line with which a submit is refused, once what others left of the disk is filled."""
    _fill(ballast)
    done = box.rota("submit", "--", "true", check=False)
    return done.stderr if done.returncode else ""


def _fill(path: Path) -> None:
    """Write until the disk is full."""
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12):
            try:
                while True:
                    file.write(os.urandom(size))
            except OSError:
                continue


def _try_submit(box: Box) -> int:
    status, answer = box.api("POST", "/jobs", {"command": ["true"], "workdir": "/"})
    return int(answer["id"]) if status == 201 else 0
