"""The sweep of the examples, by the lines of its text, on a Ray: anywhere, and on one node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.engines.sweep import lines_for, swept_on_engine

if TYPE_CHECKING:
    from pathlib import Path

    from tests.engines.ray.cluster import Ray


def test_the_sweep_runs_on_a_ray(ray: Ray, tmp_path: Path):
    on_one = next(line for line in lines_for("several at once") if line.startswith("./"))

    swept_on_engine(tmp_path, "a Ray", "./run.sh", on_one, env={}, address=ray.url)
