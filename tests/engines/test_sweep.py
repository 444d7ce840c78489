"""The same sweep on this machine and on agents; the folders of the engines have the same test."""

from __future__ import annotations

import re
import subprocess
import tomllib
from typing import TYPE_CHECKING

import pytest

from rota.backends.registry import kinds
from tests.engines.sweep import RESULTS, SWEEP, TEXT, Reader
from tests.journeys.box import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HERE, AGENTS = "this machine", "machines with agents"


@pytest.fixture
def reader(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Reader]:
    """Of the row that the parameter names."""
    made = Reader(tmp_path, request.param)
    yield made
    made.close()


@pytest.mark.parametrize("reader", [HERE], indirect=True)
def test_the_sweep_runs_on_this_machine_by_the_lines_of_its_text(reader: Reader):
    (start,) = reader.lines
    console = re.findall(r"^```console\n\$ (.*)\n(.*\n.*)\n\.\.\.$", TEXT, re.MULTILINE)

    reader.type(f"{start} --listen 127.0.0.1:0")

    ((line, shown),) = console
    results = reader.type(line)
    assert results == RESULTS
    assert results[:2] == shown.splitlines()


@pytest.mark.parametrize("reader", [AGENTS], indirect=True)
def test_the_sweep_runs_on_machines_with_agents_by_the_lines_of_its_text(reader: Reader):
    start, token, join = reader.lines

    (said,) = reader.type(start.replace("0.0.0.0:8082", "127.0.0.1:0"))
    url = re.findall(r"https?://[\d.:]+", said)[0]
    reader.type(token)
    agents = [
        subprocess.Popen(
            ["sh", "-c", f"exec {join}".replace("URL", url)],
            cwd=reader.folder,
            env={
                **reader.box.env,
                "ROTA_AGENT_NAME": name,
                "ROTA_STATE_DIR": str(reader.folder / name),
            },
            stderr=subprocess.DEVNULL,
        )
        for name in ("node1", "node2")
    ]
    try:
        until(lambda: len(reader.type("rota nodes -q")) == len(agents), "both machines have joined")
        results = reader.type("./run.sh --nodelist node1")
        results += reader.type("./run.sh --nodelist node2")
    finally:
        for agent in agents:
            agent.terminate()
            agent.wait(30)

    assert results == RESULTS * 2


@pytest.mark.parametrize("path", sorted(SWEEP.glob("*.toml")), ids=lambda path: path.stem)
def test_each_table_of_the_example_is_of_its_kind_and_is_named_in_its_text(path: Path):
    (table,) = tomllib.loads(path.read_text())["engines"].values()
    named = re.findall(r"ROTA_CONFIG=(\S+)", (SWEEP / "README.md").read_text())

    assert table["kind"] == path.stem
    assert path.stem in kinds()
    assert path.name in named
