"""A user's own Rota on a login node: no rights, no daemon of the site, allocations of its own."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.attacks.people import python_of
from tests.engines.slurm.site import USERS
from tests.journeys.box import DEADLINE_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.engines.slurm.site import Site

USER = USERS[0]


class Login:
    """What the user types, in a home of its own that the nodes share."""

    def __init__(self, home: Path) -> None:
        who = pwd.getpwnam(USER)
        home.mkdir(mode=0o700)
        os.chown(home, who.pw_uid, who.pw_gid)
        self._home, self._group = home, who.pw_gid
        python, path = python_of(USER)
        self._program = [python, "-m", "rota.cli.main"]
        self._env = {
            **{name: os.environ[name] for name in ("PATH", "SLURM_CONF")},
            **{"HOME": str(home), "USER": USER, "PYTHONPATH": path, "LANG": "C.UTF-8"},
            "ROTA_SERVER_LISTEN": "127.0.0.1:0",
        }

    def rota(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            [*self._program, *words],
            cwd=self._home, env=self._env, user=USER, group=self._group, extra_groups=[],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * DEADLINE_S,
            check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def login(slurm: Site, tmp_path: Path) -> Iterator[Login]:
    login = Login(slurm.folder / f"home-{tmp_path.name}")
    login.rota("up", "--detach", "--no-agent")
    yield login
    login.rota("down", "--stop-jobs", check=False)


def test_a_plain_user_runs_jobs_in_allocations_of_its_own(login: Login, slurm: Site):
    size = ("--cpus", "2", "--memory", "500m", "--time", "10m", "--idle", "2s")
    login.rota("engine", "pilot", "add", "slurm", "mine", *size)

    printed = login.rota("run", "--time", "1m", "--", "id", "-un")

    jobs = json.loads(slurm.run("squeue", "--json", "--states=all"))["jobs"]
    asked = [job for job in jobs if job["name"] == "rota-mine"]
    assert printed.split() == [USER]
    assert {job["user_name"] for job in asked} == {USER}
    until(lambda: not slurm.run("squeue", "-h", "-n", "rota-mine"), "the allocation to go")
