"""``rota why`` on a live box: it names the true cause, and its advice, applied, starts the job."""

from __future__ import annotations

import json
import shlex
import time
from typing import TYPE_CHECKING

import pytest

from rota.core.words.units import format_when
from tests.journeys.box import Box, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UNTIL_GO = "while [ ! -e go ]; do sleep 0.02; done"
#: Two of each, with the memory of the real ones.
CARDS = [{"model": model, "memory_mib": mib} for model, mib in (("A100", 40960), ("H100", 81920))]


@pytest.fixture(scope="module")
def _cards_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    box = Box(tmp_path_factory.mktemp("why"), gpus=4)
    fake = tmp_path_factory.mktemp("cards") / "gpus.json"
    fake.write_text(json.dumps([card | {"numa": 0} for card in CARDS for _ in range(2)]))
    box.env["ROTA_FAKE_GPUS"] = str(fake)
    box.up()
    yield box
    box.down("--stop-jobs")


@pytest.fixture
def box(_cards_box: Box, tmp_path: Path) -> Iterator[Box]:
    """Four CPUs, two A100 and two H100, idle; what a test leaves behind is cleared away."""
    home = _cards_box.at(tmp_path)
    until(lambda: home.api("GET", "/nodes/box")[1].get("state") == "up", "the node to be up")
    yield home
    home.api("POST", "/jobs:cancel", {"all": True})
    for reservation in home.api("GET", "/reservations")[1]["items"]:
        home.api("DELETE", f"/reservations/{reservation['id']}")
    until(lambda: not home.api("GET", "/jobs?state=active&limit=1")[1]["items"], "an idle box")


def hog(box: Box, **fields: object) -> int:
    """A job that holds room until the file ``go`` is there."""
    job = box.job(UNTIL_GO, **fields)
    box.reach(job, "running")
    return job


def why(box: Box, job: int) -> tuple[str, list[str]]:
    """The first line of the answer without the id, and the commands that it advises."""
    lines = box.rota("why", str(job)).stdout.splitlines()
    tries = [line.strip().removeprefix("try: ") for line in lines if "try: " in line]
    first = lines[0].partition(" is ")[2]
    return first, [text[text.index("rota ") :] for text in tries if "rota " in text]


def follow(box: Box, command: str, job: int) -> None:
    """Do what was advised: the job runs, while all that stood in its way is still there."""
    program, *words = shlex.split(command)
    assert program == "rota"
    box.rota(*words)
    box.reach(job, "running", "completed")


def test_too_few_gpus(box: Box) -> None:
    hog(box, resources={"cpus": 0.5, "gpus": 3})
    job = box.job(["true"], resources={"cpus": 0.5, "gpus": 2})

    cause, advice = why(box, job)

    assert cause == "queued: not enough free gpus"
    assert advice[0] == f"rota update {job} --gpus 1"
    follow(box, advice[0], job)


def test_the_wrong_type_of_gpu(box: Box) -> None:
    hog(box, resources={"cpus": 0.5, "gpus": 2, "gpu_type": "H100"})
    job = box.job(["true"], resources={"cpus": 0.5, "gpus": 2, "gpu_type": "H100"})

    cause, advice = why(box, job)

    assert cause == "queued: not enough free gpus"
    assert f"rota update {job} --gpus 2 --gpu-type auto" in advice
    follow(box, advice[0], job)
    assert box.show(job)["resources"]["gpus"] == 2


def test_too_few_cpus(box: Box) -> None:
    hog(box, resources={"cpus": 3})
    job = box.job(["true"], resources={"cpus": 4})

    cause, advice = why(box, job)

    assert cause == "queued: not enough free cpus"
    assert advice[0] == f"rota update {job} --cpus 1"
    follow(box, advice[0], job)


def test_too_little_memory(box: Box) -> None:
    total = box.api("GET", "/nodes/box")[1]["total"]["memory_mb"]
    hog(box, resources={"cpus": 0.5, "memory_mb": total * 3 // 4})
    job = box.job(["true"], resources={"cpus": 0.5, "memory_mb": total // 2})

    cause, advice = why(box, job)

    assert cause == "queued: not enough free memory"
    assert advice[0].startswith(f"rota update {job} --mem ")
    follow(box, advice[0], job)


def test_too_little_memory_left_on_a_shared_gpu(box: Box) -> None:
    hog(box, resources={"cpus": 0.5, "gpus": 1, "gpu_type": "A100"})
    hog(box, resources={"cpus": 0.5, "gpus": 2, "gpu_type": "H100"})
    share = {"cpus": 0.5, "gpus": 1, "shared": True, "gpu_memory_mb": 24576}
    hog(box, resources=share)
    job = box.job(["true"], resources={**share, "gpu_memory_mb": 32768})

    cause, advice = why(box, job)

    assert cause == "queued: not enough free gpus"
    assert advice[0] == f"rota update {job} --gpus 1 --gpu-mem 16G"
    follow(box, advice[0], job)


def test_the_cap_of_a_group(box: Box) -> None:
    first = box.job(UNTIL_GO, group="few", max_concurrent=1)
    box.reach(first, "running")
    job = box.job(["true"], group="few")

    cause, advice = why(box, job)

    assert cause == "queued: group few runs 1 of at most 1"
    assert advice[0] == "rota group set few --max-concurrent 2"
    follow(box, advice[0], job)


def test_the_cap_of_an_array(box: Box) -> None:
    array = box.job(UNTIL_GO, array="0-2%1", resources={"cpus": 0.5})
    box.reach(array + 1, "running")

    cause, advice = why(box, array + 2)

    assert cause == f"queued: array {array} runs 1 of at most 1"
    assert advice[0] == f"rota update {array} --max-concurrent 2"
    follow(box, advice[0], array + 2)


def test_the_quota_of_a_user(box: Box) -> None:
    user = box.status()["user"]
    box.rota("quota", "set", "--user", user, "--jobs", "1")
    try:
        hog(box)
        job = box.job(["true"])

        cause, advice = why(box, job)

        assert cause == f"queued: user {user} runs 1 of at most 1"
        assert f"rota quota set --user {user} --jobs 2" in advice
        follow(box, f"rota quota set --user {user} --jobs 2", job)
    finally:
        box.rota("quota", "unset", "--user", user)


def test_a_paused_queue(box: Box) -> None:
    box.rota("queue-admin", "add", "night", "--state", "paused")
    job = box.job(["true"], queue="night")

    cause, advice = why(box, job)

    assert cause == "queued: queue night is paused"
    assert advice[:2] == [
        f"rota update {job} --queue default",
        "rota queue-admin set night --state active",
    ]
    follow(box, advice[0], job)
    other = box.job(["true"], queue="night")
    follow(box, advice[1], other)


def test_a_dependency(box: Box) -> None:
    parent = hog(box)
    job = box.job(["true"], depends_on=[{"kind": "after-ok", "job": parent}])

    cause, advice = why(box, job)

    assert cause == f"queued: waits for job {parent} (running)"
    assert advice == [f"rota update {job} --no-dependencies"]
    follow(box, advice[0], job)


def test_a_hold(box: Box) -> None:
    job = box.job(["true"], hold=True)

    cause, advice = why(box, job)

    assert cause == "held"
    assert advice == [f"rota release {job}"]
    follow(box, advice[0], job)


def test_a_begin_time(box: Box) -> None:
    job = box.job(["true"], begin_at="2099-01-01T00:00:00Z")

    cause, advice = why(box, job)

    assert cause.startswith("queued: begin time in ")
    assert advice == [f"rota update {job} --begin now"]
    follow(box, advice[0], job)


def test_a_limit_too_long_for_the_gap_before_another_job(box: Box) -> None:
    hog(box, resources={"cpus": 3}, time_limit_s=7200)
    first = box.job(["true"], resources={"cpus": 4}, time_limit_s=3600, priority=100)
    job = box.job(["true"], resources={"cpus": 1}, time_limit_s=86400)

    cause, advice = why(box, job)

    assert cause.startswith(f"queued: would delay job {first}, which starts in ")
    assert advice[0] == f"rota update {job} --time 1h45m"
    follow(box, advice[0], job)
    assert box.state_of(first) == "queued"


@pytest.mark.parametrize("kind", [("--user", "ada"), ("--maintenance",)])
def test_a_reservation_or_maintenance_ahead(box: Box, kind: tuple[str, ...]) -> None:
    box.rota("reserve", "add", "--nodes", "box", *kind, "--start", "now+1h", "--duration", "2h")
    job = box.job(["true"])

    cause, advice = why(box, job)

    whose = "of ada" if kind[0] == "--user" else "for maintenance"
    assert f" {whose} begins in " in cause
    assert advice[0].startswith(f"rota update {job} --time 5")
    follow(box, advice[0], job)


def test_a_label_that_no_node_has(box: Box) -> None:
    job = box.submit("--constraint", "ssd", "--scheduling-timeout", "1h", "--", "true")

    cause, advice = why(box, job)

    assert cause == "queued: node box: no label ssd, needs ssd"
    assert advice[0] == f"rota update {job} --constraint ''"
    follow(box, advice[0], job)


def test_a_taint_that_it_does_not_tolerate(box: Box) -> None:
    box.rota("node", "taint", "box", "team=vision")
    try:
        job = box.submit("--scheduling-timeout", "1h", "--", "true")

        cause, advice = why(box, job)

        assert cause == "queued: node box: taint team=vision"
        assert advice[0] == f"rota update {job} --tolerate team"
        follow(box, advice[0], job)
    finally:
        box.rota("node", "taint", "box", "team-")


def test_a_node_that_it_wants_to_itself(box: Box) -> None:
    hog(box, resources={"cpus": 1})
    job = box.submit("--exclusive", "--", "true")

    cause, advice = why(box, job)

    assert cause == "queued: no node is idle"
    assert advice[0] == f"rota update {job} --no-exclusive"
    follow(box, advice[0], job)


def test_room_for_some_tasks_of_a_gang(box: Box) -> None:
    hog(box, resources={"cpus": 2})
    job = box.job(["true"], tasks=4)

    cause, advice = why(box, job)

    assert cause == "queued: no room for all of its 4 tasks"
    assert f"rota update {job} --tasks 2" in advice
    follow(box, f"rota update {job} --tasks 2", job)


def test_a_drained_node(box: Box) -> None:
    box.rota("node", "drain", "box", "--reason", "new fans")
    job = box.job(["true"])

    cause, advice = why(box, job)

    assert cause == "queued: node box is drained (new fans)"
    assert advice == ["rota node resume box"]
    follow(box, advice[0], job)


def test_where_no_single_change_helps_the_answer_is_when(box: Box) -> None:
    hog(box, resources={"cpus": 4, "gpus": 4}, time_limit_s=3600)
    job = box.job(["true"], resources={"cpus": 1, "gpus": 1})

    shown = box.rota("why", str(job)).stdout

    assert "no single change would start it now" in shown
    assert "it is expected to start in " in shown
    assert "try:" not in shown


def test_a_plan_says_where_it_would_start_or_what_would_help_and_submits_nothing(box: Box) -> None:
    before = box.status()["jobs"]
    fits = box.rota("plan", "--gpus", "2", "--gpu-type", "H100", "--", "true")
    hog(box, resources={"cpus": 1, "gpus": 3})

    waits = box.rota("plan", "--gpus", "2", "--", "true", check=False)
    refused = box.refusal("plan", "--gpus", "99", "--", "true")

    assert fits.stdout.splitlines()[:2] == [
        "it would start now",
        "  task 0 on box: 1 CPU, GPU 2, 3",
    ]
    assert waits.returncode == 1
    assert "not enough free gpus" in waits.stdout
    assert "  try: ask for 1 GPU instead of 2: --gpus 1" in waits.stdout
    assert " asked for, but " in refused
    assert sum(box.status()["jobs"].values()) == sum(before.values()) + 1


def test_why_a_job_waited_can_be_asked_after_it_has_run(box: Box) -> None:
    hog(box, resources={"cpus": 4})
    job = box.job(["true"], resources={"cpus": 2})
    # Times are told in milliseconds: one that began after the job came and is over now.
    waited_s = time.time() + 0.001
    until(lambda: time.time() > waited_s + 0.001, "that moment to pass")
    (box.work / "go").touch()
    box.ended(job)

    then = box.rota("why", str(job), "--at", format_when(waited_s)).stdout
    now = box.rota("why", str(job)).stdout

    assert then.splitlines()[0] == f"{job} was queued: not enough free cpus"
    assert now.startswith(f"{job} completed")


def test_queues_are_listed_with_what_their_jobs_wait_for(box: Box) -> None:
    hog(box, resources={"cpus": 4})
    box.job(["true"], hold=True)
    box.job(["true"])

    (row,) = [
        line.split(maxsplit=8)
        for line in box.rota("queues").stdout.splitlines()
        if line.startswith("default")
    ]

    assert row[:4] == ["default", "active", "2", "1"]
    assert row[8] == "held 1, room 1"


def test_a_job_that_waits_to_be_tried_again_says_what_its_last_try_came_to(box: Box) -> None:
    job = box.job(["sh", "-c", "exit 3"], retries=1, backoff_s=3600)
    until(lambda: box.show(job)["reason"].startswith("next try"), "the pause")

    said = box.rota("why", str(job)).stdout

    assert "  its try 1 on box ended: exit code 3\n" in said
