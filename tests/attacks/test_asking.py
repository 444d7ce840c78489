"""No question of one user keeps the others waiting, however much there is to look at.

What another user waits for is told by the time that the controller worked meanwhile: the machine
may have anything else to do.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.people import Person
from tests.journeys.box import Box, UnixConnection

#: Jobs that differ: each stands in a lane of its own, and a pass looks at every one of them.
DIFFERENT = 4000
#: Questions of one user at once: those that take trials, and those that only list.
TRIED, LISTED = 6, 12
#: So long may the controller work before another user has an answer.
HELD_UP_S = 0.5
#: A wish for a promise that can be given.
BY = {"promise": True, "time_limit_s": 60, "deadline_at": "2099-01-01T00:00:00Z"}


def worked_s(town: Box) -> float:
    """The processor's time of the controller's loop."""
    pid = town.living("controller")
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


@pytest.fixture
def crowd(mallory: Person) -> list[int]:
    """Jobs of the attacker that wait for a long time, no two of them alike."""
    mallory.job(["sleep", "600"], resources={"cpus": 16}, time_limit_s=900)
    jobs = [
        {"command": "true", "resources": {"cpus": 1 + n % 16, "memory_mib": 10 + n % 900},
         "time_limit_s": 1000 + n}
        for n in range(DIFFERENT)
    ]  # fmt: skip
    status, answer = mallory.api("POST", "/jobs:batch", {"jobs": jobs})
    assert status == 201, answer
    return list(answer["ids"])


@contextlib.contextmanager
def all_at_once(
    person: Person, questions: list[tuple[str, str, bytes | None]]
) -> Iterator[list[UnixConnection]]:
    """They are asked, and nobody has read an answer yet."""
    lines = []
    for method, path, body in questions:
        line = UnixConnection(person.state / "rota.sock", user=person.user)
        line.request(method, f"/api/v1{path}", body, {"Content-Type": "application/json"})
        lines.append(line)
    try:
        yield lines
    finally:
        for line in lines:
            line.close()


def statuses(lines: list[UnixConnection]) -> list[int]:
    return [line.getresponse().status for line in lines]


def longest_s(town: Box, alice: Person, times: int = 8) -> float:
    """What the controller did while the victim looked at a list, and at most while she submitted
    a job."""
    found = []
    for number in range(times):
        before_s = worked_s(town)
        if number % 2:
            alice.job(["true"])
        else:
            assert alice.api("GET", "/jobs?limit=10")[0] == 200
        found.append(worked_s(town) - before_s)
    return max(found)


def _body(**fields: Any) -> bytes:
    return json.dumps({"command": "true", "resources": {"cpus": 3}, **fields}).encode()


def _slurm(program: str, *argv: str) -> tuple[str, str, bytes]:
    """A call of a Slurm command, as the relay would send it."""
    words = ["1", program, "/tmp", "022", "80", "box", str(len(argv)), *argv]
    body = "\0".join(words).encode()
    return "POST", "/slurm/run", b"R" + len(body).to_bytes(4, "big") + body


def test_questions_about_many_jobs_keep_nobody_waiting(
    town: Box, mallory: Person, alice: Person, crowd: list[int]
):
    kinds = {
        "why": [("GET", f"/jobs/{job}/why", None) for job in crowd[:TRIED]],
        "plan": [("POST", "/plan", _body())] * TRIED,
        "plan with a promise": [("POST", "/plan", _body(**BY))] * TRIED,
        "sbatch --test-only": [_slurm("sbatch", "--test-only", "--wrap=true")] * TRIED,
    }

    assert too_long(town, mallory, alice, kinds) == {}


def test_long_lists_keep_nobody_waiting(
    town: Box, mallory: Person, alice: Person, crowd: list[int]
):
    kinds = {
        "jobs": [("GET", "/jobs?limit=1000", None)] * LISTED,
        "starts": [("GET", "/jobs/starts", None)] * LISTED,
        "squeue": [_slurm("squeue")] * LISTED,
        "squeue --start": [_slurm("squeue", "--start")] * LISTED,
        "scontrol": [_slurm("scontrol", "show", "job")] * LISTED,
        "sacct": [_slurm("sacct", "-a")] * LISTED,
    }

    assert too_long(town, mallory, alice, kinds) == {}


def too_long(
    town: Box,
    mallory: Person,
    alice: Person,
    kinds: dict[str, list[tuple[str, str, bytes | None]]],
) -> dict[str, float]:
    """The kinds of questions that hold up others, and how long. All of them are answered."""
    held_up_s = {}
    for kind, questions in kinds.items():
        with all_at_once(mallory, questions) as lines:
            held_up_s[kind] = longest_s(town, alice)
            assert set(statuses(lines)) == {200}, kind
    return {kind: s for kind, s in held_up_s.items() if s > HELD_UP_S}
