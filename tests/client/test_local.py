"""A Rota of one's own: it comes with the program and goes with it."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

import rota
from tests.journeys.box import until

pytestmark = pytest.mark.slow

PROGRAM = """
import os, sys, time
import rota

with rota.local(cpus=1) as cluster:
    job = cluster.submit(time.sleep, 600)
    while not job.running():
        time.sleep(0.01)
    print(os.environ["TMPDIR"], flush=True)
    time.sleep(600)
"""


def _about(folder: Path) -> list[int]:
    """The processes that belong to a Rota below this folder."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "environ"]):
        environ = process.info["environ"] or {}
        words = [*(process.info["cmdline"] or []), environ.get("ROTA_STATE_DIR", "")]
        if process.pid != os.getpid() and any(str(folder) in word for word in words):
            found.append(process.pid)
    return found


def test_a_program_that_is_killed_takes_its_rota_and_its_jobs_with_it():
    # The paths of sockets below it must be short.
    folder = Path(tempfile.mkdtemp(prefix="rota-t"))
    try:
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "TMPDIR": str(folder)},
            stdout=subprocess.PIPE,
        )
        assert program.stdout is not None
        with program.stdout:
            assert program.stdout.readline()
        assert len(_about(folder)) >= 4, "the guard, controller, agent and keeper at least"

        program.send_signal(signal.SIGKILL)
        program.wait()

        until(lambda: not _about(folder), "all processes to be gone")
        until(lambda: not list(folder.glob("rota-local-*")), "the folder to be gone")
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)


FORKING = """
import os, time
import rota

with rota.local(cpus=1) as cluster:
    with cluster.pool(1) as pool:
        pool.submit(abs, -1).result()
        child = os.fork()
        if child == 0:
            time.sleep(600)
print("closed")
os.kill(child, 9)
"""


def test_a_forked_child_that_holds_everything_open_does_not_hold_up_the_end():
    done = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.stdout, done.stderr) == ("closed\n", "")


def test_a_folder_of_ones_own_keeps_the_history_and_nothing_of_the_calls(tmp_path: Path):
    with rota.local(cpus=1, state_dir=str(tmp_path)) as cluster:
        assert cluster.submit(abs, -1).result(60) == 1

    assert (tmp_path / "rota.db").stat().st_size > 0
    assert not list(tmp_path.glob("rota-calls-*"))
    until(lambda: not _about(tmp_path), "all processes to be gone")


def test_a_rota_that_cannot_start_says_why_in_one_line():
    with pytest.raises(RuntimeError, match=r"quickest") as caught:
        rota.local(settings={"SCHEDULING_POLICY": "quickest"})
    assert "\n" not in str(caught.value)
