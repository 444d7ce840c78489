"""Fixtures of the journeys: running boxes, of one's own or shared by the tests of a process."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import Box, until
from tests.journeys.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
#: Short enough to wait for its end, long enough for a node that is only slow.
SHORT_LEASE_S = 4


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real processes take their time: no journey belongs to the inner loop."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("slow")


@pytest.fixture
def new_box(tmp_path: Path) -> Iterator[Callable[..., Box]]:
    """Make boxes that are taken down, jobs and all, when the test ends."""
    boxes: list[Box] = []

    def make(root: Path | None = None, **options: int) -> Box:
        box = Box(root or tmp_path / f"box{len(boxes)}", **options)
        boxes.append(box)
        return box

    yield make
    for box in boxes:
        box.down("--stop-jobs")


@pytest.fixture
def box(new_box: Callable[..., Box]) -> Box:
    """A box of the test's own that is up, with four CPUs."""
    made = new_box()
    made.up()
    return made


@pytest.fixture(scope="session")
def _shared_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    box = Box(tmp_path_factory.mktemp("shared"), gpus=4)
    box.up()
    yield box
    box.down("--stop-jobs")


@pytest.fixture
def home(_shared_box: Box, tmp_path: Path) -> Iterator[Box]:
    """A box with four CPUs and four pretended GPUs, idle and to itself, for tests that kill none.

    It is the same one for all of them; what a test leaves unfinished is cancelled behind it.
    """
    home = _shared_box.at(tmp_path)
    yield home
    home.api("POST", "/jobs:cancel", {"all": True})
    until(lambda: _is_idle(home), "the shared box to be idle again")


def _is_idle(box: Box) -> bool:
    _, page = box.api("GET", "/jobs?state=active&limit=1")
    return not page["items"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike those that pytest makes."""
    with tempfile.TemporaryDirectory(prefix="rota-journey-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A controller that nodes join, one for all tests of a module: each brings nodes of its own."""
    made = Site(tmp_path_factory.mktemp("site"))
    yield made
    made.close()


@pytest.fixture
def hasty_site(tmp_path: Path) -> Iterator[Site]:
    """A site that soon gives up a node that is silent."""
    made = Site(tmp_path, SHORT_LEASE_S)
    yield made
    made.close()
