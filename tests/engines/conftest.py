"""A controller without an agent, and an engine host beside it that can be killed and started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import Box, until

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real processes take their time: none of these belongs to the inner loop.

    What shares a running engine is run by one process, so that each engine is started once.
    """
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("slow")
            item.add_marker(pytest.mark.xdist_group(_group(item)))
            if _needs_engine(item):
                item.add_marker("engine")


def _needs_engine(item: pytest.Item) -> bool:
    """A real Slurm, Kubernetes or Ray, which takes its time: ``script/test engines``."""
    backend = item.callspec.params.get("running", "") if hasattr(item, "callspec") else ""
    asked = set(getattr(item, "fixturenames", ()))
    if backend == "agents":
        return False
    return bool(asked & {"slurm", "kube", "ray", "running"}) or item.path.stem == "test_kubelet"


def _group(item: pytest.Item) -> str:
    room = item.path.relative_to(HERE).parts[0]
    if room == "conformance":
        backend = item.callspec.params.get("running", "") if hasattr(item, "callspec") else ""
        backend = "kubernetes" if item.path.stem == "test_kubelet" else backend
        return f"conformance-{backend.partition('-')[0]}"
    if room in ("pilots", "quotas"):
        return "kubernetes" if "kubernetes" in item.path.stem else "slurm-sites"
    return room if (HERE / room).is_dir() else "hosts"


class EngineSite:
    """``box`` is the controller, ``folder`` belongs to the engine."""

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
        return [node["state"] for node in page["items"]].count("up") == 2

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
def site(tmp_path: Path) -> Iterator[EngineSite]:
    box = Box(tmp_path / "box")
    folder = tmp_path / "engine"
    folder.mkdir()
    made = EngineSite(box, folder)
    box.up("--no-agent")
    made.begin()
    yield made
    made.stop()
    box.down("--stop-jobs")
