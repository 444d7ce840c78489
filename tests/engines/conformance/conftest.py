"""One bench per backend and test process, its engine behind it, and a scenario for each test."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engines.conformance.bench_agents import AgentsBench
from tests.engines.conformance.report import PROPERTY
from tests.engines.conformance.scenarios import HAS, lacking
from tests.support.machine import missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engines.conformance.bench import Bench
    from tests.engines.conformance.bench_kubernetes import RunningKube
    from tests.engines.conformance.bench_ray import RunningRay
    from tests.engines.slurm.site import Site


@pytest.fixture(scope="session")
def short_folder() -> Iterator[Path]:
    """Paths of sockets are short, and every user may enter it."""
    folder = Path(tempfile.mkdtemp(prefix="rc", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def slurm(shared_folder: Path) -> Iterator[Site]:
    from tests.engines.slurm.site import Site

    if os.geteuid() != 0:
        missing("a real Slurm needs the rights of root")
    site = Site(shared_folder / "engines" / "slurm-up", min_job_age_s=5)
    try:
        try:
            site.start()
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            missing(f"no Slurm can be started on this machine: {error}")
        os.environ["SLURM_CONF"] = site.variables["SLURM_CONF"]  # For its commands, here.
        yield site
    finally:
        os.environ.pop("SLURM_CONF", None)
        site.stop()


@pytest.fixture(scope="session")
def kube(shared_folder: Path, short_folder: Path) -> Iterator[RunningKube]:
    try:
        from tests.engines.conformance.bench_kubernetes import RunningKube
    except ImportError as absent:
        missing(f"{absent.name} is not installed (the extra `kubernetes` brings it)")
    up = shared_folder / "engines" / "kube-up"
    if os.geteuid() != 0:
        missing("a Kubernetes for tests needs the rights of root")
    try:
        made = RunningKube(up, short_folder, "--nodes", "3", "--gpus", "4", "--cpus", "4")
    except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
        missing(f"no Kubernetes can be started on this machine: {error}")
    yield made
    made.stop()


@pytest.fixture(scope="session")
def ray(shared_folder: Path, short_folder: Path) -> Iterator[RunningRay]:
    from tests.engines.conformance.bench_ray import RunningRay

    try:
        made = RunningRay(shared_folder / "engines" / "ray-up", short_folder)
    except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
        missing(f"no Ray can be started on this machine: {error}")
    yield made
    made.stop()


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
    running.at(running.root / "work" / request.node.originalname[5:60])
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
