"""What an expected start rests on, and what a person reads while a job waits."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pyte

from tests.journeys.test_attach import Screen

if TYPE_CHECKING:
    from tests.journeys.box import Box

UNTIL_GO = "while [ ! -e go ]; do sleep 0.02; done"
WHOLE = {"resources": {"cpus": 4}}


def test_an_expected_start_says_what_it_assumes_and_what_such_jobs_took(home: Box) -> None:
    for _ in range(3):
        home.ran("true", name="often", **WHOLE)
    running = home.job(UNTIL_GO, name="often", **WHOLE)
    home.reach(running, "running")
    waiting = home.job("true", **WHOLE)

    told = home.rota("why", str(waiting)).stdout
    planned = home.rota("plan", "--cpus", "4", "--", "true", check=False).stdout

    # How long that is depends on what else the user ran on this box.
    assumed = rf"this assumes \w+ for job {running}, which runs: no --time was given; "
    assert re.search(f"{assumed}the last 3 jobs of that name took 1s", planned), planned
    assert f"the last 3 jobs of that name took 1s: this is taken for job {running}" in told
    assert re.search(r"it is expected to start (in 1s|at any moment) on box", told), told


def test_the_elements_of_a_sweep_that_ended_tell_of_the_others(home: Box) -> None:
    command = f"test $ROTA_ARRAY_INDEX -lt 2 || {UNTIL_GO}"
    array = home.job(command, array="0-2", **WHOLE)
    home.reach(f"{array}_2", "running")
    waiting = home.job("true", **WHOLE)

    told = home.rota("why", str(waiting)).stdout

    assert "it is expected to start at any moment on box" in told
    assert f"the last 2 elements of its sweep took 1s: this is taken for job {array}_2" in told
    assert "for it, because no --time was given" in told


def test_a_job_with_a_limit_is_taken_at_its_word(home: Box) -> None:
    running = home.job(UNTIL_GO, time_limit_s=600, **WHOLE)
    home.reach(running, "running")
    waiting = home.job("true", **WHOLE)

    told = home.rota("why", str(waiting)).stdout

    assert "expected to start in 9m" in told or "expected to start in 10m" in told
    assert "this assumes" not in told


def test_run_says_why_it_waits_and_how_long_that_may_take(home: Box) -> None:
    running = home.job(UNTIL_GO, time_limit_s=600, **WHOLE)
    home.reach(running, "running")
    waiting = subprocess.Popen(
        [sys.executable, "-m", "rota.cli.main", "run", "--cpus", "4", "--", "echo", "done"],
        cwd=home.work,
        env=home.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert waiting.stderr is not None
    line, basis, hint = (waiting.stderr.readline() for _ in range(3))
    (home.work / "go").touch()
    out, rest = waiting.communicate(timeout=60)

    assert "is queued: not enough free cpus; expected to start in" in line
    assert basis.startswith("rota: this rests on time limits and on what such jobs took before")
    assert hint == "rota: no --time was given; with a limit the job may start sooner\n"
    assert (out, rest) == ("done\n", "")


def test_the_line_of_a_waiting_run_is_kept_up_to_date_and_goes(home: Box) -> None:
    running = home.job(UNTIL_GO, time_limit_s=600, **WHOLE)
    home.reach(running, "running")
    # No wider than the line: a row that it ran over into would stay.
    asked = ("--cpus", "4", "--time", "1m", "--", "echo", "all done")
    screen = Screen(home, "run", *asked, columns=60)
    try:
        screen.until(b"is queued: not enough free cpus")
        waiting = rendered(screen)
        (home.work / "go").touch()
        screen.until(b"all done")

        assert screen.left() == 0
        submitted, *basis, line = waiting
        assert "is queued: not enough free cpus; expected to" in line
        assert " ".join(basis).startswith("rota: this rests on time limits")
        assert rendered(screen) == [submitted, *basis, "all done"]
    finally:
        screen.close()


def rendered(screen: Screen) -> list[str]:
    """What a person sees."""
    terminal = pyte.Screen(60, 33)
    pyte.ByteStream(terminal).feed(screen.seen)
    return [row.rstrip() for row in terminal.display if row.strip()]
