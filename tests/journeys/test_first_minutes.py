"""What somebody sees who meets Rota for the first time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import Box, until
from tests.support.machine import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_newcomer_starts_rota_submits_watches_reads_and_stops_it(
    new_box: Callable[..., Box],
) -> None:
    box = new_box()

    assert "rota is up at http://127.0.0.1:" in box.rota("up", "--detach").stdout
    assert box.submit("--name", "hello", "--", "echo", "hello world") == 1
    assert box.rota("wait", "1").stdout == "1 completed\n"
    assert box.rota("logs", "1").stdout == "hello world\n"
    assert box.rota("queue").stdout.splitlines()[1:] == [], "nothing waits or runs any more"
    assert "hello" in box.rota("queue", "-a").stdout
    assert "exit code: 0" in box.rota("show", "1").stdout
    assert box.rota("why", "1").stdout.startswith("1 completed")
    assert "stopped supervisor" in box.rota("down").stdout
    assert "is not running" in box.rota("down").stdout

    not_running = box.rota("queue", check=False)
    assert not_running.returncode == 3
    assert "rota up" in not_running.stderr, "it says what to do next"


def test_status_as_json_names_controller_agent_jobs_and_database(home: Box) -> None:
    home.ran(["true"])

    status = home.status()

    assert status["controller"].keys() >= {"pid", "url", "version", "uptime_s"}
    assert status["controller"]["pid"] == home.pid("controller")
    assert status["agent"] == {"pid": home.pid("agent"), "node": "box"}
    assert status["jobs"]["completed"] >= 1
    assert status["database"] == str(home.state / "rota.db")


def test_up_when_already_up_says_where_and_starts_nothing(home: Box) -> None:
    before = home.pid("controller")

    again = home.rota("up", "--detach")

    assert "already up" in again.stdout
    assert home.pid("controller") == before


def test_run_passes_standard_input_both_outputs_and_the_exit_code(home: Box) -> None:
    done = home.rota(
        "run", "--", "sh", "-c", "sort; echo trouble >&2; exit 7", stdin="b\na\n", check=False
    )

    assert (done.stdout, done.stderr, done.returncode) == ("a\nb\n", "trouble\n", 7)


def test_doctor_on_a_healthy_box_finds_nothing_wrong(home: Box) -> None:
    done = home.rota("doctor", check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_an_idle_box_uses_no_cpu(box: Box) -> None:
    box.ran(["true"])
    pids = [box.pid(part) for part in ("supervisor", "controller", "agent", "keeper")]
    until(lambda: _rests(pids), "what the job left to do to be done")
    before = sum(map(_cpu_ticks, pids))

    time.sleep(3)  # the length of the measurement, not a wait for something

    assert sum(map(_cpu_ticks, pids)) - before <= 5, "hundredths of a second in three seconds"


def _rests(pids: list[int]) -> bool:
    """Whether a quarter of a second passed without work."""
    before = sum(map(_cpu_ticks, pids))
    time.sleep(0.25)  # the length of the measurement, too
    return sum(map(_cpu_ticks, pids)) == before


def _cpu_ticks(pid: int) -> int:
    """User and system time in clock ticks (100 in a second)."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.timeout(300)
def test_the_example_runs_pairs_at_a_time_and_sees_its_giant_unschedulable(
    tmp_path: os.PathLike[str],
) -> None:
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "examples" / "cluster_example.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "at most 2 at once" in done.stdout
    assert "UNSCHEDULABLE" in done.stdout
    assert "a gang of 4: 125500 + 124750 + 125000 + 125250 = 500500" in done.stdout
    assert "a sweep over 4 rates: 0.3 is best" in done.stdout
    assert "a job that broke: took up at 5, came to 10" in done.stdout


def test_events_tell_the_story_of_a_job_with_who_and_when(home: Box) -> None:
    job = home.ran(["true"])["id"]

    _, events = home.api("GET", f"/jobs/{job}/events")

    story = [(event["kind"], event["actor"]) for event in events["items"]]
    assert story == [
        ("job-submitted", home.status()["user"]),
        ("attempt-placed", "rota:pass"),
        *([("attempt-started", "agent")] if len(story) == 5 else []),
        ("attempt-ended", "agent"),
        ("job-settled", "agent"),
    ]
    assert all(event["at"].endswith("Z") for event in events["items"])
