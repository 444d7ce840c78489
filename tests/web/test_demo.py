"""The web page of a pretended cluster: an ordinary day of a lab, and the pictures of the docs."""

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

    from playwright.sync_api import Browser

#: User, project, name, GPUs, CPUs, minutes, how many of them.
WORK = (
    ("ada", "vision", "pretrain-vit", 8, 16, 55, 4),
    ("ben", "speech", "finetune-whisper", 4, 8, 40, 6),
    ("cleo", "protein", "fold", 2, 8, 30, 8),
    ("dmitri", "vision", "evaluate", 1, 4, 12, 9),
    ("ada", "vision", "tune-unet", 1, 4, 20, 6),
    ("ben", "protein", "distill", 8, 16, 25, 3),
    ("ella", "", "render", 4, 16, 35, 5),
    ("ella", "", "prepare", 0, 16, 1, 9),
)
ROWS = [[rate, seed] for rate in ("0.1", "0.03", "0.01", "0.003") for seed in "12345678"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """Twelve pretended nodes of eight GPUs, most of them taken, by five users."""
    made = Box(tmp_path_factory.mktemp("demo"))
    made.env |= {"ROTA_GPUS_MEASURE_S": "1"}
    made.up("--pretend", "12", "--seed", "3")
    rates = {"prices.rates": ["gpu 2.5", "cpu 0.05"], "prices.currency": "EUR"}
    made.api("PATCH", "/policy", {"rules": rates})
    for project in ("vision", "speech", "protein"):
        made.api("PUT", f"/projects/{project}", {"shares": 2, "quota": {"hard": {"gpus": 48}}})
    tokens = {user: _visitor_token(made, user, "user") for user, *_ in WORK}
    asks = {user: {"Authorization": f"Bearer {token}"} for user, token in tokens.items()}
    for user, project, name, gpus, cpus, minutes, count in WORK:
        body = {
            "command": ["python", "train.py"],
            "name": name,
            "project": project,
            "time_limit_s": 60 * minutes,
            "resources": {"gpus": gpus, "cpus": cpus, "memory_mb": 2048 * cpus},
        }
        for _ in range(count):
            made.api("POST", "/jobs", body, asks[user])
    sweep = {
        "command": ["python", "train.py", "{RATE}", "{SEED}"],
        "name": "sweep",
        "time_limit_s": 20,
        "priority": "high",
        "parameters": {"names": ["RATE", "SEED"], "rows": ROWS},
    }
    made.api("POST", "/jobs", sweep, asks["ben"])
    made.api("POST", "/nodes/demo9:drain", {"note": "fan of GPU 3 is loud"})
    window = {"nodes": ["demo11"], "maintenance": True, "start_at": "+90m", "duration_s": 3600}
    made.api("POST", "/reservations", {**window, "note": "new firmware"})
    yield made
    made.down("--stop-jobs")


def _visitor_token(box: Box, user: str, access: str) -> str:
    return str(box.api("POST", "/tokens", {"user": user, "access": access})[1]["token"])


@pytest.fixture
def visitor(browser: Browser, demo: Box, pictures: bool) -> Iterator[Visitor]:
    url = json.loads((demo.state / "controller.json").read_text())["url"]
    made = Visitor(browser, url, pictures=pictures)
    made.enter(_visitor_token(demo, "ada", "admin"))
    yield made
    made.close()


def test_nodes_stand_in_the_order_in_which_people_count(demo: Box, visitor: Visitor) -> None:
    counted = [f"demo{number}" for number in range(1, 13)]
    page = visitor.go("/")
    expect(page.locator("#machines > li")).to_have_count(12)

    shown = page.locator("#machines > li").evaluate_all("(all) => all.map((li) => li.dataset.node)")

    assert shown == counted
    assert demo.rota("nodes", "--quiet").stdout.split() == counted
    by_gpu = demo.rota("gpus").stdout.splitlines()[1:]
    assert list(dict.fromkeys(line.split()[0] for line in by_gpu)) == counted


def test_it_says_whose_the_gpus_are_and_when_waiting_jobs_start(visitor: Visitor) -> None:
    page = visitor.go("/")

    expect(page.locator("#owners li").first).to_have_text(re.compile(r"^\w+ \d+$"))
    expect(page.locator("#machines .cell.used").first).to_have_text(re.compile(r"^\d+%$"))
    page.get_by_role("button", name=re.compile("^Waiting")).click()
    starts = page.locator("#queue td:nth-child(6)")
    # One time each: for whom room is kept it is planned, for the others it is likely.
    expect(starts.first).to_have_text(re.compile(r"^planned \d\d:\d\d$"))
    about = starts.filter(has_text="about").first
    expect(about).to_have_text(re.compile(r"^about \d\d:\d\d$"))
    how_sure = re.compile("^nine in ten such jobs start before|^too few jobs have started here")
    expect(about.locator("span")).to_have_attribute("title", how_sure)
    expect(page.locator("#ahead .bar.likely").first).to_be_visible()
    every = page.get_by_role("button", name="All", exact=True)
    every.click()
    expect(every).to_have_attribute("aria-pressed", "true")
    visitor.picture("now")
    page.keyboard.press("t")
    visitor.picture("now-dark")


def test_elements_that_run_are_one_row_unless_they_are_searched_for(visitor: Visitor) -> None:
    page = visitor.go("/")
    sweep = page.locator("#queue tr", has_text="elements run")
    expect(sweep).to_have_count(1)
    expect(sweep).to_contain_text(re.compile(r"sweep \(\d+ elements run\)"))
    array = sweep.get_by_role("link").first.inner_text()

    page.locator("#queue-find").fill("sweep")

    single = page.get_by_role("link", name=re.compile(rf"^{array}_\d+$"))
    expect(single.first).to_be_visible()


def test_an_element_of_a_sweep_has_the_name_that_the_command_line_gives_it(
    demo: Box, visitor: Visitor
) -> None:
    array = demo.api("GET", "/jobs?name=sweep&limit=1")[1]["items"][0]["array_id"]
    demo.reach(array, "completed", "failed")
    page = visitor.go(f"/web/sweep/{array}")
    expect(page.locator("#grid td a")).to_have_count(len(ROWS))
    failed = page.locator("#failures details a").first
    expect(failed).to_have_text(re.compile(rf"^{array}_\d+$"))
    visitor.picture("sweep")

    failed.click()

    expect(page).to_have_title(re.compile(rf"^Job {array}_\d+ "))


def test_a_person_with_several_projects_is_counted_once(visitor: Visitor) -> None:
    page = visitor.go("/web/people")
    ben = page.locator("#use tr", has_text="ben")
    expect(ben).to_have_count(1)

    jobs = int(ben.locator("td").nth(6).inner_text())

    assert jobs == sum(count for user, *_, count in WORK if user == "ben") + len(ROWS)
    rows = ben.locator("td").first.get_attribute("rowspan")
    assert rows == "3"  # Two projects, and a sweep without one.
    visitor.picture("people")


def test_what_runs_shows_its_use_against_what_it_asked_for(demo: Box, visitor: Visitor) -> None:
    running = demo.api("GET", "/jobs?state=running&user=ada&name=pretrain-vit&limit=1")[1]["items"]
    job = running[0]["id"]
    until(lambda: demo.api("GET", f"/jobs/{job}/curves")[1]["attempts"], "something measured")
    page = visitor.go(f"/web/job/{job}")

    for curve in ("^CPUs: .* of 16", "^Memory: .* of 32 GiB", r"^GPU use: \d+ %"):
        expect(page.get_by_role("img", name=re.compile(curve))).to_be_visible()
    visitor.picture("job")


def test_the_plan_and_the_nodes(visitor: Visitor) -> None:
    page = visitor.go("/web/plan")
    page.get_by_label("Hours each way").select_option("1")
    expect(page.locator("#gantt .behind").first).to_be_visible()
    visitor.picture("plan")
    visitor.go("/web/care")
    # Long after it has joined: the last word counts.
    beaten = page.locator("#nodes tr", has_text="demo9").locator("td").nth(2)
    expect(beaten).to_have_text(re.compile(r"^[0-5] s ago$"))
    visitor.picture("care")
