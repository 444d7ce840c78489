"""Room on the box: GPUs alone and shared, what can never fit, and why a job waits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import until

if TYPE_CHECKING:
    from tests.journeys.box import Box

UNTIL_GO = "while [ ! -e go ]; do sleep 0.02; done"
SEE = f"echo $CUDA_VISIBLE_DEVICES; {UNTIL_GO}"


def test_exclusive_jobs_get_different_gpus_and_see_only_their_own(home: Box) -> None:
    jobs = [home.job(SEE, resources={"cpus": 0.5, "gpus": 2}) for _ in range(3)]
    until(lambda: all(map(home.output, jobs[:2])), "two of them to run")

    seen = [home.output(job).strip().split(",") for job in jobs[:2]]
    listed = json.loads(home.rota("gpus", "--json").stdout)
    third, reason = home.show(jobs[2]), home.why(jobs[2])
    (home.work / "go").touch()

    assert sorted(seen[0] + seen[1]) == ["0", "1", "2", "3"]
    assert all(len(gpu["jobs"]) == 1 for gpu in listed)
    assert (third["state"], third["reason"]) == ("queued", "not enough free gpus")
    assert "needs 2 GPUs, 0 of 4 free" in reason
    assert home.ended(jobs[2])["state"] == "completed"


def test_a_job_without_gpus_sees_none(home: Box) -> None:
    job = home.ran('echo "[$CUDA_VISIBLE_DEVICES]"')

    assert home.output(job["id"]) in ("[]\n", "[-1]\n", "[NoDevFiles]\n")


def test_shared_jobs_sit_together_within_the_cards_memory_and_apart_from_exclusive_ones(
    home: Box,
) -> None:
    alone = [home.job(SEE, resources={"cpus": 0.1, "gpus": 1}) for _ in range(3)]
    until(lambda: all(map(home.output, alone)), "the exclusive ones to run")
    share = {"cpus": 0.1, "gpus": 1, "shared": True, "gpu_memory_mb": 16_384}

    shared = [home.job(SEE, resources=share) for _ in range(3)]
    until(lambda: all(map(home.output, shared[:2])), "two shared ones to run")

    taken = {home.output(job).strip() for job in alone}
    together = {home.output(job).strip() for job in shared[:2]}
    third = home.show(shared[2])
    (home.work / "go").touch()
    assert len(taken) == 3
    assert len(together) == 1
    assert not together & taken
    assert third["state"] == "queued", "two times 16 GiB fill a card of 40 so that a third waits"


def test_gpus_can_be_chosen_by_model_and_memory(home: Box) -> None:
    job = home.submit("--gpus", "1", "--gpu-type", "a100", "--gpu-mem", "30G", "--", "true")

    assert home.ended(job)["state"] == "completed"


@pytest.mark.parametrize(
    ("options", "dimension"),
    [
        (("--gpus", "99"), "gpus"),
        (("--cpus", "5"), "cpus"),
        (("--mem", "99T"), "memory"),
        (("--disk", "9000T"), "disk"),
        (("--gpu-type", "H100"), "gpu_type"),
        (("--gpu-mem", "80G", "--gpus", "1"), "gpu_memory"),
    ],
)
def test_what_can_never_run_is_refused_at_submit_by_its_dimension(
    home: Box, options: tuple[str, ...], dimension: str
) -> None:
    before = home.status()["jobs"]

    line = home.refusal("submit", *options, "--", "true")

    assert dimension in line
    assert " asked for, but " in line
    assert home.status()["jobs"] == before


def test_a_job_that_found_no_room_in_time_is_unschedulable_and_says_why(home: Box) -> None:
    home.job(UNTIL_GO, resources={"cpus": 4})

    job = home.submit("--cpus", "3", "--scheduling-timeout", "1", "--", "true")
    ended = home.ended(job)

    assert ended["state"] == "unschedulable"
    assert ended["cause_code"] == "scheduling_timeout"
    assert ended["ended_at"]
    assert home.rota("wait", str(job), check=False).returncode == 1
    (home.work / "go").touch()


def test_a_giant_with_a_timeout_waits_for_it_and_ends_unschedulable(home: Box) -> None:
    ended = home.ran(["true"], resources={"cpus": 100}, scheduling_timeout_s=1)

    assert ended["state"] == "unschedulable"


def test_memory_is_handed_out_by_request_not_by_use(home: Box) -> None:
    _, node = home.api("GET", "/nodes/box")
    most = {"cpus": 0.1, "memory_mb": node["total"]["memory_mb"] - 10}

    home.reach(home.job(UNTIL_GO, resources=most), "running")
    second = home.job(["true"], resources=most)

    waits = home.why(second)
    (home.work / "go").touch()
    assert "not enough free memory" in waits
    assert home.ended(second)["state"] == "completed"


def test_why_names_the_true_cause_in_each_situation(home: Box) -> None:
    runs = home.job(UNTIL_GO, resources={"cpus": 3})
    home.reach(runs, "running")
    reasons = {
        "running on box": runs,
        "not enough free cpus": home.job(["true"], resources={"cpus": 2}),
        "held": home.job(["true"], hold=True),
        f"waits for job {runs} (running)": home.job(
            ["true"], depends_on=[{"kind": "after-ok", "job": runs}]
        ),
        "begin time in": home.job(["true"], begin_at="2099-01-01T00:00:00Z"),
    }

    for reason, job in reasons.items():
        assert reason in home.why(job)
    (home.work / "go").touch()


def test_a_drained_node_starts_nothing_until_it_is_resumed(home: Box) -> None:
    running = home.job(UNTIL_GO)
    home.reach(running, "running")
    home.rota("node", "drain", "box", "--reason", "new fans")

    waiting = home.job(["true"])
    reason = home.why(waiting)
    listed = home.rota("nodes").stdout
    (home.work / "go").touch()
    finished = home.ended(running)
    still = home.state_of(waiting)
    home.rota("node", "resume", "box")

    assert "drained (new fans)" in reason
    assert "drained" in listed
    assert finished["state"] == "completed", "what runs goes on"
    assert still == "queued"
    assert home.ended(waiting)["state"] == "completed"
