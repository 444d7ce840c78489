"""Promises A to D under ``kill -9``: nothing lost, nothing run twice, every exit code known.

Only the keeper can take exit codes along: it is the parent of all jobs.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.journeys.box import FINAL, Box, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROUNDS = int(os.environ.get("ROTA_KILL_ROUNDS", "100"))
#: Of those in which the keeper dies, too.
KEEPER_ROUNDS = max(2, ROUNDS // 25)
JOBS, CPUS = 100, 8

#: Appends a line per run, so that a second run shows, and ends with a code that the id foretells.
PAYLOAD = "echo $ROTA_JOB_ID >> ran; exit $((ROTA_JOB_ID % 5))"
#: The same with some of them alive at any moment.
LONGER = PAYLOAD.replace("exit", "sleep 0.1; exit")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "victims", [("controller",), ("agent",), ("controller", "agent")], ids=" and ".join
)
def test_jobs_in_flight_when_parts_are_killed_at_random_run_exactly_once(
    new_box: Callable[..., Box], victims: tuple[str, ...]
) -> None:
    box = new_box(cpus=CPUS)

    ids = _play(box, victims, ROUNDS)

    assert _runs(box) == Counter(ids), "every job ran, and none twice"
    assert {job: end["exit_code"] for job, end in _ends(box).items()} == _codes(ids)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "victims", [("keeper",), ("supervisor", "controller", "agent", "keeper")], ids=" and ".join
)
def test_jobs_in_flight_when_the_keeper_is_killed_too_run_once_at_most_and_say_so(
    new_box: Callable[..., Box], victims: tuple[str, ...]
) -> None:
    box = new_box(cpus=CPUS)

    ids = _play(box, victims, KEEPER_ROUNDS, LONGER)

    ends, runs = _ends(box), _runs(box)
    known = {job: end["exit_code"] for job, end in ends.items() if end["exit_code"] is not None}
    lost = ends.keys() - known.keys()
    assert ends.keys() == set(ids)
    assert known == _codes(known)
    assert {runs[job] for job in known} == {1}
    assert {runs[job] for job in lost} <= {0, 1}, "none ran twice"
    assert {ends[job]["state"] for job in lost} <= {"node_failed"}
    assert 0 < len(lost) <= CPUS * KEEPER_ROUNDS, "only what was alive when it died"


def _play(box: Box, victims: tuple[str, ...], rounds: int, payload: str = PAYLOAD) -> list[int]:
    """Kill in the middle of each round; the ids of all jobs once they have ended."""
    box.up()
    chance = random.Random(f"kill {victims}")
    ids: list[int] = []
    for number in range(rounds):
        ids += _submit(box, f"round-{number}", payload)
        _let_some_end(box, ids, chance.randrange(JOBS))
        box.kill(*victims)
        if "supervisor" in victims:
            box.up()
    until(lambda: _finished(box) >= len(ids), f"all {len(ids)} jobs to end", 240)
    assert len(ids) == len(set(ids)) == rounds * JOBS
    return ids


def _codes(ids: Iterable[int]) -> dict[int, int]:
    return {job: job % 5 for job in ids}


def _runs(box: Box) -> Counter[int]:
    return Counter(map(int, box.read("ran").split()))


def _submit(box: Box, key: str, payload: str) -> list[int]:
    """Submit a round; repeated with the same key until it is acknowledged."""
    job = {"command": payload, "workdir": str(box.work), "resources": {"cpus": 1}}
    status, answer = box.api(
        "POST", "/jobs:batch", {"jobs": [job] * JOBS}, {"Idempotency-Key": key}
    )
    assert status in (200, 201), answer
    return list(answer["ids"])


def _let_some_end(box: Box, ids: list[int], count: int) -> None:
    """Kill at random points: after so many of the newest round have ended."""
    wanted = len(ids) - JOBS + count
    until(lambda: _finished(box) >= wanted, f"{wanted} jobs to end", 120)


def _finished(box: Box) -> int:
    _, status = box.api("GET", "/status")
    return sum(count for state, count in status["jobs"].items() if state in FINAL)


def _ends(box: Box) -> dict[int, dict[str, Any]]:
    """How each job ended."""
    found: dict[int, dict[str, Any]] = {}
    cursor = ""
    while True:
        _, page = box.api("GET", f"/jobs?limit=1000&cursor={cursor}")
        found |= {job["id"]: job for job in page["items"]}
        cursor = page["cursor"]
        if not cursor:
            return found
