"""Rules, labels, quotas, reservations and checkpoints on a real box, as an admin meets them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from tests.journeys.box import Box, until

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_file_sets_the_rules_at_each_start_and_the_rest_is_kept(
    new_box: Callable[..., Box],
) -> None:
    box = new_box()
    box.state.mkdir()
    settings = box.state / "rota.toml"
    settings.write_text("[scheduling.order]\nprimary = 'wfp3'\n")
    box.up()

    box.rota("policy", "set", "order.primary=sjf", "backfill.kind=conservative")
    now = json.loads(box.rota("policy", "show", "--json").stdout)["changed"]
    box.down()
    box.up()

    later = json.loads(box.rota("policy", "show", "--json").stdout)["changed"]
    assert now == {"order.primary": "sjf", "backfill.kind": "conservative"}
    assert later == {"order.primary": "wfp3", "backfill.kind": "conservative"}
    box.down()
    settings.write_text("[scheduling]\npolicy = 'fife'\n")
    assert "did you mean fifo?" in box.refusal("up", "--detach")


def test_a_label_lets_a_job_go_and_a_taint_keeps_it_away(box: Box) -> None:
    wants = box.submit("--constraint", "rack=a", "--scheduling-timeout", "1h", "--", "true")

    waiting = box.state_of(wants)
    box.rota("node", "label", "box", "rack=a")
    done = box.ended(wants)
    box.rota("node", "taint", "box", "team=vision")
    away = box.submit("--scheduling-timeout", "1h", "--", "true")
    borne = box.ended(box.submit("--tolerate", "team=vision", "--", "true"))

    assert waiting == "queued"
    assert (done["state"], borne["state"]) == ("completed", "completed")
    assert box.state_of(away) == "queued"
    assert "team=vision" in box.rota("nodes").stdout
    box.rota("node", "taint", "box", "team-")
    assert box.ended(away)["state"] == "completed"


def test_a_job_saves_its_work_and_says_so(new_box: Callable[..., Box]) -> None:
    box = new_box()
    box.env["ROTA_SERVER_CHECKPOINT_PATH"] = str(box.work / "saved")
    box.up()
    line = (
        'mkdir -p "$ROTA_CHECKPOINT_DIR" && echo state > "$ROTA_CHECKPOINT_DIR/model" '
        f"&& {sys.executable} -m rota.cli.main checkpoint && sleep 300"
    )
    job = box.job(line)

    saved = until(lambda: box.api("GET", f"/jobs/{job}")[1]["checkpoint_at"], "a checkpoint")

    (model,) = (box.work / "saved").glob(f"{job}-*/model")
    assert model.read_text() == "state\n"
    assert box.api("GET", f"/jobs/{job}/checkpoint")[1]["saved_at"] == saved
    assert "last checkpoint" in box.rota("show", str(job)).stdout


def test_a_job_saves_its_work_gives_way_and_goes_on_from_there(new_box: Callable[..., Box]) -> None:
    box = new_box()
    box.env["ROTA_SERVER_CHECKPOINT_PATH"] = str(box.work / "saved")
    box.up()
    rules = ("preempt.mode=checkpoint", "preempt.min_runtime_s=0", "preempt.grace_s=30")
    box.rota("policy", "set", "preemptive", *rules)
    saves = (
        'mkdir -p "$ROTA_CHECKPOINT_DIR"; saved="$ROTA_CHECKPOINT_DIR/step"; '
        '[ "$ROTA_RESUME" = 1 ] && echo "goes on from $(cat "$saved")" && exit; '
        "trap 'echo 41 > \"$saved\"; exit 0' USR1; echo begun; while :; do sleep 0.05; done"
    )
    low = box.job(
        saves, priority=10, preemptible=True, checkpoint_signal="USR1", resources={"cpus": 4}
    )
    until(lambda: "begun" in box.output(low), "its first words")

    high = box.job("sleep 1", priority=60, resources={"cpus": 4})

    assert box.ended(high)["state"] == "completed"
    assert box.ended(low)["state"] == "completed"
    assert box.output(low) == "goes on from 41\n"
    first, second = box.show(low)["attempts"]
    assert (first["cause"], first["exit_code"]) == (f"preempted: gave way to job {high}", 0)
    assert first["ended_at"] <= box.show(high)["started_at"] <= second["started_at"]


def test_a_job_stands_still_for_another_and_goes_on_after_kill_9(
    new_box: Callable[..., Box],
) -> None:
    box = new_box()
    box.up()
    box.rota("policy", "set", "preemptive", "preempt.mode=suspend", "preempt.min_runtime_s=0")
    low = box.job("i=0; while [ ! -e done ]; do i=$((i+1)); echo $i; sleep 0.05; done",
                  priority=10, preemptible=True, resources={"cpus": 4})  # fmt: skip
    until(lambda: "2" in box.output(low), "its first words")

    high = box.job("while [ ! -e go ]; do sleep 0.05; done", priority=60, resources={"cpus": 2})
    until(lambda: box.state_of(high) == "running", "the other one to run")
    box.kill("controller", "agent")
    reason, said = box.show(low)["reason"], box.why(low)
    before = box.output(low)
    (box.work / "go").touch()
    assert box.ended(high)["state"] == "completed"
    until(lambda: len(box.output(low)) > len(before), "it to go on")
    (box.work / "done").touch()

    assert reason == f"suspended: lends its CPUs to job {high} until that is gone"
    assert reason in said
    assert box.ended(low)["state"] == "completed"
    assert len(box.show(low)["attempts"]) == 1
    events = [event["kind"] for event in box.api("GET", f"/jobs/{low}/events")[1]["items"]]
    assert [kind for kind in events if kind in ("job-suspended", "job-resumed")] == [
        "job-suspended",
        "job-resumed",
    ]


def test_what_is_promised_is_shown_on_a_line_and_not_promised_again(home: Box) -> None:
    add = ("reserve", "add", "--start", "2096-03-01T18:00", "--duration", "4h", "--zone", "UTC")
    number = home.rota(*add, "--gpus", "3", "--user", "ada", "-q").stdout.strip()

    listed = home.rota("reserve", "list", "--zone", "Asia/Tokyo").stdout
    refused = home.refusal(*add, "--gpus", "2", "--project", "vision")

    assert "2096-03-02 03:00" in listed
    assert f"{number}  ....." in listed
    assert "2 cannot be promised at 2096-03-01T18:00:00Z: 1 too few" in refused
    home.rota("reserve", "remove", number)
    assert home.rota("reserve", "list", "-q").stdout == ""


def test_what_a_quota_can_never_allow_is_refused_at_once(home: Box) -> None:
    home.rota("project", "add", "vision", "--shares", "3")
    home.rota("quota", "set", "--project", "vision", "--gpus", "1")

    refused = home.refusal("submit", "--project", "vision", "--gpus", "2", "--", "true")
    allowed = home.ran(["true"], project="vision", resources={"gpus": 1})
    used = json.loads(home.rota("usage", "-p", "vision", "--json").stdout)

    assert "project vision may hold at most 1" in refused
    assert allowed["state"] == "completed"
    assert used["items"][0]["attempts"] == 1
    home.rota("quota", "unset", "--project", "vision")
    home.rota("project", "remove", "vision")
