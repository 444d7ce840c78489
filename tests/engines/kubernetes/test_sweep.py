"""The sweep of the examples, by the lines of its text, on a Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.engines.kubernetes.cluster import IMAGE
from tests.engines.sweep import swept_on_engine

if TYPE_CHECKING:
    from pathlib import Path

    from tests.engines.kubernetes.cluster import Kube


def test_the_sweep_runs_on_a_kubernetes(kube: Kube, tmp_path: Path):
    found = {"KUBECONFIG": str(kube.config)}

    swept_on_engine(tmp_path, "a Kubernetes", "./run.sh", env=found, image=IMAGE)
