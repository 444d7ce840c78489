"""Promises A to D under ``kill -9``: nothing lost, nothing run twice, every exit code known."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import FINAL, Box, until

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = int(os.environ.get("ROTA_KILL_ROUNDS", "100"))
JOBS = 100

#: Appends a line per run, so that a second run shows, and ends with a code that the id foretells.
PAYLOAD = "echo $ROTA_JOB_ID >> ran; exit $((ROTA_JOB_ID % 5))"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "victims", [("controller",), ("agent",), ("controller", "agent")], ids=" and ".join
)
def test_jobs_in_flight_when_parts_are_killed_at_random_run_exactly_once(
    new_box: Callable[..., Box], victims: tuple[str, ...]
) -> None:
    box = new_box(cpus=8)
    box.up()
    chance = random.Random(f"kill {victims}")
    ids: list[int] = []

    for number in range(ROUNDS):
        ids += _submit(box, f"round-{number}")
        _let_some_run(box, ids, chance.randrange(JOBS))
        box.kill(*victims)
    until(lambda: _finished(box) >= len(ids), f"all {len(ids)} jobs to end", 240)

    assert len(ids) == len(set(ids)) == ROUNDS * JOBS
    runs = Counter(box.read("ran").split())
    assert runs == Counter(map(str, ids)), "every job ran, and none twice"
    assert _exit_codes(box) == {job: job % 5 for job in ids}


def _submit(box: Box, key: str) -> list[int]:
    """Submit a round; repeated with the same key until it is acknowledged."""
    job = {"command": PAYLOAD, "workdir": str(box.work), "resources": {"cpus": 1}}
    status, answer = box.api(
        "POST", "/jobs:batch", {"jobs": [job] * JOBS}, {"Idempotency-Key": key}
    )
    assert status in (200, 201), answer
    return list(answer["ids"])


def _let_some_run(box: Box, ids: list[int], count: int) -> None:
    """Kill at random points: after some of the newest round have run."""
    wanted = len(ids) - JOBS + count
    until(lambda: box.read("ran").count("\n") >= wanted - JOBS, "earlier rounds to run", 120)


def _finished(box: Box) -> int:
    _, status = box.api("GET", "/status")
    return sum(count for state, count in status["jobs"].items() if state in FINAL)


def _exit_codes(box: Box) -> dict[int, int | None]:
    codes: dict[int, int | None] = {}
    cursor = ""
    while True:
        _, page = box.api("GET", f"/jobs?limit=1000&cursor={cursor}")
        codes |= {job["id"]: job["exit_code"] for job in page["items"]}
        cursor = page["cursor"]
        if not cursor:
            return codes
