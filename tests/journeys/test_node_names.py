"""Machines become nodes: with a join token once, after that with a key of their own."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import DEADLINE_S, until
from tests.journeys.conftest import SHORT_LEASE_S
from tests.journeys.site import Site

if TYPE_CHECKING:
    from pathlib import Path


def join_token(site: Site, *options: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(
        site.head.rota("token", "create", "--join", *options, "--json").stdout
    )
    return found


def said(site: Site, log: str, words: str) -> str:
    """The line of an agent's log, or of the controller's, that has these words in it."""
    file = site.head.state / "controller.log" if log == "controller" else site.root / f"{log}.log"

    def find() -> str:
        lines = file.read_text().splitlines() if file.exists() else []
        return next((line for line in lines if words in line), "")

    found: str = until(find, f"{words!r} in the log of {log}")
    return found


def leave(site: Site, name: str) -> None:
    agent = site.agents.pop(name)
    agent.terminate()
    agent.wait(DEADLINE_S)
    until(lambda: not site.is_up(name), f"{name} to be down")


def restart(site: Site, name: str, token: str = "") -> None:
    leave(site, name)
    site.join(name, token=token)
    until(lambda: site.is_up(name), f"{name} to be back")


@pytest.mark.parametrize(
    "command",
    [
        ["rota.cli.main", "agent", "--join", "https://head:8082", "--token", "rota_ab_hunter2"],
        ["rota.cli.main", "agent", "--join", "https://head:8082", "--token=rota_ab_hunter2"],
        ["rota.agent", "--state-dir", "x", "--url", "https://h", "--token", "rota_ab_hunter2"],
        ["rota.cli.main", "up", "--database", "postgresql://rota:hunter2@db/rota"],
    ],
)
def test_a_secret_on_a_command_line_is_refused_in_a_line_that_does_not_repeat_it(
    tmp_path: Path, command: list[str]
):
    env = {**os.environ, "ROTA_STATE_DIR": str(tmp_path / "state")}

    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=tmp_path, env=env, capture_output=True, text=True,
        timeout=DEADLINE_S, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert "can read" in done.stderr
    assert "(ps)" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    assert not (tmp_path / "state").exists()


def test_a_file_that_holds_no_token_is_named(site: Site):
    empty = site.head.work / "empty"
    empty.write_text("two words\n")

    lines = [
        site.head.rota("agent", "--join", site.url, "--token-file", file, check=False).stderr
        for file in ("absent", "empty")
    ]

    assert "--token-file: absent: No such file" in lines[0]
    assert "--token-file: empty must hold one token and nothing else" in lines[1]


def test_a_node_joins_from_a_file_once_and_comes_back_with_a_key_that_nobody_else_reads(
    site: Site,
):
    token = join_token(site)["token"]
    file = site.root / "join.token"
    file.write_text(token + "\n")
    state = site.root / "filed"
    command = [sys.executable, "-m", "rota.cli.main", "agent", "--join", site.url]
    command += ["--name", "filed", "--state-dir", str(state), "--token-file", str(file)]
    env = {**site.head.env, "ROTA_STATE_DIR": str(state)}
    with (site.root / "filed.log").open("w") as log:
        site.agents["filed"] = subprocess.Popen(command, env=env, stderr=log, stdout=log, text=True)
    until(lambda: site.is_up("filed"), "the node")
    key = json.loads((state / "agent" / "node.key").read_text())["keys"][0]

    restart(site, "filed")
    site.head.kill("controller")
    until(lambda: site.is_up("filed"), "the node to be back")
    site.join("rogue", token=token)
    refusal = said(site, "rogue", "is used up (by filed)")

    assert "not connected to the controller: join token" in refusal
    assert said(site, "controller", "(node rogue, token")
    assert stat.S_IMODE((state / "agent" / "node.key").stat().st_mode) == 0o600
    held = [path for path in state.rglob("*") if path.is_file()]
    assert not any(token.partition(".")[0].encode() in path.read_bytes() for path in held)
    database = b"".join(path.read_bytes() for path in site.head.state.glob("rota.db*"))
    assert key.encode() not in database


def test_a_new_key_survives_restarts_and_the_old_one_is_refused(site: Site):
    site.join("turned", token=join_token(site)["token"])
    until(lambda: site.is_up("turned"), "the node")
    file = site.root / "turned" / "agent" / "node.key"
    stolen = file.read_text()

    told = site.head.rota("node", "rotate", "turned").stdout
    site.head.kill("controller")
    until(lambda: site.is_up("turned"), "the node to be back")
    restart(site, "turned")

    assert told.strip() == f"turned has the key {site.node('turned')['key']}"
    assert len(json.loads(file.read_text())["keys"]) == 1
    leave(site, "turned")
    thief = site.root / "thief" / "agent"
    thief.mkdir(parents=True)
    (thief / "node.key").write_text(stolen)
    site.join("turned", folder="thief", token="")
    assert said(site, "thief", "the key of this node is not valid")


def test_a_key_that_was_copied_from_another_node_does_not_speak_for_a_second_name(site: Site):
    site.join("victim", token=join_token(site)["token"])
    until(lambda: site.is_up("victim"), "the node")
    folder = site.root / "twin" / "agent"
    folder.mkdir(parents=True)
    shutil.copy(site.root / "victim" / "agent" / "node.key", folder)

    site.join("twin", token="")

    assert said(site, "twin", "this is the key of node victim, it does not speak for twin")
    assert site.node("twin") == {}


def test_a_node_waits_for_an_operator_and_is_let_in(site: Site):
    site.join("guest", token=join_token(site, "--approve")["token"])
    said(site, "guest", "waits for an operator's approval")
    listed = site.head.rota("nodes").stdout

    site.head.rota("node", "approve", "--all")
    until(lambda: site.is_up("guest"), "the node")

    line = next(line for line in listed.splitlines() if line.startswith("guest"))
    assert "pending" in line
    assert site.head.rota("node", "approve", "--all").stdout == "no node waits for approval\n"


def test_a_node_that_is_removed_is_cut_off_and_its_job_goes_on_elsewhere_after_the_lease(
    hasty_site: Site,
):
    site = hasty_site
    made = join_token(site, "--uses", "3")
    site.join("bad", token=made["token"])
    job = site.witness_job("moved", retries=1, backoff_s=0)
    until(lambda: len(site.witness("moved")) == 1, "the job to begin")
    site.join("good", token=made["token"])
    until(lambda: site.is_up("good"), "the other node")

    told = site.head.rota("node", "remove", "bad", "--dry-run")
    asked = site.head.rota("node", "remove", "bad", check=False)
    removed = site.head.rota("node", "remove", "bad", "--yes")
    cut_off = said(site, "bad", "node bad was removed by an operator")
    refused = said(site, "bad", "the key of this node is not valid")
    until(lambda: len(site.witness("moved")) == 3, "the job to begin elsewhere")

    assert asked.returncode == 2
    assert told.stdout == "would remove bad\n"
    assert f"bad runs jobs {job}" in told.stderr
    assert f"bad runs jobs {job}" in asked.stderr
    assert "add --yes" in asked.stderr
    assert removed.stdout == "removed bad\n"
    assert f"rota token revoke {made['id']}" in removed.stderr
    assert "not connected to the controller" in cut_off
    assert "not connected to the controller" in refused
    began, ended, again = site.witness("moved")
    assert [began[:2], ended[:2]] == [["began", "bad"], ["ended", "bad"]]
    assert again[:2] == ["began", "good"]
    assert float(again[2]) > float(ended[2])
    assert site.node("bad") == {}


def test_a_copy_of_an_agents_folder_is_refused_and_touches_no_job_of_the_original(
    hasty_site: Site,
):
    site = hasty_site
    site.join("first")
    until(lambda: site.is_up("first"), "the node")
    site.witness_job("kept")
    until(lambda: site.witness("kept"), "the job to begin")
    shutil.copytree(
        site.root / "first", site.root / "copy", ignore=shutil.ignore_patterns("*.sock", "*.lock")
    )

    site.join("first", folder="copy")
    said(site, "copy", "is in use")
    over_s = time.monotonic() + 2 * SHORT_LEASE_S
    until(lambda: site.witness("kept")[1:] or time.monotonic() > over_s, "two leases to pass")

    assert [line[:2] for line in site.witness("kept")] == [["began", "first"]]
    assert site.is_up("first")


#: Loads what it needs while it may, for the interpreter may lie in a folder of root.
AS_NOBODY = """
import encodings.idna, os, pwd, sys
import uvloop
import rota.agent.__main__ as agent
from rota.agent.machine.discover import Overrides, discover
from pathlib import Path
discover(Path("/"), Overrides())
them = pwd.getpwnam("nobody")
os.setgroups([]); os.setgid(them.pw_gid); os.setuid(them.pw_uid)
sys.exit(agent.main(sys.argv[1:]))
"""


@pytest.mark.root
def test_an_agent_that_is_not_root_gets_the_jobs_of_its_own_user_only(site: Site):
    with tempfile.TemporaryDirectory(prefix="rota-") as state:
        shutil.chown(state, "nobody")
        command = [sys.executable, "-c", AS_NOBODY, "--state-dir", state, "--name", "theirs"]
        env = {**site.head.env, "ROTA_TOKEN": join_token(site)["token"]}
        with (site.root / "theirs.log").open("w") as log:
            agent = subprocess.Popen([*command, "--url", site.url], env=env, stderr=log, stdout=log)
        until(lambda: site.is_up("theirs"), "the node")

        job = site.head.job(["true"], node_list=["theirs"])
        _, why = site.head.api("GET", f"/jobs/{job}/why")
        agent.terminate()
        agent.wait(DEADLINE_S)

    assert site.node("theirs")["user"] == "nobody"
    assert "theirs: runs only jobs of nobody" in json.dumps(why)
    site.head.api("DELETE", f"/jobs/{job}")


def test_a_token_that_names_a_certificate_and_an_address_without_one_are_refused_at_once(
    tmp_path: Path,
) -> None:
    env = {**os.environ, "ROTA_STATE_DIR": str(tmp_path / "state"), "ROTA_TOKEN": "rota_ab_c.print"}

    done = subprocess.run(
        [sys.executable, "-m", "rota.cli.main", "agent", "--join", "http://127.0.0.1:9"],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert "http://127.0.0.1:9: the token names a certificate" in done.stderr
