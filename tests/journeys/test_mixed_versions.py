"""The rule of docs/upgrade.md: agents of another protocol are refused, and their jobs go on."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import rota
from rota.rpc.messages import PROTOCOL
from tests.journeys.box import DEADLINE_S, until
from tests.support.machine import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.journeys.site import Site


def other_version(folder: Path) -> str:
    """A Rota that speaks the protocol before ours; the path of its code."""
    shutil.copytree(REPOSITORY / "src" / "rota", folder / "rota")
    module = folder / "rota" / "rpc" / "messages.py"
    text = module.read_text()
    older = re.sub(r"^PROTOCOL = \d+$", f"PROTOCOL = {PROTOCOL - 1}", text, flags=re.MULTILINE)
    assert older != text
    module.write_text(older)
    return str(folder)


def test_a_node_of_another_version_is_refused_and_its_job_outlives_the_upgrade(
    site: Site, tmp_path: Path
) -> None:
    ours = site.head.env.get("PYTHONPATH", "")
    first = site.join("mixed")
    until(lambda: site.is_up("mixed"), "the node")
    go = tmp_path / "go"
    script = f"until [ -e {go} ]; do sleep 0.05; done; exit 7"
    job = site.head.job(["sh", "-c", script], node_list=["mixed"])
    site.head.reach(job, "running")

    first.terminate()
    first.wait(DEADLINE_S)
    site.head.env["PYTHONPATH"] = other_version(tmp_path / "other")
    other = site.join("mixed")
    until(lambda: "not connected to the controller" in site.log("mixed"), "the refusal")
    refused = site.log("mixed")
    other.terminate()
    other.wait(DEADLINE_S)
    site.head.env["PYTHONPATH"] = ours
    site.join("mixed")
    until(lambda: site.is_up("mixed"), "the node again")
    go.touch()

    ended = site.head.ended(job)
    assert f"this controller speaks protocol {PROTOCOL}, the agent {PROTOCOL - 1}" in refused
    assert (ended["exit_code"], len(ended["attempts"])) == (7, 1)


def test_the_version_says_what_decides_which_ones_go_together(site: Site) -> None:
    said = site.head.rota("version", "--json").stdout

    assert f'"version": "{rota.__version__}"' in said
    assert f'"protocol": {PROTOCOL}' in said
