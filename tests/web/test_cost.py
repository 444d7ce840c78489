"""What an open page costs the server: it asks for what changed, and for little else."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from rota.api.left import reports
from rota.client.reports import FILE_BYTES_MAX
from rota.controller.chores.measures import POINTS, AttemptTrack
from tests.api.running import Running, running
from tests.support.machine import REPOSITORY
from tests.web.browsing import swarm

NODES, GPUS, JOBS = 20, 8, 200
#: One job comes in and ends in each round.
ROUNDS, ROUND_S = 8, 0.5
#: Of a core.
SHARE_MAX = 0.01
#: A gang on as many GPUs, which has filled its file with what it reports; looked at for 10 s.
TASKS, LOOK_ROUNDS = 64, 20
REPORT = b'{"fraction": 0.5, "message": "epoch 19 of 40", "loss": 0.31, "lr": 0.001, "at_s": %d}'


def share(server: Running, rounds: int = ROUNDS) -> float:
    """Of a core, for the server, while jobs come and go."""
    used = Path(f"/proc/self/task/{server._thread.native_id}/schedstat")
    caller, began_s = server.local(), time.monotonic()
    before_ns = int(used.read_text().split()[0])
    for _ in range(rounds):
        caller.submit("true")
        time.sleep(ROUND_S)
    return (int(used.read_text().split()[0]) - before_ns) / 1e9 / (time.monotonic() - began_s)


def test_an_open_page_costs_at_most_a_hundredth_of_a_core() -> None:
    command = [sys.executable, "-m", "bench.open_page"]
    runs = {"command": ["sleep", "3600"], "resources": {"cpus": 1, "gpus": 1}}
    with (
        tempfile.TemporaryDirectory(prefix="rota-") as name,
        running(Path(name)) as server,
        swarm(server.socket_path, agents=NODES, gpus=GPUS),
    ):
        server.local().post("/jobs:batch", {"jobs": [runs] * JOBS})
        server.local().until(NODES * GPUS, "running")
        alone = share(server)
        with subprocess.Popen(
            [*command, server.socket_path], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
        ) as page:
            assert page.stdout is not None
            assert page.stdout.readline() == "open\n"

            both = share(server)

            page.kill()
            drawn = page.stdout.read().split()

    assert {"nodes", "queue", "later"} <= set(drawn)
    assert drawn.count("queue") > 2
    assert both - alone <= SHARE_MAX


def test_an_open_page_of_a_job_costs_at_most_a_hundredth_of_a_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = [sys.executable, "-m", "bench.open_page"]
    gang = {"command": ["sleep", "3600"], "tasks": TASKS, "resources": {"cpus": 1, "gpus": 1}}
    until_s = time.time() + 3600
    lines = [REPORT % (until_s + second) for second in range(FILE_BYTES_MAX // len(REPORT))]

    async def full(*_: object) -> list[bytes]:
        return lines

    monkeypatch.setattr(reports, "read_lines", full)
    with (
        tempfile.TemporaryDirectory(prefix="rota-") as name,
        running(Path(name)) as server,
        swarm(server.socket_path, agents=NODES, gpus=GPUS),
    ):
        caller = server.local()
        job = caller.submit(**gang)
        caller.until(job, "running")
        measure(server, job)
        assert len(caller.get(f"/jobs/{job}/curves?task=0").json["sum"]["at"]) > 50
        assert len(caller.get(f"/jobs/{job}/progress").json["at"]) > 100
        alone = share(server, LOOK_ROUNDS)
        with subprocess.Popen(
            [*command, server.socket_path, str(job)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        ) as page:
            assert page.stdout is not None
            assert page.stdout.readline() == "open\n"

            both = share(server, LOOK_ROUNDS)

            page.kill()
            drawn = page.stdout.read().split()

    assert drawn.count("draw") > 1
    assert drawn.count("progress") > 2
    assert both - alone <= SHARE_MAX


def measure(server: Running, job: int) -> None:
    """Half an hour of looks at each task."""
    measures, now_s = server.context.measures, time.time()
    for attempt in server.host.cluster.jobs[job].live_attempts:
        track = measures._attempts[attempt.uid] = AttemptTrack()
        for point in range(POINTS):
            track.curve.add(now_s - 15.0 * (POINTS - point), 1.0, 0.9, 1000.0, 55.0, 9000.0)
