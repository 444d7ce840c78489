"""What an open page costs the server: it asks for what changed, and for little else."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.api.running import Running, running
from tests.support.machine import REPOSITORY
from tests.web.browsing import swarm

NODES, GPUS, JOBS = 20, 8, 200
#: One job comes in and ends in each round.
ROUNDS, ROUND_S = 8, 0.5
#: Of a core.
SHARE_MAX = 0.01


def share(server: Running) -> float:
    """Of a core, for the server, while jobs come and go."""
    used = Path(f"/proc/self/task/{server._thread.native_id}/schedstat")
    caller, began_s = server.local(), time.monotonic()
    before_ns = int(used.read_text().split()[0])
    for _ in range(ROUNDS):
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
