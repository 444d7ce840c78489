"""A site of made-up machines beside real ones: nobody takes one for the other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from rota.cli.service.serve import _plan
from rota.cli.service.service_options import UpOptions
from rota.cli.service.state_folder import StateFolder
from rota.config import load
from rota.paths import SYSTEM_SOCKET, sockets
from rota.pretended import REMARK
from tests.journeys.box import Box, until

if TYPE_CHECKING:
    from collections.abc import Iterator


PROGRAM = """import rota
with rota.connect() as cluster:
    cluster.nodes()
"""
ASYNC_PROGRAM = """import asyncio, rota
async def look():
    async with rota.connect_async() as cluster:
        await cluster.nodes()
asyncio.run(look())
"""


def said_by(program: str, environment: dict[str, str]) -> str:
    """What a program of Python says on standard error."""
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return done.stderr


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path, as homes have: a socket lies some folders below."""
    with TemporaryDirectory(prefix="rota-home-") as name:
        yield Path(name)


@pytest.fixture
def person(home: Path) -> Iterator[Box]:
    """Somebody at home who named no folder."""
    made = Box(home)
    made.env |= {"HOME": str(home), "ROTA_SERVER_SOCKET": "none"}
    for name in ("ROTA_STATE_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        made.env.pop(name, None)
    yield made
    for folder in ("rota", "rota-pretended"):
        made.rota("down", "--state-dir", str(home / ".local/state" / folder), check=False)


@pytest.mark.slow
def test_made_up_machines_leave_the_real_ones_alone_and_every_answer_says_so(
    person: Box, home: Path
) -> None:
    folder = home / ".local/state/rota-pretended"
    person.up("--pretend", "2")
    person.up()
    assert person.rota("nodes", "--quiet").stdout.split() == ["box"], "the real ones come first"

    told = {"ROTA_STATE_DIR": str(folder)}
    submitted = person.rota("submit", "--", "sleep", "600", env=told)
    assert (submitted.stdout, submitted.stderr) == ("1\n", f"rota: {REMARK}\n")
    until(lambda: "running" in person.rota("queue", env=told).stdout, "the job to run")
    assert "machines:   pretended: nothing is executed" in person.rota("status", env=told).stdout
    url = json.loads((folder / "controller.json").read_text())["url"]
    with urlopen(f"{url}/web/sign-in") as page:
        assert b"pretended machines" in page.read()
    doctor = person.rota("doctor", env=told, check=False)
    assert "warn  machines      pretended: nothing is executed" in doctor.stdout
    assert doctor.stderr.count(REMARK) == 1
    for program in (PROGRAM, ASYNC_PROGRAM):
        assert REMARK in said_by(program, person.env | told)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    asked = json.dumps(call | {"params": {"name": "queue", "arguments": {}}})
    assert REMARK in person.rota("mcp", stdin=f"{asked}\n", env=told).stdout
    assert "pretended" not in person.rota("queue").stderr

    assert "pretended" not in person.rota("down").stdout
    left = person.rota("down").stdout
    assert "its machines were pretended; jobs that ran there end with it: 1" in left


@pytest.mark.slow
def test_who_has_another_rota_at_hand_is_told_how_to_reach_the_made_up_one(
    person: Box, home: Path
) -> None:
    person.up()

    said = person.rota("up", "--detach", "--pretend", "1").stdout.splitlines()

    assert said[1] == f"to use it: export ROTA_STATE_DIR={home}/.local/state/rota-pretended"


def test_made_up_machines_never_take_the_socket_for_everybody(tmp_path: Path) -> None:
    environment = {"ROTA_STATE_DIR": str(tmp_path), "ROTA_SERVER_SOCKET": str(tmp_path / "all")}
    place, settings = StateFolder(tmp_path), load(environment)

    real = _plan(place, settings, UpOptions())
    made_up = _plan(place, settings, UpOptions(pretend=2))

    assert real.sockets == (str(tmp_path / "all"),)
    assert made_up.sockets == ()


def test_commands_look_for_made_up_machines_last(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    made_up = tmp_path / ".local/state/rota-pretended/rota.sock"
    assert made_up not in sockets(home)

    made_up.parent.mkdir(parents=True)
    made_up.touch()

    assert sockets(home)[-2:] == [SYSTEM_SOCKET, made_up]
