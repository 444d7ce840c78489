"""Fixtures of the web page: a browser, a box with pretended GPUs, and visitors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import Box, until
from tests.support.machine import missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser

    from tests.web.browsing import Visitor

HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pictures", action="store_true", help="renew docs/pictures/web-*.png")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A browser takes its time: none of this belongs to the inner loop."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("slow")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One for all tests of a process; the system's own."""
    try:
        from playwright.sync_api import sync_playwright

        from tests.web.browsing import find_chromium
    except ImportError as absent:
        missing(f"{absent.name} is not installed (the extra `dev` brings it)")
    program = find_chromium()
    if not program:
        missing("no Chromium on this machine")
    with sync_playwright() as playwright:
        # Root may not use the browser's own sandbox; the pages are ours.
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """A real Rota with four CPUs and four pretended GPUs, one for all tests of a module."""
    made = Box(tmp_path_factory.mktemp("web"), gpus=4)
    made.up()
    yield made
    made.down("--stop-jobs")


@pytest.fixture
def idle_box(box: Box) -> Iterator[Box]:
    """The same, with nothing on it before the test."""
    yield box
    box.api("POST", "/nodes/box:resume")
    box.api("POST", "/jobs:cancel", {"all": True})
    until(lambda: not box.api("GET", "/jobs?state=active&limit=1")[1]["items"], "an idle box")


@pytest.fixture(scope="session")
def pictures(pytestconfig: pytest.Config) -> bool:
    """Whether the pictures of the documentation are to be made."""
    return bool(pytestconfig.getoption("--pictures", default=False))


@pytest.fixture
def visit(browser: Browser, box: Box, pictures: bool) -> Iterator[Callable[..., Visitor]]:
    """``visit()`` opens the page as ourselves; ``visit("ada", "viewer")`` as somebody else."""
    from tests.web.browsing import Visitor

    base = json.loads((box.state / "controller.json").read_text())["url"]
    visitors: list[Visitor] = []

    def make(user: str = "", access: str = "admin") -> Visitor:
        visitors.append(Visitor(browser, base, pictures=pictures))
        asked = {"user": user, "access": access} if user else {"access": access}
        visitors[-1].enter(box.api("POST", "/tokens", asked)[1]["token"])
        return visitors[-1]

    yield make
    for visitor in visitors:
        visitor.close()
