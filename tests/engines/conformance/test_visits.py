"""Going into running jobs, on own agents and on every engine: it works, or is refused in a line."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import DEADLINE_S, until

if TYPE_CHECKING:
    from tests.engines.conformance.bench import Bench

ROTA = (sys.executable, "-m", "rota.cli.main")
#: Those that let nobody in, and what they say; nodes that only run commands are no kubelets.
CLOSED = {"ray": "engine lab lets nobody into running jobs", "kubernetes": "only logs can be had"}
FOREVER = "while :; do sleep 0.1; done"
#: Sends back what it hears; a small image has no Python.
ECHO = "cat >echo.py; exec python3 echo.py"
SERVER = """
import pathlib, socket
listener = socket.create_server(("127.0.0.1", 0))
pathlib.Path("port").write_text(str(listener.getsockname()[1]) + "\\n")
while True:
    near = listener.accept()[0]
    while body := near.recv(65536):
        near.sendall(body)
    near.close()
"""
SMALL = "echo 8000 >port; exec nc -ll -p 8000 -e cat"


def running(bench: Bench) -> int:
    """A job that listens on the port that it writes down."""
    if bench.name == "kubelet":
        job = bench.submit(["sh", "-c", SMALL])
    else:
        job = bench.submit(["sh", "-c", ECHO], stdin=SERVER)
    bench.until(job, "running")
    until(lambda: bench.box.read("port").endswith("\n"), "it to listen")
    return job


def test_a_program_goes_into_a_job_and_its_port_is_reached(bench: Bench):
    if bench.name in CLOSED:
        pytest.skip("nobody comes in here")
    box, job = bench.box, running(bench)
    script = "echo $ROTA_JOB_ID; pwd; echo bad >&2; exit 7"

    done = box.rota("exec", str(job), "--", "sh", "-c", script, check=False)

    assert (done.stdout, done.returncode) == (f"{job}\n{box.work}\nbad\n", 7), done.stderr
    assert reached(bench, job, b"there and back") == b"there and back"


def test_where_nobody_comes_in_it_is_refused_in_a_line(bench: Bench):
    if bench.name not in CLOSED:
        pytest.skip("others come in here")
    job = bench.submit(FOREVER)
    bench.until(job, "running")

    said = bench.box.refusal("exec", str(job), "--", "true")

    assert CLOSED[bench.name] in said


def reached(bench: Bench, job: int, body: bytes) -> bytes:
    """What comes back through ``rota forward``."""
    way = f"0:{bench.box.read('port').strip()}"
    forward = subprocess.Popen(
        [*ROTA, "forward", str(job), way, "--wait"],
        cwd=bench.box.work,
        env=bench.box.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert forward.stdout is not None
        port = forward.stdout.readline().partition(" ")[0].rpartition(":")[2]
        with socket.create_connection(("127.0.0.1", int(port)), DEADLINE_S) as near:
            near.sendall(body)
            heard = b""
            while len(heard) < len(body) and (piece := near.recv(4096)):
                heard += piece
        return heard
    finally:
        forward.kill()
        forward.communicate()


def test_what_runs_for_a_visitor_ends_when_the_visitor_leaves(bench: Bench):
    if bench.name in CLOSED:
        pytest.skip("nobody comes in here")
    box, job = bench.box, running(bench)
    visitor = subprocess.Popen(
        [*ROTA, "exec", str(job), "--", "sh", "-c", f"echo $$ >inside; {FOREVER}"],
        cwd=box.work,
        env=box.env,
        stdin=subprocess.DEVNULL,
    )
    pid = until(lambda: box.read("inside").strip(), "the program inside")

    visitor.kill()
    visitor.wait()

    # One that nobody has buried is gone, too.
    gone = f"! test -e /proc/{pid} || grep -q '^State:.Z' /proc/{pid}/status"
    look = ["exec", str(job), "--", "sh", "-c", gone]
    until(lambda: not box.rota(*look, check=False).returncode, "the program to be gone")
    assert box.state_of(job) == "running"
