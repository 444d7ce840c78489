"""Finding attempts that hold more memory than they asked for, with real processes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rota.agent.machine.memory import MemoryWatch
from rota.session.charge import Alive

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

        found = watch.look([Alive("u1", pid, 30), Alive("u2", 999_999_999, 30)])

    assert [uid for uid, _ in found] == ["u1"]
    assert found[0][1].startswith("used ")
    assert found[0][1].endswith("M of 30M")
    assert watch.take_peak_kib("u1") > 40 * 1024


def test_attempts_without_a_limit_cost_nothing():
    watch = MemoryWatch()

    assert watch.look([Alive("u1", 1, 0)]) == []
    assert watch.take_peak_kib("u1") == 0
