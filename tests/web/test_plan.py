"""The page of the plan where there is more than it draws, and on a phone."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from rota.web.views import plan
from tests.api.running import Running, running
from tests.web.browsing import Visitor, swarm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

NODES = plan.NODES_MAX + 2


@pytest.fixture
def server() -> Iterator[Running]:
    with (
        tempfile.TemporaryDirectory(prefix="rota-") as name,
        running(Path(name)) as started,
        swarm(started.socket_path, agents=NODES, gpus=1),
    ):
        yield started


@pytest.fixture
def visitor(browser: Browser, server: Running) -> Iterator[Visitor]:
    made = Visitor(browser, f"http://127.0.0.1:{server.port}")
    made.enter(server.local().post("/tokens", {"access": "admin"}).json["token"])
    yield made
    made.close()


def test_the_plan_says_what_it_leaves_out_and_finds_nodes(
    server: Running, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "PAST", 2)
    caller = server.local()
    array = caller.submit(["sleep", "600"], array="0-2", resources={"cpus": 1})
    caller.until(3, "running")
    page = visitor.go("/web/plan")
    cut = page.locator("#gantt-cut")
    rows = page.locator("#gantt .names text")

    expect(cut).to_have_text("Not all is here: 2 more nodes are not drawn: find them by name.")
    expect(rows).to_have_count(plan.NODES_MAX)
    named = re.compile(rf"^job {array}_1 ")
    expect(page.locator("#gantt").get_by_role("link", name=named)).to_be_visible()
    caller.delete(f"/jobs/{array}")
    expect(cut).to_contain_text("of the jobs that ended only the newest 2 are drawn")
    names = [node["name"] for node in caller.get("/nodes?limit=1000").json["items"]]
    (left_out, _) = sorted({*names} - {*rows.all_text_contents()})
    page.get_by_label("Find").fill(left_out.upper())

    expect(rows).to_have_text([left_out])
    page.get_by_label("Find").fill("nowhere")
    expect(page.locator("#gantt")).to_have_text("No node is named like that.")


def test_on_a_phone_names_stay_beside_their_bars_and_jobs_say_why(
    server: Running, visitor: Visitor
) -> None:
    held = server.local().submit("true", hold=True, resources={"cpus": 1})
    visitor.page.set_viewport_size({"width": 360, "height": 700})

    page = visitor.go("/web/plan")
    name, box = page.locator("#gantt .names text").first, page.locator("#gantt")
    expect(name).to_be_visible()
    moved = box.evaluate("(one) => { one.scrollLeft = 400; return one.scrollLeft; }")
    place, around = name.bounding_box(), box.bounding_box()
    visitor.go("/")
    row = page.locator(f"tr[data-job='{held}']")

    assert moved == 400
    assert place is not None
    assert around is not None
    assert around["x"] <= place["x"] < around["x"] + around["width"] / 4
    expect(row.locator(".phone")).to_be_visible()
    expect(row.locator(".phone")).not_to_be_empty()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
