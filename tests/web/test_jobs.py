"""What people do with jobs on the web page: submit, watch, read, type, follow an advice, redo."""

from __future__ import annotations

import json
import re
import sys
import time
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.journeys.box import Box
    from tests.web.browsing import Visitor

    Visit = Callable[..., Visitor]

#: Says something on both streams, waits for a file, shows it and stays.
TALKS = "echo begin; echo oops >&2; while [ ! -e {0} ]; do sleep 0.05; done; cat {0}; sleep 600"


def test_a_job_is_submitted_watched_read_and_cancelled_on_the_page(
    idle_box: Box, visit: Visit
) -> None:
    page = visit().go("/")
    word = idle_box.work / "word-by-hand"

    page.keyboard.press("n")
    page.get_by_label("Command").fill(TALKS.format(word))
    page.get_by_label("Name").fill("by-hand")
    page.get_by_role("button", name="Submit").click()
    row = page.locator("#queue tr", has_text="by-hand")
    expect(row.locator(".state")).to_have_text("running")
    row.get_by_role("link").first.click()
    log = page.locator("#log")
    expect(log.locator(".stdout", has_text="begin")).to_be_visible()
    expect(log.locator(".stderr", has_text="oops")).to_be_visible()
    expect(log).not_to_contain_text("late")
    word.write_text("a late word\n")
    expect(log).to_contain_text("a late word")
    page.get_by_role("button", name="Cancel").click()

    expect(page.locator("#job-state")).to_have_text("cancelled")
    expect(page.locator("#tries")).to_contain_text("cancelled")
    expect(page.locator("#events")).to_contain_text("job settled")


def test_a_log_is_searched_and_a_stream_hidden(idle_box: Box, visit: Visit) -> None:
    lines = "for i in 1 2 3; do echo plain $i; done; echo Needle here; echo bad >&2"
    job = idle_box.ran(["sh", "-c", lines])["id"]
    page = visit().go(f"/web/job/{job}")
    log = page.locator("#log")
    expect(log).to_contain_text("plain 3")
    expect(log).to_contain_text("bad")

    page.get_by_role("button", name="Errors").click()
    expect(log.locator(".stderr", has_text="bad")).to_be_hidden()
    page.keyboard.press("/")
    page.keyboard.type("needle")
    page.keyboard.press("Enter")

    expect(log).to_contain_text("1 line with 'needle'")
    expect(log.locator("mark")).to_have_text("Needle")
    expect(log).not_to_contain_text("plain")
    page.keyboard.press("Escape")
    expect(log).to_contain_text("plain 3")


def test_a_search_tells_that_there_is_more_and_goes_on(idle_box: Box, visit: Visit) -> None:
    job = idle_box.ran(["sh", "-c", "seq -f 'match %g' 700; echo match again >&2"])["id"]
    page = visit().go(f"/web/job/{job}")
    log = page.locator("#log")
    expect(log).to_contain_text("match 700")

    page.get_by_label("Find", exact=True).fill("match")
    page.keyboard.press("Enter")
    expect(log).to_contain_text("501 lines with 'match', and there are more")
    expect(log).not_to_contain_text("match 501")
    log.get_by_role("button", name="Find more").click()

    expect(log.locator(".note")).to_have_text("701 lines with 'match'")
    expect(log.locator("div").last).to_have_text("700:match 700")


def test_the_terminal_of_a_job_is_used_in_the_page(idle_box: Box, visit: Visit) -> None:
    job = idle_box.job(["sh"], pty=True, variables={"PS1": "> "})
    idle_box.reach(job, "running")
    page = visit().go(f"/web/job/{job}")

    page.get_by_role("button", name="Open").click()
    screen = page.get_by_role("application")
    expect(page.locator("#terminal-line")).to_contain_text("connected")
    screen.press_sequentially("stty size; printf '\\033[31mred\\033[0m %s\\n' $((40+2))")
    screen.press("Enter")
    expect(screen).to_contain_text(re.compile(r"24 \d+"))
    expect(screen.locator(".red")).to_have_text("red")
    expect(screen).to_contain_text("red 42")
    screen.press_sequentially("exit")
    screen.press("Enter")

    expect(page.locator("#job-state")).to_have_text("completed")


def test_an_advice_is_applied_by_its_button(idle_box: Box, visit: Visit) -> None:
    idle_box.reach(idle_box.job(["sleep", "600"], resources={"gpus": 3}), "running")
    waits = idle_box.job(["sleep", "600"], resources={"gpus": 2}, time_limit_s=900)
    visitor = visit()
    page = visitor.go(f"/web/job/{waits}")
    expect(page.locator("#job-state")).to_have_text("queued")
    expect(page.locator("#why-reason")).to_contain_text("not enough free gpus")
    advice = page.get_by_role("button", name="ask for 1 GPU instead of 2")
    expect(advice).to_be_visible()
    visitor.picture("why")

    advice.click()

    expect(page.locator("#job-state")).to_have_text("running")
    assert idle_box.api("GET", f"/jobs/{waits}")[1]["resources"]["gpus"] == 1


def test_a_quota_is_raised_by_the_button_of_an_operator_and_of_nobody_else(
    idle_box: Box, visit: Visit
) -> None:
    user = idle_box.api("GET", "/status")[1]["user"]
    idle_box.api("PATCH", f"/users/{user}", {"quota": {"hard": {"gpus": 1}}})
    idle_box.reach(idle_box.job(["sleep", "600"], resources={"gpus": 1}), "running")
    waits = idle_box.job(["sleep", "600"], resources={"gpus": 1})
    words = f"raise the quota of user {user} to 2"

    plain = visit(user, "user").go(f"/web/job/{waits}")
    expect(plain.locator("#why-help")).to_contain_text(f"{words} (an operator can)")
    assert plain.get_by_role("button", name=words).count() == 0

    page = visit().go(f"/web/job/{waits}")
    page.get_by_role("button", name=words).click()
    expect(page.locator("#job-state")).to_have_text("running")
    idle_box.api("PATCH", f"/users/{user}", {"quota": {"hard": {"gpus": None}}})


def test_the_failed_of_a_sweep_are_redone_from_its_page(idle_box: Box, visit: Visit) -> None:
    wall = idle_box.work / "mended"
    rows = [[rate, seed] for rate in ("0.1", "0.01") for seed in ("1", "2", "3")]
    fails = "{ echo no luck with $ROTA_PARAM_RATE >&2; exit 7; }"
    line = f"test $ROTA_PARAM_SEED != 2 || test -e {wall} || {fails}"
    parameters = {"names": ["RATE", "SEED"], "rows": rows}
    array = idle_box.job(line, name="grid", parameters=parameters)
    visitor = visit()
    page = visitor.go(f"/web/job/{array}")  # An array has its page elsewhere.
    expect(page).to_have_url(re.compile(f"/web/sweep/{array}$"))
    expect(page.locator("#sweep-line")).to_have_text("6 of 6 ended, 2 failed, 0 running")
    expect(page.locator("#grid a.bad")).to_have_count(2)
    expect(page.locator("#grid a.completed")).to_have_count(4)
    expect(page.locator("#failures summary")).to_have_text("2 failed: exit code 7")
    expect(page.locator("#failures pre")).to_contain_text("no luck with")
    visitor.picture("sweep")
    page.get_by_label("Down").select_option("nothing")
    expect(page.locator("#grid tbody tr")).to_have_count(1)
    expect(page.locator("#grid a").first).to_have_text("2/3")

    wall.touch()
    page.get_by_role("button", name="Redo the 2 that failed").click()
    made = page.locator("#redone a")
    expect(made).to_have_count(1)
    page.reload()
    page.get_by_role("button", name="Redo the 2 that failed").click()

    # Both ask for the same: it is done once.
    expect(made).to_have_attribute("href", f"/web/sweep/{array + 7}")
    found = idle_box.api("GET", f"/jobs?array={array + 7}&arrays=expand")[1]["items"]
    assert [one["parameters"]["SEED"] for one in found] == ["2", "2"]
    assert idle_box.reach(array + 7, "completed")
    assert not [one for one in idle_box.api("GET", "/jobs")[1]["items"] if one["id"] > array + 9]
    others = visit("otto", "operator").go(f"/web/sweep/{array}")
    expect(others.locator("#sweep-line")).to_contain_text("2 failed")
    expect(others.get_by_role("button", name=re.compile("^Redo"))).to_have_count(0)


def test_failures_are_told_apart_by_what_was_raised_and_reports_are_read_of_all(
    idle_box: Box, visit: Visit
) -> None:
    rota = f"{sys.executable} -m rota.cli.main"
    kind = "KeyError if int(os.environ['ROTA_PARAM_SEED']) % 2 else OSError"
    raises = f"import os; raise ({kind})('no')"
    line = f'{rota} progress 0.5 loss=$ROTA_PARAM_SEED; {sys.executable} -c "{raises}"'
    parameters = {"names": ["SEED"], "rows": [[str(seed)] for seed in range(1, 6)]}
    array = idle_box.job(line, name="raises", parameters=parameters)
    idle_box.reach(array, "failed")
    late = idle_box.job("true", array="0-1", hold=True)
    idle_box.api("DELETE", f"/jobs/{late}")
    page = visit().go(f"/web/sweep/{array}")

    groups = page.locator("#failures summary")
    expect(groups).to_have_text(["3 failed: KeyError: 'no'", "2 failed: OSError: no"])
    page.locator("#sweep-colour").select_option("report")

    expect(page.locator("#sweep-colour")).to_have_value("figure loss")
    expect(page.locator("#grid a.figure")).to_have_text(["1", "2", "3", "4", "5"])
    page.goto(f"{visit().base}/web/sweep/{late}")
    expect(page.locator("#grid a.cancelled")).to_have_text(["cancel", "cancel"])


def test_what_a_command_reports_is_drawn_from_its_beginning(idle_box: Box, visit: Visit) -> None:
    go = idle_box.work / "go-on"
    rota = f"{sys.executable} -m rota.cli.main"
    line = (
        f"{rota} progress 0.25 loss=2.5; {rota} progress 0.5 loss=2 -m half;"
        f" while [ ! -e {go} ]; do sleep 0.05; done;"
        f" {rota} progress 0.75 loss=1.25 --message 'epoch 3'; sleep 600"
    )
    job = idle_box.job(["sh", "-c", line])
    page = visit().go(f"/web/job/{job}")
    expect(page.locator("#progress-text")).to_have_text("50 % half")

    go.touch()

    expect(page.locator("#progress-text")).to_have_text("75 % epoch 3")
    curve = page.get_by_role("img", name=re.compile("^loss: 1.25, from 1.25 to 2.5$"))
    # What was said before the page was opened is there, too.
    expect(curve.locator("polyline")).to_have_attribute("points", re.compile(r"^\S+ \S+ \S+$"))


def test_what_a_function_left_of_its_progress_is_shown(idle_box: Box, visit: Visit) -> None:
    folder = idle_box.work / "results"
    folder.mkdir(exist_ok=True)
    job = idle_box.job(["sleep", "600"], variables={"ROTA_RESULT_DIR": str(folder)})
    idle_box.reach(job, "running")
    said = {"fraction": 0.25, "message": "epoch 1", "loss": 2.5, "at_s": time.time() + 60}
    (folder / f"{job}.0.progress").write_text(json.dumps(said))

    page = visit().go(f"/web/job/{job}")

    expect(page.locator("#progress-text")).to_have_text("25 % epoch 1")


def test_each_task_of_a_gang_is_looked_at_by_itself(idle_box: Box, visit: Visit) -> None:
    rota = f"{sys.executable} -m rota.cli.main"
    line = f"{rota} progress 0.$ROTA_TASK_INDEX; echo I am $ROTA_TASK_INDEX; exec sh"
    job = idle_box.job(["sh", "-c", line], tasks=2, pty=True, variables={"PS1": "> "})
    idle_box.reach(job, "running")
    page = visit().go(f"/web/job/{job}")
    log, open_it = page.locator("#log"), page.locator("#terminal-open")
    expect(log).to_contain_text("I am 0")
    expect(page.locator("#progress-text")).to_have_text("0 %")
    open_it.click()
    expect(page.locator("#terminal-line")).to_contain_text("connected")

    page.get_by_label("Task", exact=True).fill("1")
    page.keyboard.press("Enter")

    expect(log).to_contain_text("I am 1")
    expect(log).not_to_contain_text("I am 0")
    expect(page.locator("#task-line")).to_have_text("of 2: on box, running")
    expect(page.locator("#progress-text")).to_have_text("10 %")
    expect(page.locator("#terminal-line")).to_have_text("closed")
    open_it.click()
    expect(page.locator("#terminal-line")).to_contain_text("connected")
    screen = page.get_by_role("application")
    screen.press_sequentially("echo task $ROTA_TASK_INDEX")
    screen.press("Enter")
    expect(screen).to_contain_text("task 1")


def test_no_name_and_no_line_of_a_user_becomes_markup(idle_box: Box, visit: Visit) -> None:
    hostile = "<img src=x onerror=document.title='taken'>"
    command = ["sh", "-c", f'echo "{hostile}"; echo "{hostile}" >&2; exit 3']
    job = idle_box.ran(command, name=hostile, labels={"note": hostile})["id"]
    array = idle_box.job("exit 1", name=hostile, parameters={"names": ["P"], "rows": [[hostile]]})
    held = idle_box.job(["true"], name=hostile, hold=True)
    idle_box.reach(array, "failed")
    visitor = visit()

    for path in ("/", f"/web/job/{job}", f"/web/job/{held}", f"/web/sweep/{array}", "/web/plan"):
        page = visitor.go(path)
        expect(page.locator("main")).to_contain_text("<img src=x")
        expect(page.locator("main img")).to_have_count(0)
        assert "taken" not in page.title()
