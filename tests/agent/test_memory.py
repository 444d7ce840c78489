"""Finding attempts that hold more memory than they asked for, with real processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rota.agent.machine.looks import Looks
from rota.agent.machine.memory import MemoryWatch, held_kib
from rota.keeper.processes import snapshot
from rota.session.charge import Alive
from tests.agent.support import is_running, wait_until

#: Holds 40 MiB, then shares all of it with three children, each of which waits for the end.
SHARING = """
import os, sys
held = bytearray(os.urandom(1 << 20) * 40)
for _ in range(3):
    if os.fork() == 0:
        break
print("ready", flush=True)
sys.stdin.read()
"""
#: 60 MiB that four children share; when all have ended the next four come, and their parent asks
#: for the status of those before.
WAVES = """
import os, time
held = b"x" * (60 << 20)
print("ready", flush=True)
before = []
while True:
    wave = []
    for _ in range(4):
        if (pid := os.fork()) == 0:
            time.sleep(0.005)
            os._exit(0)
        wave.append(pid)
    for pid in wave:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    for pid in before:
        os.waitpid(pid, 0)
    before = wave
"""


@contextmanager
def sharing() -> Iterator[int]:
    command = [sys.executable, "-I", "-S", "-c", SHARING]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        for _ in range(4):
            assert process.stdout.readline() == b"ready\n"
        try:
            yield process.pid
        finally:
            process.communicate()


def test_memory_that_is_shared_counts_once():
    with sharing() as pid:
        watch = MemoryWatch()

        found = watch.look([Alive("u1", pid, 100)])

    assert found == []
    assert watch.take_peak_kib("u1") < 100 * 1024


def test_an_attempt_above_its_limit_is_found_with_all_its_processes():
    with sharing() as pid:
        watch = MemoryWatch()

        at_first = watch.look([Alive("u1", pid, 30), Alive("u2", 999_999_999, 30)])
        found = watch.look([Alive("u1", pid, 30), Alive("u2", 999_999_999, 30)])

    assert at_first == []
    assert [uid for uid, _ in found] == ["u1"]
    assert found[0][1].startswith("used ")
    assert found[0][1].endswith("M of 30M")
    assert watch.take_peak_kib("u1") > 40 * 1024


def test_who_is_above_the_limit_at_one_look_and_not_at_the_next_is_not_found():
    watch = MemoryWatch()

    with sharing() as pid:
        looks = [watch.look([Alive("u1", pid, limit_mib)]) for limit_mib in (30, 100, 30, 100)]

    assert looks == [[], [], [], []]
    assert watch.take_peak_kib("u1") < 100 * 1024


def test_what_has_ended_since_it_was_seen_holds_nothing():
    """Its parent may not have asked for its status yet, as with children that come in waves."""
    with sharing() as pid:
        members = [one for one in snapshot().values() if one.group == pid]
        while_alive = held_kib(members)
        for one in members:
            os.kill(one.pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_running, (one.pid for one in members))))

        afterwards = held_kib(members)

    assert len(members) == 4
    assert while_alive > 40 * 1024
    assert sum(one.rss_kib for one in members) > 4 * 40 * 1024
    assert afterwards == 0


@pytest.mark.slow
def test_processes_that_come_in_waves_hold_what_one_wave_holds():
    command = [sys.executable, "-I", "-S", "-c", WAVES]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        watch = MemoryWatch()

        found = [watch.look([Alive("u1", process.pid, 130)]) for _ in range(200)]
        os.killpg(process.pid, signal.SIGKILL)

    assert found == [[]] * 200
    assert watch.take_peak_kib("u1") > 40 * 1024


def test_a_look_that_hangs_is_waited_for_once(tmp_path: Path):
    os.mkfifo(tmp_path / "silent")
    looks = Looks()

    first = looks.within("u1", 0.05, (tmp_path / "silent").read_bytes)
    began_s = time.monotonic()
    again = looks.within("u1", 30.0, lambda: b"not asked")
    another = looks.within("u2", 30.0, lambda: b"answered")

    assert (first, again, another) == (None, None, b"answered")
    assert time.monotonic() - began_s < 30.0
    (tmp_path / "silent").write_bytes(b"at last")
    assert wait_until(lambda: looks.within("u1", 30.0, lambda: b"asked")) == b"asked"


def test_attempts_without_a_limit_cost_nothing():
    watch = MemoryWatch()

    assert watch.look([Alive("u1", 1, 0)]) == []
    assert watch.take_peak_kib("u1") == 0
