"""What a live box recorded, played again: the same decisions, and what other rules would mean."""

from __future__ import annotations

import json
from typing import Any

from tests.journeys.box import Box, until


def finish(box: Box) -> None:
    def done() -> bool:
        _, page = box.api("GET", "/jobs?state=active&limit=1")
        return not page["items"]

    until(done, "everything to end")


def a_busy_morning(box: Box) -> None:
    """Priorities, projects, an array with a cap, a child, a retry, a cancel, a hold, a gang."""
    two = {"resources": {"cpus": 2}, "project": "vision", "time_limit_s": 60}
    first, *_ = [box.job("sleep 0.3", **two) for _ in range(4)]
    box.job("sleep 0.1", priority=75, project="text", resources={"cpus": 2}, time_limit_s=5)
    box.job("sleep 0.1", array="0-5%2", project="text", time_limit_s=5)
    box.job("true", depends_on=[{"kind": "after-ok", "job": first}], **two)
    box.job("exit 3", retries=1, backoff_s=0.05)
    box.job("sleep 0.2", tasks=3, project="vision")
    held = box.job("true", hold=True)
    doomed = box.job("sleep 60", resources={"cpus": 4}, priority=1)
    box.api("DELETE", f"/jobs/{doomed}")
    box.api("POST", "/jobs:release", {"ids": [held]})


def test_every_decision_of_a_box_that_was_killed_in_between_comes_out_again(box: Box) -> None:
    a_busy_morning(box)
    box.kill("controller")
    until(lambda: box.api("GET", "/status")[0] == 200, "the controller to be back")
    a_busy_morning(box)
    box.rota("policy", "set", "sjf")
    a_busy_morning(box)
    # While jobs run and the controller writes.
    busy = box.rota("replay")
    finish(box)

    told: dict[str, Any] = json.loads(box.rota("replay", "--json").stdout)
    tried = box.rota("policy", "test", "fcfs").stdout

    assert busy.stdout.splitlines()[-1].endswith("all the same")
    assert told["difference"] is None
    assert told["controllers"] == 2
    # Each morning four, a high one, six elements, a child, two tries, a gang and a held one.
    assert told["decisions"] >= 3 * 16
    titles = [line.split()[0] for line in tried.splitlines() if "WAIT NOW" in line]
    assert titles == ["USER", "PROJECT"]
    assert "mean wait" in tried
    assert box.rota("policy", "show").stdout.startswith("policy: sjf")
