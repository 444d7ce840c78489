"""A page that goes on while somebody works on it: focus, clicks, several windows, a lost line."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.api.running import running
from tests.web.browsing import Visitor, swarm

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser

    from tests.journeys.box import Box

    Visit = Callable[..., Visitor]


def test_what_somebody_is_at_stays_when_something_else_changes(idle_box: Box, visit: Visit) -> None:
    first = idle_box.job(["sleep", "600"], name="first")
    idle_box.reach(first, "running")
    page = visit().go("/")
    held = page.get_by_role("button", name=f"Cancel {first}", exact=True)
    held.focus()
    handle = held.element_handle()

    second = idle_box.job(["sleep", "600"], name="second", hold=True)
    expect(page.locator(f"tr[data-job='{second}']")).to_contain_text("second")

    expect(held).to_be_focused()
    # The very same button: a click that has begun ends on it.
    assert handle.evaluate("(button) => button.isConnected")
    page.keyboard.press("Enter")
    assert idle_box.ended(first)["state"] == "cancelled"


def test_a_button_that_stayed_does_what_it_says_now(idle_box: Box, visit: Visit) -> None:
    """The buttons of the pager say the same on each page, and lead elsewhere."""
    for number in range(101):
        idle_box.job(["true"], name=f"job {number}", hold=True)
    page = visit().go("/")
    pager = page.locator("#queue-pager")
    onward = pager.get_by_role("button", name="Next")
    expect(pager).to_contain_text("1 to 50 of 101")

    onward.click()
    expect(pager).to_contain_text("51 to 100 of 101")
    onward.click()
    expect(pager).to_contain_text("101 to 101 of 101")
    expect(onward).to_be_disabled()
    pager.get_by_role("button", name="Back").click()

    expect(pager).to_contain_text("51 to 100 of 101")


@pytest.mark.parametrize(
    ("field", "given", "told"),
    [
        ("Memory (MiB)", "8G", "Memory (MiB): '8G' is not valid; expected a number, such as 8192"),
        ("GPUs", "one", "GPUs: 'one' is not valid; expected a number, such as 2"),
        (
            "Time limit (minutes)",
            "1h",
            "Time limit (minutes): '1h' is not valid; expected a number, such as 60",
        ),
    ],
)
def test_a_word_in_place_of_a_number_is_refused(
    idle_box: Box, visit: Visit, field: str, given: str, told: str
) -> None:
    page = visit().go("/")
    page.keyboard.press("n")
    form = page.locator("#submit-form")
    form.get_by_label("Command").fill("true")
    form.get_by_label("Name").fill("never submitted")
    form.get_by_label(field).fill(given)

    form.get_by_role("button", name="Submit").click()

    expect(page.locator("#submit-answer")).to_have_text(told)
    assert not idle_box.api("GET", "/jobs?search=never")[1]["items"]


def test_who_clicks_twice_submits_once(idle_box: Box, visit: Visit) -> None:
    page = visit().go("/")
    page.keyboard.press("n")
    form = page.locator("#submit-form")
    form.get_by_label("Command").fill("true")
    form.get_by_label("Name").fill("clicked twice")
    form.get_by_role("button", name="Submit").dblclick()
    expect(page.locator("#notes")).to_contain_text("submitted job")
    job = page.locator("#notes p").first.inner_text().split()[-1]
    idle_box.ended(int(job))

    page.goto(f"{page.url}web/job/{job}")
    page.get_by_role("button", name="Redo").dblclick()
    expect(page).not_to_have_url(re.compile(f"/job/{job}$"))

    made = idle_box.api("GET", "/jobs?name=clicked%20twice")[1]["items"]
    assert len([one for one in made if one["name"] == "clicked twice"]) == 2


def test_two_windows_of_one_browser_stay_live(idle_box: Box, visit: Visit) -> None:
    """A browser opens six lines to a server, for all windows: open pages must not use them up."""
    jobs = [idle_box.job(["sh", "-c", f"echo I am {n}; sleep 600"]) for n in range(2)]
    visitor = visit()
    windows = []
    for number, job in enumerate(jobs):
        idle_box.reach(job, "running")
        page = visitor.another()
        page.goto(f"{visitor.base}/web/job/{job}")
        windows.append(page)
        expect(page.locator("#log")).to_contain_text(f"I am {number}")

    windows[-1].get_by_role("button", name="Cancel").click()

    expect(windows[-1].locator("#job-state")).to_have_text("cancelled")
    expect(windows[0].locator("#line")).to_have_text("live")


def test_a_log_goes_on_after_the_controller_was_away(idle_box: Box, visit: Visit) -> None:
    word = idle_box.work / "word-after"
    line = f"echo before; while [ ! -e {word} ]; do sleep 0.05; done; cat {word}; sleep 600"
    job = idle_box.job(["sh", "-c", line])
    visitor = visit()
    page = visitor.go(f"/web/job/{job}")
    log = page.locator("#log")
    expect(log).to_contain_text("before")

    idle_box.kill("controller")
    expect(page.locator("#line")).to_have_text("connecting")
    expect(page.locator("#line")).to_have_text("live")
    word.write_text("a word after it\n")

    expect(log).to_contain_text("a word after it")
    expect(log.get_by_text("before", exact=True)).to_have_count(1)
    visitor.wrong = [line for line in visitor.wrong if "net::ERR_" not in line]


def test_long_and_foreign_names_leave_the_rest_in_its_place(browser: Browser) -> None:
    long = "a-name-that-is-much-too-long-for-a-column-of-any-table-" * 2
    with (
        tempfile.TemporaryDirectory(prefix="rota-") as folder,
        running(Path(folder)) as server,
        swarm(server.socket_path, agents=1, gpus=4),
    ):
        for user in (long, "علي"):
            server.as_user(user).submit(["sleep", "600"], name=long, resources={"gpus": 1})
        visitor = Visitor(browser, f"http://127.0.0.1:{server.port}")
        visitor.enter(server.local().post("/tokens", {"access": "admin"}).json["token"])

        page = visitor.go("/")
        cancel = page.get_by_role("button", name=re.compile("^Cancel"))
        expect(cancel).to_have_count(2)
        expect(page.locator("#owners li")).to_have_count(2)

        for button in cancel.all():
            expect(button).to_be_in_viewport(ratio=1)
        assert page.locator("#queue tbody tr").first.bounding_box()["height"] < 60
        expect(page.locator(f"#queue .person[title='{long}']")).to_have_count(1)
        # Read from right to left, the name alone: the number of GPUs stays behind it.
        owner = page.locator("#owners li", has_text="علي")
        name, count = owner.locator("bdi").bounding_box(), owner.locator(".count").bounding_box()
        assert name["x"] < count["x"]
        visitor.close()
