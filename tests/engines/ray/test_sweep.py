"""The sweep of the examples, unchanged, on a Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.engines.sweep import RESULTS, swept

if TYPE_CHECKING:
    from tests.engines.ray.conftest import RaySite


def test_the_sweep_runs_on_a_ray(site: RaySite):
    assert swept(site.box) == RESULTS
