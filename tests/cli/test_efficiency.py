"""What a job used of what it held: told at its end, at a terminal, where that says something."""

import os
import pty
import select
import subprocess
import sys

import pytest

from rota.cli.jobs.far import efficiency_line

HELD = {
    "run_s": 600.0,
    "cpu_s": 62.0,
    "cpu_held_s": 2400.0,
    "cpu_efficiency": 0.0258,
    "memory_efficiency": 0.03,
    "peak_memory_mb": 2048,
    "gpu_efficiency": 0.05,
}


def test_what_was_held_and_not_used_is_one_line():
    assert efficiency_line("15_3", HELD) == (
        "job 15_3 used 3% of its CPU time (1:02 of 40:00 held), 3% of the memory asked for (2G), "
        "5% of its GPU time"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"run_s": 5.0},
        {"cpu_efficiency": 0.9, "memory_efficiency": None, "gpu_efficiency": 0.8},
        {"cpu_held_s": 600.0, "memory_efficiency": 0.7, "gpu_efficiency": None},
    ],
)
def test_a_short_run_one_cpu_and_good_use_say_nothing(changes):
    assert not efficiency_line("12", HELD | changes)


@pytest.mark.slow
def test_it_is_told_after_a_wait_at_a_terminal_only(fake):
    done = [{"id": 12, "state": "completed", "exit_code": 0}]
    fake.routes["GET /jobs/wait"] = {"done": done, "pending": []}
    fake.routes["GET /jobs/12"] = {"id": 12, "state": "completed"}
    fake.routes["GET /jobs/12/metrics"] = HELD

    told = at_a_terminal("wait", "12")
    quiet = at_a_terminal("wait", "12", "-q")
    piped = subprocess.run([*ROTA, "wait", "12"], capture_output=True, check=True).stderr

    assert b"job 12 used 3% of its CPU time" in told
    assert b"used" not in quiet
    assert piped == b""


ROTA = (sys.executable, "-m", "rota.cli.main")


def at_a_terminal(*words):
    """What a command prints to a terminal that takes no more than its standard error."""
    ours, theirs = pty.openpty()
    try:
        subprocess.run([*ROTA, *words], stdout=subprocess.DEVNULL, stderr=theirs, check=True)
        return os.read(ours, 65536) if select.select([ours], [], [], 0)[0] else b""
    finally:
        os.close(ours)
        os.close(theirs)
