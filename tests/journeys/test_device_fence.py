"""Nodes that are to keep jobs from the devices of others, and cannot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.journeys.box import Box


def box_without_groups(new_box: Callable[..., Box], policy: str) -> Box:
    box = new_box()
    cards = box.work / "cards.json"
    cards.write_text(json.dumps([{"model": "A100", "files": ["/dev/full"]}]))
    box.env["ROTA_FAKE_GPUS"] = str(cards)
    box.env["ROTA_AGENT_ENFORCE_DEVICES"] = policy
    box.env["ROTA_AGENT_CGROUP_ROOT"] = "off"
    box.up()
    return box


def test_a_node_that_must_enforce_devices_and_cannot_takes_no_gpu_jobs_and_says_so(
    new_box: Callable[..., Box],
) -> None:
    box = box_without_groups(new_box, "required")

    refusal = box.refusal("submit", "--gpus", "1", "--", "true")
    plain = box.ran(["true"])

    assert " asked for, but " in refusal
    assert plain["state"] == "completed"
    noted = "takes no GPU jobs: agent.enforce_devices is required, but there are no control groups"
    assert noted in box.rota("nodes").stdout


def test_a_node_that_cannot_enforce_devices_says_so_and_goes_on(
    new_box: Callable[..., Box],
) -> None:
    box = box_without_groups(new_box, "auto")

    job = box.ran(["true"], resources={"gpus": 1})

    assert job["state"] == "completed"
    assert "GPUs are not enforced: there are no control groups" in box.rota("nodes").stdout
