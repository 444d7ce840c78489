"""The web page of a site: its GPUs, its machines, its people, its plan, and who sees what of it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.web.browsing import Visitor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Route

    from tests.journeys.box import Box

    Visit = Callable[..., Visitor]


def test_the_cells_of_gpus_follow_the_jobs(idle_box: Box, visit: Visit) -> None:
    page = visit().go("/")
    strip = page.locator("[data-node=box]")
    expect(strip.locator(".cell.free")).to_have_count(4)

    whole = idle_box.job(["sleep", "600"], resources={"gpus": 2})
    shares = {"gpus": 1, "shared": True, "gpu_memory_mb": 10240}
    shared = idle_box.job(["sleep", "600"], resources=shares)

    expect(strip.locator(".cell.used")).to_have_count(2)
    expect(strip.locator(".cell.used").first).to_have_attribute("href", f"/web/job/{whole}")
    named = re.compile(rf"^GPU \d A100: shared, by .*, job {shared}, 10 GiB of 40 GiB given$")
    expect(strip.locator(".cell.shared")).to_have_attribute("aria-label", named)
    expect(page.locator("#machines-sum")).to_contain_text("1 of 4 GPUs free")
    idle_box.api("DELETE", f"/jobs/{whole}")
    idle_box.api("DELETE", f"/jobs/{shared}")
    expect(strip.locator(".cell.free")).to_have_count(4)


def test_what_starts_next_is_on_a_time_axis_with_reservations(idle_box: Box, visit: Visit) -> None:
    idle_box.reach(idle_box.job(["sleep", "60"], resources={"cpus": 4}, time_limit_s=60), "running")
    waits = idle_box.job(["true"], resources={"cpus": 4}, time_limit_s=60)
    window = {"nodes": ["box"], "maintenance": True, "start_at": "+2h", "duration_s": 3600}
    made = idle_box.api("POST", "/reservations", window)[1]

    page = visit().go("/")

    ahead = page.locator("#ahead")
    link = ahead.get_by_role("link", name=re.compile(f"^job {waits} .* on box$"))
    expect(link).to_have_attribute("href", f"/web/job/{waits}")
    expect(ahead.get_by_role("img", name=re.compile("^maintenance"))).to_be_visible()
    start = page.locator(f"tr[data-job='{waits}'] td").nth(5)
    expect(start).to_have_text(re.compile(r"^planned \d\d:\d\d$"))
    assert "nine in ten" not in start.inner_html()
    page.goto(f"{page.url}web/job/{waits}")
    lines = page.locator("#why-lines")
    expect(lines).to_contain_text("it is expected to start")
    expect(lines).not_to_contain_text("probably")
    idle_box.api("DELETE", f"/reservations/{made['id']}")


def test_each_role_sees_its_buttons_only(idle_box: Box, visit: Visit) -> None:
    job = idle_box.job(["sleep", "600"])
    idle_box.reach(job, "running")
    row = f"tr[data-job='{job}']"

    viewer = visit("vera", "viewer").go("/")
    expect(viewer.locator(row)).to_contain_text("running")
    expect(viewer.get_by_role("button", name="New job")).to_have_count(0)
    expect(viewer.get_by_role("button", name=re.compile("^Cancel"))).to_have_count(0)
    expect(viewer.get_by_role("link", name="Care")).to_have_count(0)
    user = visit("ulla", "user").go("/")
    expect(user.get_by_role("button", name="New job")).to_be_visible()
    expect(user.locator(row)).to_contain_text("running")
    expect(user.get_by_role("button", name=re.compile("^Cancel"))).to_have_count(0)
    user.goto(f"{user.url}web/job/{job}")
    expect(user.locator("#job-state")).to_have_text("running")
    expect(user.locator("#job-buttons button")).to_have_count(0)
    expect(user.locator("#log")).to_have_count(0)  # The log is its owner's.
    operator = visit("otto", "operator").go("/")

    operator.get_by_role("button", name=f"Cancel {job}").click()

    assert idle_box.ended(job)["state"] == "cancelled"
    expect(operator.get_by_role("link", name="Care")).to_be_visible()


def test_a_node_is_drained_with_a_reason_and_resumed(idle_box: Box, visit: Visit) -> None:
    page = visit("hanna").go("/web/care")
    expect(page.locator("#findings")).to_contain_text("1 of 1 connected")
    page.once("dialog", lambda dialog: dialog.accept("a new card"))

    page.get_by_role("button", name="Drain box").click()

    row = page.locator("#nodes tr", has_text="box")
    expect(row.locator(".state")).to_have_text("drained")
    expect(row).to_contain_text("a new card")
    expect(row).to_contain_text("hanna")
    page.get_by_label("User").fill("hanna")
    page.get_by_label("Action").fill("drain-node")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#audit tbody tr")).to_have_count(1)
    expect(page.locator("#audit tbody tr")).to_contain_text("hanna")
    page.get_by_role("button", name="Resume box").click()
    expect(row.locator(".state")).to_have_text("up")
    page.get_by_label("Action").fill("resume-node")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#audit tbody tr")).to_have_count(1)


def test_what_runs_of_a_sweep_is_cancelled_in_its_row(idle_box: Box, visit: Visit) -> None:
    array = idle_box.job(["sleep", "600"], array="0-5", resources={"cpus": 1})
    page = visit().go("/")
    row = page.locator("#queue tr", has_text="4 elements run")
    expect(row).to_contain_text("running")

    row.get_by_role("button", name=f"Cancel all {array}").click()

    assert idle_box.ended(array)["state"] == "cancelled"
    expect(page.locator("#queue tbody")).to_have_text("Nothing runs and nothing waits.")


def test_use_is_shown_by_user_and_saved_as_a_sheet(
    idle_box: Box, visit: Visit, tmp_path: Path
) -> None:
    idle_box.ran(["true"], resources={"gpus": 1})
    idle_box.rota("quota", "set", "--default", "--gpus", "3")
    page = visit().go("/web/people")
    me = idle_box.api("GET", "/status")[1]["user"]
    expect(page.locator("#use")).to_contain_text(me)
    expect(page.locator("#quotas")).to_contain_text("gpus")

    with page.expect_download() as saving:
        page.get_by_role("button", name="CSV of use").click()
    saving.value.save_as(tmp_path / "use.csv")

    head, *rows = (tmp_path / "use.csv").read_text().splitlines()
    assert head.startswith('"user","project","gpu_hours"')
    assert any(row.startswith(f'"{me}",') for row in rows)
    expect(page.locator("#shares tbody tr")).not_to_have_count(0)
    for table, line in (("quotas", '"user","*","gpus","hard",'), ("fair share", f'"","{me}",')):
        with page.expect_download() as saving:
            page.get_by_role("button", name=f"CSV of {table}").click()
        saving.value.save_as(tmp_path / "more.csv")
        assert line in (tmp_path / "more.csv").read_text()
    idle_box.rota("quota", "set", "--default", "--gpus", "none")


def test_the_plan_shows_what_ran_and_foretells_a_job(idle_box: Box, visit: Visit) -> None:
    over = idle_box.ran(["true"])["id"]
    runs = idle_box.job(["sleep", "600"], resources={"gpus": 4}, time_limit_s=900)
    idle_box.reach(runs, "running")
    page = visit().go("/web/plan")
    gantt = page.locator("#gantt")
    expect(gantt.get_by_role("link", name=re.compile(rf"^job {over} .*: ran,"))).to_be_visible()
    expect(gantt.get_by_role("link", name=re.compile(rf"^job {runs} .*: runs,"))).to_be_visible()

    page.get_by_role("button", name="When would it start?").last.click()

    told = page.locator("#if-answer")
    expect(told).to_contain_text(re.compile(r"It would start at \d\d:\d\d on box"))
    expect(told).to_contain_text("not enough free gpus")


def test_rules_are_compared_on_the_jobs_that_there_were(idle_box: Box, visit: Visit) -> None:
    for _ in range(3):
        idle_box.ran(["true"])
    page = visit().go("/web/plan")

    for policy in ("fcfs", "sjf"):
        page.locator("#rules-form [name=policy]").select_option(policy)
        page.get_by_role("button", name="Compare").click()
        expect(page.locator("#rules thead")).to_contain_text(policy)

    heads = page.locator("#rules thead th").all_inner_texts()
    assert heads == ["Figure", "now", "fcfs", "sjf"]
    expect(page.locator("#rules-line")).to_contain_text("jobs")
    expect(page.locator("#rules tbody tr", has_text="mean wait").first.locator("td")).to_have_count(
        3
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_can_be_read_by_everybody(idle_box: Box, visit: Visit, theme: str) -> None:
    runs = idle_box.job(["sleep", "600"], resources={"gpus": 2}, pty=True, time_limit_s=600)
    idle_box.job(["sleep", "600"], resources={"gpus": 3}, hold=True)
    waits = idle_box.job(["sleep", "600"], resources={"gpus": 3}, time_limit_s=600)
    values = {"names": ["LR", "SEED"], "rows": [["0.1", "1"], ["0.1", "2"]]}
    array = idle_box.job("exit $((ROTA_PARAM_SEED - 1))", parameters=values)
    idle_box.reach(array, "failed", "completed")
    idle_box.reach(runs, "running")
    visitor = visit()
    visitor.page.evaluate(f"localStorage.setItem('rota-theme', '{theme}')")
    filled = {
        "/": f"tr[data-job='{waits}']",
        f"/web/job/{runs}": "#tries tbody tr",
        f"/web/job/{waits}": "#why-help button",
        f"/web/sweep/{array}": "#grid a",
        "/web/care": "#audit tbody tr",
        "/web/people": "#use tbody tr",
        "/web/plan": "#gantt rect",
    }

    found = []
    for path, sign in filled.items():
        page = visitor.go(path)
        expect(page.locator(sign).first).to_be_visible()
        assert page.locator("html").get_attribute("data-theme") == theme
        found += _violations(path, page)
    page.get_by_role("button", name="New job").click()
    found += _violations("new job", page)
    page.goto(f"{visitor.base}/web/sign-in?used=1")
    found += _violations("signing in", page)
    page.set_viewport_size({"width": 360, "height": 700})
    page = visitor.go("/")
    expect(page.locator(filled["/"])).to_be_visible()
    found += _violations("a phone", page)

    assert not found
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def _violations(where: str, page) -> list[str]:
    answer = Axe().run(page).response["violations"]
    return [f"{where}: {one['id']}: {node['html']}" for one in answer for node in one["nodes"]]


def test_the_keys_lead_to_pages_and_turn_the_theme(idle_box: Box, visit: Visit) -> None:
    page = visit().go("/")
    before = page.locator("html").get_attribute("data-theme")

    page.keyboard.press("t")
    assert page.locator("html").get_attribute("data-theme") != before
    page.keyboard.press("/")
    expect(page.locator("#queue-find")).to_be_focused()
    page.keyboard.press("2")
    expect(page.locator("#queue-find")).to_have_value("2")
    page.locator("main").focus()
    page.keyboard.press("2")

    expect(page).to_have_url(re.compile("/web/plan$"))


def test_a_link_of_the_command_line_opens_the_page(box: Box, browser: Browser) -> None:
    visitor = Visitor(browser, "http://" + urlsplit(box.status()["controller"]["url"]).netloc)
    link = box.rota("web", "--print").stdout.strip()

    visitor.page.goto(link)

    expect(visitor.page).to_have_url(f"{visitor.base}/")
    expect(visitor.page.locator("#line")).to_have_text("live")
    visitor.page.get_by_role("button", name="Sign out").click()
    expect(visitor.page).to_have_url(f"{visitor.base}/web/sign-in")
    visitor.page.goto(link)
    expect(visitor.page.get_by_text("This link was used")).to_be_visible()
    visitor.close()


def test_the_command_opens_the_browser_that_there_is(box: Box) -> None:
    opened = box.rota("web", env={"BROWSER": "echo %s"}).stdout
    no_browser = {"BROWSER": "false %s", "PATH": "/nowhere"}
    printed = box.rota("web", env=no_browser)

    assert re.match(r"http://127.0.0.1:\d+/web/enter/\S+\nopened the web page", opened)
    assert "there is no browser here" in printed.stderr
    assert "/web/enter/" in printed.stdout


def test_a_page_that_asks_too_much_at_once_asks_again(idle_box: Box, visit: Visit) -> None:
    job = idle_box.job(["sleep", "600"], name="asked twice")
    visitor = visit("ingrid", "user")
    refused: list[str] = []

    def put_off_once(route: Route) -> None:
        if route.request.url in refused:
            route.continue_()
            return
        refused.append(route.request.url)
        body = json.dumps({"detail": "too many requests", "code": "busy"})
        route.fulfill(status=429, headers={"Retry-After": "1"}, body=body)

    visitor.page.route("**/web/feed/**", put_off_once)
    page = visitor.go("/")

    expect(page.locator(f"tr[data-job='{job}']")).to_contain_text("asked twice")
    assert refused
    assert page.locator("#notes .bad").count() == 0
    visitor.wrong = [line for line in visitor.wrong if "429" not in line]
    idle_box.api("DELETE", f"/jobs/{job}")


def test_a_page_comes_back_after_the_controller_and_ends_with_its_token(
    idle_box: Box, visit: Visit
) -> None:
    visitor = visit("solveig", "user")
    page = visitor.go("/")

    idle_box.kill("controller")
    expect(page.locator("#line")).to_have_text("connecting")
    expect(page.locator("#line")).to_have_text("live")
    job = idle_box.job(["sleep", "600"], name="after")
    expect(page.locator(f"tr[data-job='{job}']")).to_contain_text("running")
    # While nobody answered the browser said so; all else would be a fault.
    visitor.wrong = [line for line in visitor.wrong if "net::ERR_" not in line]
    assert not visitor.wrong
    tokens = idle_box.api("GET", "/tokens")[1]["items"]
    mine = next(token["id"] for token in tokens if token["user"] == "solveig")
    idle_box.api("DELETE", f"/tokens/{mine}")
    idle_box.api("DELETE", f"/jobs/{job}")

    expect(page).to_have_url(re.compile("/web/sign-in"))
    visitor.wrong = [line for line in visitor.wrong if "401" not in line]
