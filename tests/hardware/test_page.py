"""What the web page shows of a real NVIDIA GPU, in a browser on the same machine."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.hardware.cards import gpu, holding, smi
from tests.journeys.box import until
from tests.web.browsing import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.journeys.box import Box


def test_the_cell_of_a_card_shows_how_busy_it_is_and_what_is_held_of_its_memory(
    measured: Box, browser: Browser, pictures: bool
) -> None:
    job = holding(measured, "30", "computing")
    until(lambda: (gpu(measured)["use_percent"] or 0) > 50, "the GPU to be busy")
    url = json.loads((measured.state / "controller.json").read_text())["url"]
    visitor = Visitor(browser, url, pictures=pictures)
    visitor.enter(measured.api("POST", "/tokens", {"access": "admin"})[1]["token"])

    page = visitor.go("/")
    cell = page.locator("#machines .cell.used")
    expect(cell).to_have_text(re.compile(r"^\d+%$"))
    words = re.search(r"(\d+) % busy, ([\d.]+) GiB used", cell.get_attribute("aria-label") or "")
    use_percent, held_gib = smi("utilization.gpu"), smi("memory.used") / 1024
    visitor.picture("now-h200")
    visitor.go(f"/web/job/{job}")
    expect(page.get_by_role("img", name=re.compile("^GPU memory: "))).to_be_visible()
    (measured.work / "go").touch()
    measured.ended(job)

    assert words, cell.get_attribute("aria-label")
    assert abs(float(words[1]) - use_percent) <= 10
    assert abs(float(words[2]) - held_gib) <= 0.05 * held_gib
    visitor.close()
