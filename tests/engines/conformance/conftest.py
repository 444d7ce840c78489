"""One bench per backend and test process, its engine behind it, and a scenario for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engines.conformance.bench_agents import AgentsBench
from tests.engines.conformance.report import PROPERTY
from tests.engines.conformance.scenarios import HAS, lacking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.engines.conformance.bench import Bench


def make_bench(backend: str, root: Path, request: pytest.FixtureRequest) -> Bench:
    """Each engine is started when the first bench asks for it."""
    if backend == "agents":
        return AgentsBench(root)
    if backend == "kubernetes":
        from tests.engines.conformance.bench_kubernetes import KubernetesBench

        return KubernetesBench(root, request.getfixturevalue("kube"))
    if backend == "ray":
        from tests.engines.conformance.bench_ray import RayBench

        return RayBench(root, request.getfixturevalue("ray"))
    from tests.engines.conformance.bench_slurm import SlurmCommandsBench, SlurmRestBench

    kind = SlurmRestBench if backend == "slurm-rest" else SlurmCommandsBench
    return kind(root, request.getfixturevalue("slurm"))


@pytest.fixture(scope="session", params=list(HAS))
def running(request: pytest.FixtureRequest, short_folder: Path) -> Iterator[Bench]:
    """Shared by all scenarios of one backend."""
    root = short_folder / request.param
    root.mkdir()
    bench = make_bench(request.param, root, request)
    try:
        bench.open()
        yield bench
    finally:
        bench.close()


@pytest.fixture
def bench(running: Bench, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Idle and in order, with a folder of the test's own; what is left is ended behind it."""
    run = getattr(request.node, "execution_count", 1)  # A second run finds no marks of the first.
    running.at(running.root / "work" / f"{request.node.originalname[5:60]}-{run}")
    yield running
    running.tidy()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a backend does not have is left out before its engine is started for it."""
    mark, call = item.get_closest_marker("scenario"), getattr(item, "callspec", None)
    if mark is None or call is None:
        return
    item.user_properties.append((PROPERTY, (call.params["running"], mark.args[0])))
    if lack := lacking(call.params["running"], mark.args[0]):
        pytest.skip(f"not there: {lack}")
