"""What nodes measure, on the web page: how busy GPUs are, and what a job uses of what it asked."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.journeys.box import Box, until
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
    visitor.go("/")
    expect(cell).to_have_attribute("aria-label", re.compile("0 % busy.*, idle$"))
    visitor.go("/web/people")
    expect(page.locator("#idle-gpus")).to_contain_text(f"box GPU {device} A100")
    expect(page.locator("#idle-gpus").get_by_role("link")).to_have_text(str(job))
    visitor.close()


def test_what_a_share_asks_for_and_holds_is_told(
    measured: Box, browser: Browser, tmp_path: Path
) -> None:
    shares = {"gpus": 1, "shared": True, "gpu_memory_mb": 10_240}
    job = measured.job(["sleep", "600"], resources=shares)
    device = measured.reach(job, "running")["allocations"][0]["gpus"][0]
    cards = json.loads((tmp_path / "gpus.json").read_text())
    cards[device]["processes"] = [{"memory_mib": 31 * 1024}]
    (tmp_path / "gpus.json").write_text(json.dumps(cards))
    url = json.loads((measured.state / "controller.json").read_text())["url"]
    visitor = Visitor(browser, url)
    visitor.enter(measured.api("POST", "/tokens", {"access": "admin"})[1]["token"])

    page = visitor.go("/")
    expect(page.locator(f"tr[data-job='{job}']")).to_contain_text("1 GPU (shared 10 GiB)")
    greedy = page.locator("#machines .cell.overused")
    expect(greedy).to_have_attribute("aria-label", re.compile("more memory used than was asked"))
    visitor.go(f"/web/job/{job}")

    expect(page.locator("#job-facts")).to_contain_text("1 GPU (shared 10 GiB)")
    # Without a limit the scale begins at nothing, too.
    expect(page.get_by_role("img", name=re.compile("^Memory: .*, from 0 to "))).to_be_visible()
    told = page.locator("#events tr", has_text="gpu overused")
    expect(told).to_contain_text(f"holds 31 GiB on GPU {device}, asked for 10 GiB")
    visitor.close()


def test_care_tells_a_quarantine_from_what_a_person_did(
    measured: Box, browser: Browser, tmp_path: Path
) -> None:
    measured.api("POST", "/nodes/box:drain", {"note": "dust"})
    measured.api("POST", "/nodes/box:resume")
    cards = json.loads((tmp_path / "gpus.json").read_text())
    for more in ({"xids": [79]}, {"xids": [79, 48], "ecc_errors": 2}):
        cards[1] |= more
        (tmp_path / "gpus.json").write_text(json.dumps(cards))
        until(lambda: measured.api("GET", "/gpus")[1]["items"][1]["failures"], "a first failure")
    url = json.loads((measured.state / "controller.json").read_text())["url"]
    visitor = Visitor(browser, url)
    visitor.enter(measured.api("POST", "/tokens", {"access": "admin"})[1]["token"])

    page = visitor.go("/web/care")
    row = page.locator("#nodes tr", has_text="box")
    expect(row).to_contain_text("quarantined: GPU 1")
    expect(row.locator("td").nth(7)).to_have_text("rota")
    row.get_by_role("button", name="Resume box").click()

    expect(row).not_to_contain_text("quarantined")
    expect(row.get_by_role("button", name="Resume box")).to_have_count(0)
    visitor.close()


def test_of_a_gang_one_task_and_the_sum_of_all_are_drawn(measured: Box, browser: Browser) -> None:
    job = measured.job(["sleep", "600"], tasks=2, resources={"gpus": 1, "memory_mb": 512})
    measured.reach(job, "running")
    url = json.loads((measured.state / "controller.json").read_text())["url"]
    visitor = Visitor(browser, url)
    visitor.enter(measured.api("POST", "/tokens", {"access": "admin"})[1]["token"])

    page = visitor.go(f"/web/job/{job}")

    for name in ("Memory of task 0: .* of 512 MiB", "Memory of 2 tasks: .* of 1 GiB", "CPUs of 2"):
        expect(page.get_by_role("img", name=re.compile(f"^{name}"))).to_be_visible()
    page.get_by_label("Task", exact=True).fill("1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("img", name=re.compile("^Memory of task 1: "))).to_be_visible()
    visitor.close()
