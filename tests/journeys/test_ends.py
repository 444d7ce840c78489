"""How jobs end: exit codes, signals, limits, and what is on record about each attempt."""

from __future__ import annotations

import os
import re
import signal
import time
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.journeys.box import Box


def test_exit_code_signal_and_cause_of_every_attempt_are_on_record(home: Box) -> None:
    fine, bad, shot = (
        home.ran(command)
        for command in ("exit 0", "echo before; exit 42", "kill -SEGV $$; sleep 60")
    )

    assert (fine["state"], fine["exit_code"], fine["cause_code"]) == ("completed", 0, "exit")
    assert (bad["state"], bad["exit_code"], bad["cause_code"]) == ("failed", 42, "exit")
    assert (shot["state"], shot["signal"], shot["cause_code"]) == (
        "failed",
        signal.SIGSEGV,
        "signal",
    )
    (attempt,) = bad["attempts"]
    assert attempt["exit_code"] == 42
    assert attempt["started_at"] <= attempt["ended_at"]
    assert attempt["peak_memory_mb"] > 0


def test_run_of_a_job_that_a_signal_ended_exits_like_a_shell(home: Box) -> None:
    done = home.rota("run", "--", "sh", "-c", "kill -KILL $$", check=False)

    assert done.returncode == 128 + signal.SIGKILL
    assert "Traceback" not in done.stderr


def test_a_missing_command_ends_with_127_and_says_its_name(home: Box) -> None:
    done = home.rota("run", "--", "no-such-program", "x", check=False)

    assert done.returncode == 127
    assert done.stderr.splitlines() == ["rota: command not found: no-such-program"]
    assert "no-such-program" in home.ended(_last(home))["cause"]


def test_a_missing_folder_fails_the_job_with_its_name_in_one_line(home: Box) -> None:
    done = home.rota("run", "--workdir", "/no/such/folder", "--", "true", check=False)

    assert done.returncode not in (0, 127)
    (line,) = done.stderr.splitlines()
    assert "/no/such/folder" in line
    ended = home.ended(_last(home))
    assert (ended["state"], ended["cause_code"]) == ("failed", "start_failed")


def test_a_time_limit_ends_the_whole_tree_even_what_left_the_session(home: Box) -> None:
    script = (
        "trap '' TERM\n"
        "setsid sh -c 'trap \"\" TERM; echo $$ > grandchild; while :; do sleep 1; done' &\n"
        "echo $$ > child; while :; do sleep 1; done"
    )
    job = home.job(script, time_limit_s=3600, grace_s=1)
    home.reach(job, "running")
    pids = {
        name: int(until(lambda name=name: home.read(name), f"{name} to be there"))
        for name in ("child", "grandchild")
    }

    began_s = time.monotonic()
    home.api("PATCH", f"/jobs/{job}", {"time_limit_s": 1})
    ended = home.ended(job)

    assert (ended["state"], ended["cause_code"]) == ("timeout", "time_limit")
    assert time.monotonic() - began_s >= 1, "the limit, then the grace"
    for name, pid in pids.items():
        until(lambda pid=pid: not os.path.exists(f"/proc/{pid}"), f"{name} to be gone")


def test_a_job_that_heeds_TERM_ends_within_its_grace(home: Box) -> None:
    job = home.job(
        "trap 'echo saved > checkpoint; exit 9' TERM; echo up; while :; do sleep 0.1; done",
        grace_s=50,
    )
    until(lambda: home.output(job) == "up\n", "the trap to be set")

    home.rota("cancel", str(job))
    ended = home.ended(job)

    assert ended["state"] == "cancelled"
    assert home.read("checkpoint") == "saved\n"
    assert ended["exit_code"] == 9, "it was not killed after the whole grace"


def test_a_job_above_its_memory_is_killed_and_called_out_of_memory(home: Box) -> None:
    job = home.ran(
        ["python3", "-c", "import time; hog = bytearray(300_000_000); time.sleep(60)"],
        resources={"cpus": 1, "memory_mb": 100},
    )

    assert (job["state"], job["cause_code"]) == ("failed", "out_of_memory")
    assert re.fullmatch(r"out_of_memory: used (\d+M|all) of 100M", job["cause"])
    assert home.why(job["id"]).startswith("failed: out of memory, used ")
    assert job["attempts"][0]["peak_memory_mb"] >= 100


def test_retries_run_under_one_id_with_backoff_and_every_attempt_is_listed(home: Box) -> None:
    job = home.ran(
        'echo "$ROTA_ATTEMPT $ROTA_RESUME" >> tries; test $ROTA_ATTEMPT = 3 || exit 11',
        retries=5,
        backoff_s=0.2,
    )

    assert job["state"] == "completed"
    assert [a["exit_code"] for a in job["attempts"]] == [11, 11, 0]
    assert home.read("tries") == "1 0\n2 0\n3 0\n", "nothing was saved"
    gaps = [
        _seconds(later["started_at"]) - _seconds(earlier["ended_at"])
        for earlier, later in zip(job["attempts"], job["attempts"][1:], strict=False)
    ]
    assert gaps[0] >= 0.2
    assert gaps[1] >= 0.4, "twice as long before each further one"
    shown = home.rota("show", str(job["id"])).stdout
    assert shown.count(" 11  ") == 2


@pytest.mark.parametrize(("code", "attempts"), [(3, 2), (4, 1)])
def test_retry_on_an_exit_code_spares_other_failures(home: Box, code: int, attempts: int) -> None:
    job = home.ran(f"exit {code}", retries=1, retry_on=["3"])

    assert (job["state"], len(job["attempts"])) == ("failed", attempts)


def test_the_end_of_a_job_leaves_nothing_of_it_running(home: Box) -> None:
    job = home.ran("setsid sleep 300 & echo $! > left; exit 0")

    assert job["state"] == "completed"
    pid = int(home.read("left"))
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the process left behind to be ended")


def _last(box: Box) -> int:
    _, page = box.api("GET", "/jobs?order=-id&limit=1")
    return int(page["items"][0]["id"])


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
