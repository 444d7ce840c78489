"""``rota up`` serves the engines of its settings."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from rota.cli.service.supervise import PidLock
from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.engines.conftest import EngineSite


def test_up_serves_the_engines_of_its_settings_and_starts_them_again(unserved: EngineSite):
    box = unserved.box
    box.env |= unserved.env
    lock = PidLock(box.state / "engines" / "lab" / "engine.lock")
    box.up("--no-agent")
    until(unserved.is_up, "the nodes of the engine")
    job = box.job(["sh", "-c", "sleep 1; echo done"])
    box.reach(job, "running")

    os.kill(first := lock.holder(), signal.SIGKILL)

    assert box.ended(job)["state"] == "completed"
    assert until(lambda: lock.holder() not in (0, first), "another process of the engine")
    assert box.rota("engine", "list").stdout == "lab  tests.engines.folder_engine:make\n"


def test_a_bad_table_is_refused_in_one_line_before_anything_is_started(unserved: EngineSite):
    box = unserved.box
    toml = unserved.folder / "rota.toml"
    box.env |= unserved.env

    toml.write_text('[engines.lab]\nkind = "slurmm"\n')
    kind = box.refusal("up", "--detach")
    toml.write_text('[engines.lab]\nkind = "tests.engines.folder_engine:make"\nfoldr = "/x"\n')
    key = box.refusal("up", "--detach")
    toml.write_text("engines = 3\n")
    shape = box.refusal("up", "--detach")

    assert "engines.lab.kind: 'slurmm' is not valid" in kind
    assert "unknown key engines.lab.foldr; did you mean folder?" in key
    assert "engines is a section" in shape
    assert not PidLock(box.state / "controller.lock").holder()


def test_an_engine_that_is_not_in_the_settings_is_named(unserved: EngineSite):
    unserved.box.env |= unserved.env

    line = unserved.box.refusal("engine", "run", "other")

    assert "'other' is not in rota.toml; it has these: lab" in line
