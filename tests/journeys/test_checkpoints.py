"""Saved work on a real box: reported, looked at, bounded, kept, gone on from, removed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from tests.journeys.box import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.journeys.box import Box

ROTA = f"{sys.executable} -m rota.cli.main"
REST = "sleep 300 & wait $!"


@pytest.fixture
def saving_box(open_folder: Path, new_box: Callable[..., Box]) -> Callable[..., Box]:
    """A box that is up, keeps saved work beside it and has these settings."""

    def make(**settings: str) -> Box:
        box = new_box(open_folder / "box")
        box.env["ROTA_SERVER_CHECKPOINT_PATH"] = str(box.work / "saved")
        box.env |= {f"ROTA_CHECKPOINTS_{key.upper()}": text for key, text in settings.items()}
        box.up()
        return box

    return make


def folder_of(box: Box, job: int) -> Path:
    (found,) = (path for path in (box.work / "saved").glob(f"{job}-*") if path.is_dir())
    return found


def reported(box: Box, job: int, count: int = 1) -> list[dict[str, object]]:
    """Its checkpoints once there are so many."""

    def there() -> list[dict[str, object]] | None:
        found = box.api("GET", f"/jobs/{job}/checkpoint")[1]["checkpoints"]
        return found if len(found) >= count else None

    return list(until(there, f"{count} checkpoints of job {job}"))


def test_a_job_reports_a_checkpoint_and_everybody_can_see_what_and_where(
    saving_box: Callable[..., Box],
) -> None:
    box = saving_box()
    job = box.job(
        'echo weights > "$ROTA_CHECKPOINT_DIR/step-100" && '
        f"{ROTA} checkpoint --step 100 --path step-100 --note 'loss 0.3' && {REST}"
    )

    (record,) = reported(box, job)

    assert (record["step"], record["path"], record["note"]) == (100, "step-100", "loss 0.3")
    assert (record["size"], record["attempt"]) == (len("weights\n"), 1)
    assert "try 1, step 100, step-100, 8B, loss 0.3" in box.rota("show", str(job)).stdout
    beside = folder_of(box, job).with_name(folder_of(box, job).name + ".json")
    until(beside.exists, "the note beside the folder")
    assert json.loads(beside.read_text())["checkpoints"] == [record]
    (listed,) = json.loads(box.rota("checkpoint", "list", "--json").stdout)
    assert (listed["id"], listed["files"], listed["node"]) == (job, 1, "box")


def test_the_file_beside_saved_work_follows_the_state_of_its_job(
    saving_box: Callable[..., Box],
) -> None:
    box = saving_box()
    job = box.job(
        'cd "$ROTA_CHECKPOINT_DIR"; '
        f'if [ "$ROTA_RESUME" = 1 ]; then {REST}; fi; '
        f"echo 41 > step; {ROTA} checkpoint --step 41; {REST}"
    )
    reported(box, job)
    folder = folder_of(box, job)

    def noted() -> str:
        return str(json.loads(folder.with_name(folder.name + ".json").read_text())["state"])

    box.rota("requeue", str(job), "--hold")
    until(lambda: noted() == "held", "the note of a job that was put back")
    box.rota("release", str(job))
    until(lambda: noted() == "running", "the note of a job that runs again")
    box.rota("cancel", str(job))
    box.ended(job)

    until(lambda: noted() == "cancelled", "the note of a job that has ended")


def test_a_requeued_job_goes_on_from_its_checkpoint_and_it_can_be_removed_afterwards(
    saving_box: Callable[..., Box],
) -> None:
    box = saving_box()
    job = box.job(
        'cd "$ROTA_CHECKPOINT_DIR"; '
        'if [ "$ROTA_RESUME" = 1 ]; then echo "goes on from $(cat step)"; exit; fi; '
        f"echo 41 > step; {ROTA} checkpoint --step 41; {REST}"
    )
    reported(box, job)
    refused = box.refusal("checkpoint", "rm", str(job))

    box.rota("requeue", str(job))

    assert box.ended(job)["state"] == "completed"
    assert box.output(job) == "goes on from 41\n"
    assert "is running; its saved work can be removed when it is not" in refused
    folder = folder_of(box, job)
    assert box.rota("checkpoint", "rm", str(job)).stdout == f"{job}: removed\n"
    assert not folder.exists()
    assert json.loads(box.rota("checkpoint", "list", "--json").stdout) == []


def test_more_than_the_site_takes_is_refused_before_it_is_written_and_when_it_is_reported(
    saving_box: Callable[..., Box],
) -> None:
    box = saving_box(max_size="1m")
    job = box.job(REST)
    box.reach(job, "running")

    asked = box.refusal("checkpoint", str(job), "--ask", "--size", "2m")
    may = box.rota("checkpoint", str(job), "--ask", "--size", "512k")
    told = box.refusal("checkpoint", str(job), "--size", "2m")

    assert "size" in asked
    assert "2097152" in asked
    assert "bytes are more than 1048576 (checkpoints.max_size)" in asked
    assert told == asked
    assert may.stdout == f"{job}: may be written\n"
    assert box.api("GET", f"/jobs/{job}/checkpoint")[1]["checkpoints"] == []


def test_of_many_checkpoints_the_latest_are_kept_and_the_files_of_others_go(
    saving_box: Callable[..., Box],
) -> None:
    box = saving_box(keep="2")
    job = box.job(
        "for step in 1 2 3; do "
        'cd "$ROTA_CHECKPOINT_DIR"; mkdir step-$step; echo x > step-$step/model; '
        f"{ROTA} checkpoint --step $step --path step-$step; done; cd ..; touch reported; {REST}"
    )
    until(lambda: (box.work / "saved" / "reported").exists(), "three reports")

    kept = [record["path"] for record in reported(box, job, 2)]

    folder = folder_of(box, job)
    until(lambda: not (folder / "step-1").exists(), "the oldest to go")
    assert kept == ["step-2", "step-3"]
    assert sorted(path.name for path in folder.iterdir()) == ["step-2", "step-3"]


def test_what_was_reported_is_in_the_store_and_comes_back_where_the_folder_is_not(
    saving_box: Callable[..., Box], tmp_path: Path
) -> None:
    box = saving_box(store=f"file://{tmp_path}/store")
    job = box.job(
        'cd "$ROTA_CHECKPOINT_DIR"; '
        'if [ "$ROTA_RESUME" = 1 ]; then echo "goes on from $(cat step)"; exit; fi; '
        f"echo 41 > step; {ROTA} checkpoint --step 41; {REST}"
    )
    reported(box, job)
    until(lambda: list((tmp_path / "store").glob("*/manifest.json")), "a copy")
    box.api("POST", "/jobs:requeue", {"ids": [job], "hold": True})
    box.reach(job, "held")

    # As if the next try were on another node.
    shutil.rmtree(folder_of(box, job))
    box.rota("release", str(job))

    assert box.ended(job)["state"] == "completed"
    assert box.output(job) == "goes on from 41\n"
    box.rota("checkpoint", "rm", str(job))
    assert list((tmp_path / "store").iterdir()) == []


def test_a_job_that_was_killed_goes_on_from_its_checkpoint(
    saving_box: Callable[..., Box],
) -> None:
    box = saving_box()
    job = box.job(
        'cd "$ROTA_CHECKPOINT_DIR"; '
        'if [ "$ROTA_RESUME" = 1 ]; then echo "goes on from $(cat step)"; exit; fi; '
        f"echo $$ > pid; echo 7 > step; {ROTA} checkpoint --step 7; {REST}",
        retries=1,
        backoff_s=0,
    )
    reported(box, job)
    pid = int((folder_of(box, job) / "pid").read_text())

    os.kill(pid, 9)

    assert box.ended(job)["state"] == "completed"
    assert box.output(job) == "goes on from 7\n"


@pytest.mark.root
def test_saved_work_is_not_for_the_eyes_and_hands_of_others(
    saving_box: Callable[..., Box],
) -> None:
    box = saving_box()
    job = box.job(f'echo x > "$ROTA_CHECKPOINT_DIR/model"; {ROTA} checkpoint; {REST}')
    reported(box, job)
    stranger = box.at(box.work, user="nobody")

    status, refused = stranger.api("DELETE", f"/jobs/{job}/checkpoint")
    _, seen = stranger.api("GET", f"/jobs/{job}/checkpoint")
    _, listed = stranger.api("GET", "/checkpoints")

    assert (status, refused["detail"]) == (403, f"job {job} belongs to root")
    assert (seen["folder"], seen["checkpoints"]) == (None, [])
    assert listed["items"] == []
    assert folder_of(box, job).stat().st_mode & 0o777 == 0o700


def test_without_a_setting_saved_work_lies_in_the_state_folder(home: Box) -> None:
    job = home.ran('test -d "$ROTA_CHECKPOINT_DIR" && echo "$ROTA_CHECKPOINT_DIR"')

    assert home.output(job["id"]).startswith(f"{home.state}/checkpoints/")


def test_a_gang_on_one_node_leaves_no_empty_folder(home: Box) -> None:
    job = home.ran(["true"], tasks=2)

    assert job["state"] == "completed"
    left = [path.name for path in (home.state / "checkpoints").iterdir()]
    assert not [name for name in left if name.startswith(f"{job['id']}-")]
