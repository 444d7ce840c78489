"""Every console block of README.md and docs/ runs here and prints what the page shows.

``blocks.toml`` holds what a page needs first, and why a block cannot run in a test.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.docs.console import PAGES, Block, Shell, blocks, surroundings

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE: dict[str, Any] = tomllib.loads((Path(__file__).parent / "blocks.toml").read_text())
BLOCKS = {page.name: found for page in PAGES if (found := blocks(page))}
#: Why it cannot run in a test; the page's own words are then all that is checked.
LEFT_OUT = TABLE["not_run"]


def _fits(entry: dict[str, Any], block: Block) -> bool:
    return entry["page"] == block.page and entry["has"] in block.text


def _run(page: str) -> list[Block]:
    return [
        one
        for one in BLOCKS[page]
        if one.steps and not any(_fits(entry, one) for entry in LEFT_OUT)
    ]


RUN = {page: kept for page in BLOCKS if (kept := _run(page))}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of a reader with a Rota that runs, four CPUs and two pretended GPUs."""
    home = tmp_path_factory.mktemp("reader")
    (home / "gpus.json").write_text(json.dumps([{"model": "A100", "memory_mib": 40960}] * 2))
    shell = Shell(home, surroundings(home) | {"ROTA_FAKE_GPUS": "gpus.json"})
    try:
        shell.prepare(["rota up --detach"])
        yield home
    finally:
        shell.run("rota down --stop-jobs")


@pytest.fixture
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    """A reader of the page, with the service that the page speaks of."""
    page = TABLE["pages"].get(request.param, {})
    home = tmp_path if page.get("alone") else request.getfixturevalue("shared")
    work = tmp_path / "proj"
    work.mkdir()
    made = Shell(work, surroundings(home) | page.get("env", {}))
    try:
        made.prepare(page.get("first", []))
        yield made
    finally:
        made.run("rota down --stop-jobs" if page.get("alone") else "rota cancel --all --yes")


@pytest.mark.slow
@pytest.mark.parametrize(("shell", "page"), [(page, page) for page in RUN], indirect=["shell"])
def test_a_page_shows_what_its_commands_print(shell: Shell, page: str):
    wrong: list[str] = []

    for block in RUN[page]:
        given = next((one for one in TABLE["given"] if _fits(one, block)), {})
        shell.prepare(given.get("first", []))
        wrong += shell.take(block, given)

    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("entry", [*LEFT_OUT, *TABLE["given"]], ids=lambda one: one["has"])
def test_every_line_of_the_table_speaks_of_a_block(entry):
    assert any(_fits(entry, block) for block in BLOCKS[entry["page"]])


def test_most_blocks_run():
    assert sum(map(len, RUN.values())) > 80
