"""Pilots in rota.toml, and what is set while Rota runs: one truth, kept over restarts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.box import Box

TABLE = """
[pilots.hpc]
kind = "slurm"
cpus = 16
memory = "64g"
time = "4h"
price = 1.5
partition = "main"
folder = "/shared/rota"
"""


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    box = Box(tmp_path / "box")
    box.state.mkdir()
    yield box
    box.down()


def pilots(box: Box) -> dict[str, Any]:
    return {one["name"]: one for one in box.api("GET", "/pilots")[1]["items"]}


def test_what_rota_toml_names_holds_at_each_start_and_the_rest_stays_as_it_was_set(box: Box):
    (box.state / "rota.toml").write_text(TABLE)
    box.up("--no-agent")
    box.rota("engine", "pilot", "set", "hpc", "--most", "2", "--cpus", "8")
    box.rota("engine", "pilot", "add", "slurm", "own", "--most", "7")
    changed = pilots(box)

    box.down()
    box.up("--no-agent")

    assert (changed["hpc"]["most"], changed["hpc"]["cpus"]) == (2, 8.0)
    after = pilots(box)
    assert (after["hpc"]["most"], after["hpc"]["cpus"], after["own"]["most"]) == (4, 16.0, 7)
    assert after["hpc"]["engine"] == {"partition": "main", "folder": "/shared/rota"}


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ('kind = "slurm"\nmost = 0', "pilots.hpc.most: 0 is not valid; 1 to 10000"),
        ('kind = "slurm"\npartitoin = "main"', "unknown key pilots.hpc.partitoin; did you mean"),
        ('kind = "slurm"\ntime = "soon"', "pilots.hpc.time: 'soon'"),
        ("cpus = 4", "pilots.hpc: Object missing required field `kind`"),
    ],
)
def test_a_bad_table_is_refused_before_anything_is_started(box: Box, table: str, line: str):
    (box.state / "rota.toml").write_text(f"[pilots.hpc]\n{table}\n")

    said = box.rota("up", "--detach", "--no-agent", check=False)

    assert said.returncode != 0
    assert line in said.stderr


def test_only_an_admin_sets_pilots(box: Box):
    box.up("--no-agent")
    token = box.rota(
        "token", "create", "--user", "ann", "--access", "operator", "-q"
    ).stdout.strip()

    said = box.rota(
        "engine", "pilot", "add", "slurm", "hpc", "--cpus", "1", check=False,
        env={"ROTA_TOKEN": token},
    )  # fmt: skip

    assert said.returncode != 0
    assert pilots(box) == {}
