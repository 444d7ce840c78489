"""Pods of a real Kubernetes in which Rota's own agent runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engines.kubernetes.cluster import IMAGE
from tests.journeys.box import Box, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.engines.kubernetes.cluster import Kube


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    box = Box(tmp_path / "box")
    box.up("--no-agent")
    yield box
    box.down("--stop-jobs")


def test_jobs_run_in_a_pod_that_goes_when_it_is_idle(box: Box, kube: Kube):
    box.rota(
        *("engine", "pilot", "add", "kubernetes", "lab", "--cpus", "2", "--memory", "300m"),
        *("--idle", "2s", "--set", f"kubeconfig={kube.config}", "--set", f"image={IMAGE}"),
    )

    jobs = [box.job(["/bin/sh", "-c", "exit 3"], time_limit_s=60) for _ in range(2)]

    for job in jobs:
        assert box.ended(job)["exit_code"] == 3
    until(lambda: not kube.show("pods")["items"], "the pod to go")
    until(lambda: not box.api("GET", "/nodes")[1]["items"], "the node to leave the list")
    assert box.api("GET", "/tokens")[1]["items"] == []
