"""The same sweep on this machine; the folders of the engines have the same test."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import pytest

from rota.backends.registry import kinds
from tests.engines.sweep import RESULTS, SWEEP, swept
from tests.journeys.box import Box

if TYPE_CHECKING:
    from pathlib import Path


def test_the_sweep_runs_on_this_machine(tmp_path: Path):
    box = Box(tmp_path / "box")
    box.up()
    try:
        assert swept(box) == RESULTS
    finally:
        box.down("--stop-jobs")


@pytest.mark.parametrize("path", sorted(SWEEP.glob("*.toml")), ids=lambda path: path.stem)
def test_each_table_of_the_example_is_of_its_kind_and_is_named_in_its_text(path: Path):
    (table,) = tomllib.loads(path.read_text())["engines"].values()
    named = re.findall(r"ROTA_CONFIG=(\S+)", (SWEEP / "README.md").read_text())

    assert table["kind"] == path.stem
    assert path.stem in kinds()
    assert path.name in named
