"""``rota top`` on a terminal of 80 by 24, against a real Rota: what it shows and what keys do."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from textual.widgets import DataTable, Static

from rota.cli.cluster.top import take
from rota.cli.cluster.top_app import JobPage, TopApp
from rota.client.http import Client
from tests.journeys.box import DEADLINE_S, until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from textual.pilot import Pilot

    from tests.journeys.box import Box

FOREVER = "while :; do sleep 0.1; done"
SIZE = (80, 24)


def at_top(home: Box, story: Callable[[TopApp, Pilot[None]], Coroutine[Any, Any, None]]) -> None:
    """Run a story with the app on a terminal of the usual size."""

    async def run() -> None:
        client = Client([f"unix://{home.state}/rota.sock"])
        app = TopApp(client, take, 0.2)
        async with app.run_test(size=SIZE) as pilot:
            await story(app, pilot)
        client.close()

    asyncio.run(run())


async def seen(pilot: Pilot[None], condition: Callable[[], object], what: str) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await pilot.pause(0.05)
    assert condition(), what


def rows(app: TopApp, name: str = "jobs") -> list[list[str]]:
    table: DataTable[Any] = app.screen_stack[0].query_one(f"#{name}-table", DataTable)
    return [[str(cell) for cell in table.get_row_at(n)] for n in range(table.row_count)]


def page(app: TopApp) -> str:
    return str(app.screen.query_one("#page", Static).render())


def test_top_shows_jobs_nodes_and_gpus_and_keeps_up(home: Box) -> None:
    job = home.job(FOREVER, name="first", resources={"gpus": 2})
    home.reach(job, "running")

    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        await seen(pilot, lambda: rows(app), "the job")
        assert rows(app)[0][:4] == [str(job), "first", rows(app)[0][2], "running"]
        held = home.job("true", name="second", hold=True)
        await seen(pilot, lambda: len(rows(app)) == 2, "the second job")
        assert rows(app)[1][0] == str(held)
        assert rows(app, "nodes")[0][:2] == ["box", "up"]
        assert [row[2] for row in rows(app, "gpus")].count("used") == 2
        await pilot.press("3")
        assert app.query_one("#gpus-table", DataTable).has_focus

    at_top(home, story)


def test_the_reason_is_read_whole_where_names_are_long(home: Box) -> None:
    home.reach(home.job(FOREVER, resources={"cpus": 4}), "running")
    home.job("true", name="a-name-of-more-than-a-few-letters", resources={"cpus": 4})

    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        await seen(pilot, lambda: len(rows(app)) == 2, "the jobs")
        table = app.query_one("#jobs-table", DataTable)
        await seen(pilot, lambda: table.virtual_size.width, "a drawn table")
        assert rows(app)[1][1] == "a-name-of-m…"
        assert rows(app)[1][-1] == "not enough free cpus"
        assert table.virtual_size.width <= SIZE[0]

    at_top(home, story)


def test_rows_are_filtered_and_sorted(home: Box) -> None:
    for name, cpus in (("apple", 1), ("pear", 3), ("plum", 2)):
        home.job("true", name=name, hold=True, resources={"cpus": cpus})

    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        await seen(pilot, lambda: len(rows(app)) == 3, "the jobs")
        while "sorted by cpus" not in str(app.query_one("#head", Static).render()):
            await pilot.press("s")
        assert [row[1] for row in rows(app)] == ["apple", "plum", "pear"]
        await pilot.press("slash", *"plum", "enter")
        await seen(pilot, lambda: [row[1] for row in rows(app)] == ["plum"], "one row")
        assert app.query_one("#jobs-table", DataTable).has_focus

    at_top(home, story)


def test_the_page_of_a_job_shows_its_log_and_cancels_it_after_a_question(home: Box) -> None:
    job = home.job(f"echo hello there; echo trouble >&2; {FOREVER}", name="talks")
    home.reach(job, "running")

    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        await seen(pilot, lambda: rows(app), "the job")
        await pilot.press("enter")
        await seen(pilot, lambda: isinstance(app.screen, JobPage), "the page")
        await seen(pilot, lambda: "hello there\ntrouble" in page(app), "its log")
        assert f"{job} is running on box" in page(app)
        await pilot.press("l")
        await seen(pilot, lambda: page(app).startswith("hello there"), "the log alone")
        await pilot.press("c", "n")
        assert home.api("GET", f"/jobs/{job}")[1]["state"] == "running"
        await pilot.press("c", "y")
        await seen(pilot, lambda: home.api("GET", f"/jobs/{job}")[1]["ended_at"], "its end")
        await pilot.press("escape")
        await seen(pilot, lambda: not rows(app), "an empty table")

    at_top(home, story)


def test_the_cursor_stays_on_its_job_when_others_come(home: Box) -> None:
    first, second = (home.job("true", hold=True) for _ in range(2))

    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        await seen(pilot, lambda: len(rows(app)) == 2, "the jobs")
        await pilot.press("down")
        home.api("DELETE", f"/jobs/{first}")
        await seen(pilot, lambda: len(rows(app)) == 1, "one job less")
        home.job("true", hold=True)
        await seen(pilot, lambda: len(rows(app)) == 2, "one more")
        table: DataTable[Any] = app.query_one("#jobs-table", DataTable)
        assert str(table.get_row_at(table.cursor_row)[0]) == str(second)

    at_top(home, story)


def test_what_jobs_say_of_their_progress_is_a_column_and_a_line(home: Box) -> None:
    program = home.work / "far.py"
    program.write_text(
        "import os, time, rota\n"
        "def work():\n"
        "    me = rota.context()\n"
        "    time.sleep(0.5)\n"
        "    me.progress(0.4, 'epoch 19', loss=0.25)\n"
        "    while not os.path.exists('go'): time.sleep(0.02)\n"
        "with rota.connect() as cluster:\n"
        "    job = cluster.submit(work, name='far')\n"
        "    print(job.id, flush=True)\n"
        "    job.result()\n"
    )
    asking = subprocess.Popen(
        [sys.executable, str(program)],
        cwd=home.work,
        env=home.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert asking.stdout is not None
    job = asking.stdout.readline().strip()
    until(lambda: home.api("GET", f"/jobs/progress?ids={job}")[1]["items"], "a word of it")

    listed = home.rota("queue").stdout
    shown = home.rota("show", job).stdout
    (home.work / "go").touch()
    asking.communicate(timeout=DEADLINE_S)
    ended = home.rota("show", job).stdout

    assert "PROGRESS" in listed
    assert "40% epoch 19 (" in listed
    assert "progress:" in shown
    assert "loss=0.25" in shown
    assert "40%" not in ended
    assert "PROGRESS" not in home.rota("queue", "-a").stdout


def test_show_says_what_a_job_used_of_what_it_held(home: Box) -> None:
    burn = "import time\nuntil = time.process_time() + 0.3\nwhile time.process_time() < until: pass"
    job = home.ran([sys.executable, "-c", burn], resources={"cpus": 1, "memory_mb": 512})["id"]

    shown = home.rota("show", str(job)).stdout

    assert "cpu used:" in shown
    assert "CPU time held)" in shown
    assert "of what it asked for (at most" in shown
