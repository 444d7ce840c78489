"""One machine in the hands of its people: jobs suspended, GPUs chosen, figures asked for."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rota.keeper.processes import snapshot
from tests.journeys.box import Box, until

if TYPE_CHECKING:
    from collections.abc import Callable

BEATS = "trap 'echo heard; exit 5' TERM; while :; do echo beat >> beats; sleep 0.02; done"


def beats(box: Box) -> int:
    return len(box.read("beats").splitlines())


def stands_still(pid: int) -> bool:
    """A shell that is just starting a command waits for it, stopped or not, out of any reach."""
    session = [process for process in snapshot().values() if process.session == pid]
    parents = {process.parent for process in session if process.stopped}
    return bool(session) and all(one.stopped or one.pid in parents for one in session)


def test_a_suspended_job_stands_still_through_kill_9_goes_on_and_hears_a_cancel(box: Box) -> None:
    job = box.job(BEATS, name="beats", time_limit_s=3600)
    until(lambda: beats(box), "the job to run")
    pid = box.reach(job, "running")["attempts"][0]["pid"]

    said = box.rota("suspend", str(job)).stdout
    until(lambda: stands_still(pid), "its processes to stand still")
    counted = beats(box)
    box.kill("supervisor", "controller", "agent")
    until(lambda: not box.pid("controller"), "the controller to be dead")
    box.up()
    listed = box.rota("queue").stdout
    shown = box.show(job)
    still = (stands_still(pid), beats(box))
    box.rota("resume", str(job))
    until(lambda: beats(box) > counted + 3, "the job to go on")
    box.rota("suspend", str(job))
    until(lambda: stands_still(pid), "its processes to stand still again")
    box.rota("cancel", str(job))

    assert said == f"suspended {job}\n"
    assert "box: suspended by " in listed
    assert (shown["state"], shown["reason"][:13]) == ("running", "suspended by ")
    assert still == (True, counted)
    assert box.ended(job)["state"] == "cancelled"
    assert box.output(job) == "heard\n"


def test_a_limit_does_not_pass_while_a_job_is_suspended(box: Box) -> None:
    job = box.job("while :; do echo beat >> beats; sleep 0.02; done", time_limit_s=60, grace_s=1)
    started_s = _seconds(box.reach(job, "running")["started_at"])
    status, _ = box.api("PATCH", f"/jobs/{job}", {"action": "suspend"})
    limit_s = int(time.time() - started_s) + 2
    box.api("PATCH", f"/jobs/{job}", {"time_limit_s": limit_s})

    until(lambda: time.time() > started_s + limit_s + 0.5, "so much time to pass")
    suspended = box.state_of(job)
    box.api("PATCH", f"/jobs/{job}", {"action": "resume"})

    assert (status, suspended) == (200, "running")
    assert box.ended(job)["state"] == "timeout"


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def fake_gpus(box: Box, *foreign: dict[str, object], count: int = 2) -> None:
    """Everybody else is on the first GPU."""
    gpus = [{"model": "A100", "memory_mib": 40960, "numa": 0} for _ in range(count)]
    gpus[0]["foreign"] = list(foreign)
    Path(box.env["ROTA_FAKE_GPUS"]).write_text(json.dumps(gpus))


def gpu_lines(box: Box) -> list[str]:
    return [" ".join(line.split()) for line in box.rota("gpus").stdout.splitlines()[1:]]


def test_processes_of_others_count_unless_they_are_small_named_or_ignored(
    new_box: Callable[..., Box],
) -> None:
    box = new_box(gpus=2)
    box.env |= {"ROTA_AGENT_FOREIGN_THRESHOLD": "500m", "ROTA_AGENT_FOREIGN_IGNORE": "Xorg"}
    fake_gpus(
        box,
        {"pid": 4242, "user": "bob", "memory_mib": 400},
        {"pid": 4343, "user": "root", "memory_mib": 900, "name": "Xorg"},
        {"pid": 4444, "user": "bob", "memory_mib": 9000},
    )
    box.up()

    before = gpu_lines(box)
    pair = box.job(["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"], resources={"gpus": 2})
    waits = box.show(pair)["state"]
    box.rota("gpus", "ignore", "box", "4444")

    assert before[0] == ("box 0 A100 40G foreign (bob:4242:400M) (root:4343:900M) bob:4444:8.79G")
    assert waits == "queued"
    assert box.ended(pair)["state"] == "completed"
    assert box.output(pair) == "0,1\n"
    assert gpu_lines(box)[0].startswith("box 0 A100 40G free (bob:4242")


def test_an_operator_chooses_the_gpus_of_a_node_while_jobs_run(
    new_box: Callable[..., Box],
) -> None:
    box = new_box(gpus=4)
    box.up()
    runs = box.job("while [ ! -e go ]; do sleep 0.02; done", resources={"gpus": 1})
    box.reach(runs, "running")

    box.rota("node", "devices", "box", "2,3")
    lines = gpu_lines(box)
    seen = [box.ran(["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"], resources={"gpus": n})["id"]
            for n in (1, 2)]  # fmt: skip
    (box.work / "go").touch()

    assert [line.split()[4] for line in lines] == ["used+closed", "closed", "free", "free"]
    assert [box.output(job) for job in seen] == ["2\n", "2,3\n"]
    assert box.ended(runs)["state"] == "completed"
    assert "it has 0, 1, 2, 3" in box.refusal("node", "devices", "box", "9")


def test_the_three_ways_of_choosing_gpus_reach_the_job(new_box: Callable[..., Box]) -> None:
    """Four GPUs, two in each domain, the first one taken."""
    box = new_box(gpus=4)
    box.up()
    first = box.job("while [ ! -e go ]; do sleep 0.02; done", resources={"gpus": 1})
    box.reach(first, "running")
    seen = {}
    for how in ("numa", "sequential", "random"):
        box.rota("policy", "set", f"place.devices={how}")
        job = box.ran(["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"], resources={"gpus": 2})["id"]
        seen[how] = box.output(job).strip()
    (box.work / "go").touch()

    assert (seen["numa"], seen["sequential"]) == ("2,3", "1,2")
    assert seen["random"] in ("1,2", "1,3", "2,3")
    assert "numa" in box.refusal("policy", "set", "place.devices=nearest")


def test_stats_tell_what_became_of_the_jobs(box: Box) -> None:
    box.ran(["true"])
    box.ran("exit 3")
    box.ran(["sleep", "0.2"], name="long")

    text = box.rota("stats", "--period", "1h").stdout
    answer = json.loads(box.rota("stats", "--json").stdout)

    (row,) = answer["items"]
    assert row["states"] == {"completed": 2, "failed": 1}
    assert row["success_rate"] == 0.6667
    assert row["mean_run_s"] > 0.05
    assert answer["longest"][0]["name"] == "long"
    assert "67%" in text
