"""Very many jobs: the lists stay complete, and the controller goes on while they are made."""

import asyncio
import time

import pytest

from tests.slurm.cluster import Cluster

JOBS = 6000


@pytest.mark.slow
def test_a_long_list_is_whole_and_made_in_pieces_while_the_controller_goes_on(
    cluster: Cluster,
) -> None:
    one = {"command": "true", "hold": True, "time_limit_s": 600}
    answer = cluster.server.local().post("/jobs:batch", {"jobs": [one] * JOBS})
    assert answer.status in (200, 201), answer.body
    turns: list[float] = []
    over = False

    async def count() -> None:
        while not over:
            turns.append(time.monotonic())
            await asyncio.sleep(0)

    counting = asyncio.run_coroutine_threadsafe(count(), cluster.server.loop)
    lines = cluster.text("squeue", "-h", "-o", "%A").split()
    over = True
    counting.result(60)
    mine = cluster.submit("-H", "-J", "mine")

    assert len(set(lines)) == JOBS
    assert len(turns) > JOBS // 1000
    assert cluster.text("squeue", "-h", "-j", str(mine), "-o", "%j") == "mine\n"
