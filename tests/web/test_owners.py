"""The web page of a site that several people share: whose is what, at one look."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.api.joining import Joiner
from tests.api.running import Running, running
from tests.web.browsing import Visitor, swarm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

NODES, GPUS = 12, 8
#: User, name, GPUs, minutes, how many of them.
WORK = (
    ("ada", "pretrain", 8, 55, 4),
    ("ben", "finetune", 4, 40, 6),
    ("cleo", "protein-fold", 2, 30, 8),
    ("dmitri", "evaluate", 1, 12, 7),
    ("ada", "pretrain-large", 16, 50, 1),
    ("ben", "distill", 8, 25, 3),
    ("ella", "render", 4, 35, 3),
)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """Twelve nodes of eight GPUs, most of them taken, by five users."""
    with (
        tempfile.TemporaryDirectory(prefix="rota-") as name,
        running(Path(name)) as started,
        swarm(started.socket_path, agents=NODES, gpus=GPUS, cpus=64),
    ):
        callers = {user: started.as_user(user) for user, *_ in WORK}
        for user, title, gpus, minutes, count in WORK:
            tasks = max(1, gpus // GPUS)
            size = {"cpus": 4, "gpus": gpus // tasks, "memory_mb": 32768}
            for number in range(count):
                callers[user].submit(
                    ["sleep", "3000"],
                    name=f"{title}-{number + 1}",
                    resources=size,
                    tasks=tasks,
                    time_limit_s=minutes * 60,
                )
        admin = started.local()
        admin.post("/nodes/sim0011:drain", {"note": "fan of GPU 3 is loud"})
        window = {"nodes": ["sim0000", "sim0001"], "maintenance": True, "duration_s": 3600}
        admin.post("/reservations", {**window, "start_at": "+90m", "note": "new firmware"})
        admin.put("/projects/vision", {"quota": {"hard": {"gpus": 48}}})
        yield started


@pytest.fixture
def visitor(browser: Browser, server: Running) -> Iterator[Visitor]:
    made = Visitor(browser, f"http://127.0.0.1:{server.port}")
    asked = {"user": "ben", "access": "admin"}
    made.enter(server.local().post("/tokens", asked).json["token"])
    yield made
    made.close()


def test_cells_have_the_colour_of_their_owner(visitor: Visitor) -> None:
    page = visitor.go("/")
    cells = page.locator("#machines .cell.used")
    expect(cells.first).to_be_visible()

    read = "(cells) => cells.map((c) => [c.textContent, getComputedStyle(c).backgroundColor])"
    colours: dict[str, set[str]] = {}
    for owner, colour in cells.evaluate_all(read):
        colours.setdefault(owner, set()).add(colour)

    assert len(colours) >= 4
    assert all(len(found) == 1 for found in colours.values())
    assert len(set.union(*colours.values())) == len(colours)
    expect(page.locator("#ahead rect").first).to_be_visible()


def test_ones_own_jobs_come_first(visitor: Visitor) -> None:
    page = visitor.go("/")
    rows = page.locator("#queue tbody tr")
    expect(rows.first).to_be_visible()

    owners = rows.evaluate_all("(rows) => rows.map((row) => row.children[2].textContent)")

    mine = [owner == "ben" for owner in owners]
    assert any(mine)
    assert mine == sorted(mine, reverse=True)


def test_the_plan_and_the_people_and_the_care_of_a_shared_site(visitor: Visitor) -> None:
    page = visitor.go("/web/plan")
    page.get_by_label("Hours each way").select_option("1")
    expect(page.locator("#gantt .bar.maintenance")).to_have_count(0)
    page.get_by_label("Hours each way").select_option("6")
    expect(page.locator("#gantt .bar.maintenance")).to_have_count(2)
    page.get_by_label("Hours each way").select_option("1")
    expect(page.locator("#gantt .bar.plan").first).to_be_visible()

    visitor.go("/web/people")
    expect(page.locator("#use tbody tr")).to_have_count(5)
    expect(page.locator("#quotas")).to_contain_text("project vision")
    visitor.go("/web/care")
    expect(page.locator("#nodes tbody tr")).to_have_count(NODES)
    drained = page.locator("#nodes tr", has_text="fan of GPU 3 is loud")
    expect(drained.locator(".state")).to_have_text("drained")


def test_a_node_that_wants_to_join_is_approved_on_the_page(
    server: Running, visitor: Visitor
) -> None:
    token = server.local().post("/tokens", {"access": "agent", "approve": True}).json["token"]
    joiner = Joiner(server, "newcomer")
    assert "approve" in joiner.joins(token, home="rack7:/var/lib/rota/agent")
    page = visitor.go("/web/care")
    expect(page.locator("#pending-list")).to_contain_text("rack7:/var/lib/rota/agent")

    page.get_by_role("button", name="Approve newcomer").click()

    expect(page.locator("#pending")).to_be_hidden()
    assert joiner.joins(joiner.key) == ""
    expect(page.locator("#nodes")).to_contain_text("newcomer")
    joiner.close()
    server.local().delete("/nodes/newcomer")


def test_a_sweep_is_submitted_by_its_parameters(server: Running, visitor: Visitor) -> None:
    page = visitor.go("/")
    page.get_by_role("button", name="New job").click()
    page.get_by_label("Command").fill("true")
    page.get_by_label("Name").fill("by-parameters")
    page.get_by_label("CPUs").fill("100")
    page.get_by_label("Parameters").fill("lr=0.1,0.01; seed")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("#submit-answer")).to_contain_text("'seed' is not valid")
    page.get_by_label("Parameters").fill("lr=0.1,0.01; seed=1,2,3")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("#submit-answer")).to_contain_text("cpus")  # No node has a hundred.
    page.get_by_label("CPUs").fill("1")

    page.get_by_role("button", name="Submit").click()

    expect(page.locator("#notes")).to_contain_text("submitted job")
    (array,) = {job["array_id"] for job in server.local().list(name="by-parameters")["items"]}
    page.goto(f"{visitor.base}/web/sweep/{array}")
    expect(page.locator("#grid td a")).to_have_count(6)
    visitor.wrong = [line for line in visitor.wrong if "422" not in line and "400" not in line]
