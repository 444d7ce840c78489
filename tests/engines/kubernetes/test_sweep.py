"""The sweep of the examples, unchanged, on a Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.engines.sweep import RESULTS, swept

if TYPE_CHECKING:
    from tests.engines.kubernetes.conftest import KubeSite


def test_the_sweep_runs_on_a_kubernetes(site: KubeSite):
    assert swept(site.box) == RESULTS
