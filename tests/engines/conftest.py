"""The engines that tests share, and a controller with the host of an engine beside it.

Each real engine is started once in a test process, when the first test asks for it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engines.conformance.scenarios import CORE, CORE_BACKENDS
from tests.engines.kubernetes.cluster import Kube
from tests.engines.ray.cluster import Ray
from tests.engines.slurm.site import Site
from tests.journeys.box import Box, until
from tests.support.machine import missing

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
#: The fixture of the engine behind each backend of the scenarios; own agents have none.
KINDS = {"slurm-rest": "slurm", "slurm-commands": "slurm", "kubernetes": "kube", "ray": "ray"}
REPOSITORY = HERE.parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real processes take their time: none of these belongs to the inner loop.

    What shares a running engine carries its marker and is run by one process, so that each engine
    is started once. A core of the scenarios runs with all other tests; the rest belongs to
    ``script/test engines``.
    """
    for item in items:
        if HERE in item.path.parents:
            engine = _engine_of(item)
            item.add_marker("slow")
            if engine:
                item.add_marker(f"{engine}_engine")
            if engine and not _is_core(item):
                item.add_marker("engine")


def _engine_of(item: pytest.Item) -> str:
    """The kind of real engine that it needs; empty: none."""
    if item.path.stem == "test_kubelet":
        return "kube"
    asked = set(getattr(item, "fixturenames", ()))
    kind = KINDS.get(_backend_of(item), "")
    return kind or next((kind for kind in KINDS.values() if kind in asked), "")


def _backend_of(item: pytest.Item) -> str:
    return str(item.callspec.params.get("running", "")) if hasattr(item, "callspec") else ""


def _is_core(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("scenario")
    return mark is not None and _backend_of(item) in CORE_BACKENDS and mark.args[0] in CORE


@contextmanager
def running(engine: Site | Kube | Ray) -> Iterator[None]:
    """Started here and stopped behind it; a machine that cannot have it says why."""
    name = type(engine).__name__
    if os.geteuid() != 0:
        missing(f"an engine for tests ({name}) needs the rights of root")
    try:
        try:
            engine.start()
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            missing(f"no engine ({name}) can be started on this machine: {error}")
        yield
    finally:
        engine.stop()


@pytest.fixture(scope="session")
def short_folder() -> Iterator[Path]:
    """Paths of sockets are short, and every user may enter it."""
    folder = Path(tempfile.mkdtemp(prefix="rc", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def slurm(shared_folder: Path) -> Iterator[Site]:
    site = Site(shared_folder / "engines" / "slurm-up")
    with running(site), pytest.MonkeyPatch.context() as patch:
        # For its commands, ours and the driver's.
        patch.setenv("SLURM_CONF", site.variables["SLURM_CONF"])
        yield site


@pytest.fixture(scope="session")
def kube(shared_folder: Path, short_folder: Path) -> Iterator[Kube]:
    """Its nodes run commands."""
    up = shared_folder / "engines" / "kube-up"
    cluster = Kube(up, short_folder, "--nodes", "3", "--gpus", "4")
    with running(cluster):
        yield cluster


@pytest.fixture(scope="session")
def ray(shared_folder: Path, short_folder: Path) -> Iterator[Ray]:
    cluster = Ray(shared_folder / "engines" / "ray-up", short_folder)
    with running(cluster):
        yield cluster


class EngineSite:
    """``box`` is the controller, ``folder`` belongs to the engine, which has so many machines."""

    machines = 2

    def __init__(self, box: Box, folder: Path, give_back_s: float = 60.0) -> None:
        self.box, self.folder = box, folder
        self._host: subprocess.Popen[bytes] | None = None
        box.env["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), box.env.get("PYTHONPATH", "")])
        self.env = {**box.env, "ROTA_CONFIG": str(folder / "rota.toml")}
        (folder / "rota.toml").write_text(
            "[engines.lab]\n"
            'kind = "tests.engines.folder_engine:make"\n'
            f'folder = "{folder}"\n'
            f"give_back_s = {give_back_s}\n"
        )

    def begin(self) -> None:
        with open(self.folder / "host.log", "ab") as log:
            self._host = subprocess.Popen(
                [sys.executable, "-m", "rota.cli.main", "engine", "run", "lab"],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        until(self.is_up, "the nodes of the engine")

    def is_up(self) -> bool:
        _, page = self.box.api("GET", "/nodes")
        return [node["state"] for node in page["items"]].count("up") == self.machines

    def kill(self) -> None:
        assert self._host is not None
        self._host.send_signal(signal.SIGKILL)
        self._host.wait()

    def stop(self) -> None:
        if self._host is not None and self._host.poll() is None:
            self._host.terminate()
            self._host.wait(20)

    def fault(self, kind: str) -> None:
        path = self.folder / "fault"
        path.write_text(kind) if kind else path.unlink(missing_ok=True)

    def log(self) -> str:
        return (self.folder / "host.log").read_text()

    def inside(self) -> list[Path]:
        """What the engine has been given, ever."""
        return sorted((self.folder / "jobs").iterdir())


@pytest.fixture
def unserved(tmp_path: Path) -> Iterator[EngineSite]:
    """Nothing runs yet."""
    folder = tmp_path / "engine"
    folder.mkdir()
    made = EngineSite(Box(tmp_path / "box"), folder)
    yield made
    made.box.down("--stop-jobs")


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[EngineSite]:
    """With an indirect parameter: what waits inside for so many seconds is given back."""
    box = Box(tmp_path / "box")
    folder = tmp_path / "engine"
    folder.mkdir()
    made = EngineSite(box, folder, getattr(request, "param", 60.0))
    box.up("--no-agent")
    made.begin()
    yield made
    made.stop()
    box.down("--stop-jobs")
