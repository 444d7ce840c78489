"""What belongs to an attempt, when the number of its first process is another's by now."""

import subprocess
import sys
from pathlib import Path

import pytest

from rota.keeper import keeper
from tests.support.machine import missing

#: In a process of its own, because a reaper takes every child that has ended. The first process
#: goes at once and leaves one behind in a session of its own; then its number is given away.
STORY = """
import ctypes, os, select, signal, subprocess, sys
from keeper.journal import RUNNING, Attempt
from keeper.reap import Reaper

BECOME_SUBREAPER = 36
ctypes.CDLL(None).prctl(BECOME_SUBREAPER, 1, 0, 0, 0)
attempt = Attempt("u1", {}, "")
reaper = Reaper({"u1": attempt}, select.epoll(), lambda _: None)
words = ["sh", "-c", "setsid sleep 60 & exec sleep 0.05"]
environment = {"ROTA_ATTEMPT_UID": "u1", "PATH": os.environ["PATH"]}
attempt.pid = os.posix_spawn("/bin/sh", words, environment, setsid=True)
attempt.phase, attempt.asked = RUNNING, True
reaper.watch_child(attempt)
os.waitid(os.P_PID, attempt.pid, os.WEXITED | os.WNOWAIT)
reaper.reap()
reaper.clear_up()
for _ in range(500):
    try:
        with open("/proc/sys/kernel/ns_last_pid", "w") as file:
            file.write(str(attempt.pid - 1))
    except OSError:
        break
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    if stranger.pid == attempt.pid:
        reaper.signal_trees([(attempt, signal.SIGTERM)])
        try:
            stranger.wait(0.2)
            print("hit")
        except subprocess.TimeoutExpired:
            print("spared")
    stranger.kill()
    stranger.wait()
    if stranger.pid == attempt.pid:
        break
reaper.signal_trees([(attempt, signal.SIGKILL)])
"""


@pytest.mark.root
def test_one_who_has_the_number_of_an_ended_process_is_not_signalled():
    done = subprocess.run(
        [sys.executable, "-c", STORY],
        cwd=Path(keeper.__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    if not done.stdout:
        missing("numbers of processes cannot be chosen here")
    assert done.stdout == "spared\n"
