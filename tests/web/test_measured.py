"""What nodes measure, on the web page: how busy GPUs are, and what a job uses of what it asked."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.journeys.box import Box
from tests.web.browsing import Visitor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[Box]:
    """A box whose two pretended GPUs say how busy they are, every half second."""
    card = {"model": "A100", "memory_mib": 40_960, "use_percent": 0, "memory_used_mib": 4}
    made = Box(tmp_path, gpus=2)
    (tmp_path / "gpus.json").write_text(json.dumps([card, card]))
    made.env |= {"ROTA_GPUS_MEASURE_S": "0.5", "ROTA_GPUS_IDLE_AFTER": "1s"}
    made.up()
    yield made
    made.down("--stop-jobs")


def test_cells_and_curves_show_what_was_measured(
    measured: Box, browser: Browser, tmp_path: Path
) -> None:
    job = measured.job(["sleep", "600"], resources={"gpus": 1, "memory_mb": 1024})
    device = measured.reach(job, "running")["allocations"][0]["gpus"][0]
    cards = json.loads((tmp_path / "gpus.json").read_text())
    cards[device] |= {"use_percent": 87, "memory_used_mib": 12_288}
    (tmp_path / "gpus.json").write_text(json.dumps(cards))
    url = json.loads((measured.state / "controller.json").read_text())["url"]
    visitor = Visitor(browser, url)
    visitor.enter(measured.api("POST", "/tokens", {"access": "admin"})[1]["token"])

    page = visitor.go("/")
    cell = page.locator("#machines .cell.used")
    expect(cell).to_have_text("87%")
    expect(cell).to_have_attribute("aria-label", re.compile("87 % busy, 12 GiB used$"))
    visitor.go(f"/web/job/{job}")

    expect(page.get_by_role("img", name=re.compile("^CPUs: .* of 1, from"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^Memory: .* of 1 GiB"))).to_be_visible()
    cards[device]["use_percent"] = 0
    (tmp_path / "gpus.json").write_text(json.dumps(cards))
    visitor.go("/web/people")
    expect(page.locator("#idle-gpus")).to_contain_text(f"box GPU {device} A100")
    expect(page.locator("#idle-gpus").get_by_role("link")).to_have_text(str(job))
    visitor.close()
