"""A node that anybody starts for a while: it goes by itself, and its jobs wait for another."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.box import Box, until


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    box = Box(tmp_path / "box")
    box.up("--no-agent")
    yield box
    box.down("--stop-jobs")


def test_at_its_end_a_node_ends_its_jobs_and_takes_itself_off_the_list(box: Box, tmp_path: Path):
    made = json.loads(box.rota("token", "create", "--join", "--json").stdout)
    (tmp_path / "token").write_text(made["token"])
    words = ["agent", "--join", made["url"], "--token-file", str(tmp_path / "token")]
    words += ["--name", "guest", "--lifetime", "20s", "--unlimited"]
    job = box.job(["/bin/sleep", "600"], retries=1)
    with subprocess.Popen(
        [sys.executable, "-m", "rota.cli.main", *words],
        env={**box.env, "ROTA_STATE_DIR": str(tmp_path / "agent")},
    ) as agent:
        box.reach(job, "running")

        left = agent.wait(60)

    assert left == 0
    assert box.api("GET", "/nodes")[1]["items"] == []
    shown = until(
        lambda: (one := box.api("GET", f"/jobs/{job}")[1])["state"] == "queued" and one, "it waits"
    )
    assert shown["attempts"][0]["cause"].partition(":")[0] in ("migrated", "node_lost")
