"""What code inside a job knows and can do."""

import json
import os
import subprocess
import sys

import pytest

import rota
from rota.client import reports
from rota.client.context import JobContext

pytestmark = pytest.mark.slow
WAIT_S = 60.0


def test_a_job_knows_who_it_is_and_what_it_was_given(cluster: rota.ClusterContext):
    def describe() -> dict:
        me = rota.context()
        return {
            "id": me.job_id,
            "name": me.name,
            "place": (me.rank, me.world_size, me.array_index),
            "attempt": (me.attempt, me.resumed),
            "room": (me.cpus, me.memory_mb, me.gpus),
            "nodes": len(me.nodes),
        }

    job = cluster.submit(describe, name="who", resources={"cpu": 2, "memory": "64m", "gpus": 1})

    assert job.result(WAIT_S) == {
        "id": int(job),
        "name": "who",
        "place": (0, 1, None),
        "attempt": (1, False),
        "room": (2, 64, [0]),
        "nodes": 1,
    }


def test_an_element_of_a_map_knows_its_place(cluster: rota.ClusterContext):
    def place(_: str) -> int | None:
        return rota.context().array_index

    assert [job.result(WAIT_S) for job in cluster.map(place, "abc")] == [0, 1, 2]


def test_a_map_adds_its_options_to_those_that_were_chosen_before(
    cluster: rota.ClusterContext,
) -> None:
    jobs = cluster.options(cpus=1, labels={"a": "1"}).map(
        abs, [-1], name="mapped", labels={"b": "2"}
    )

    record = cluster.status(jobs[0]).record

    assert jobs[0].result(WAIT_S) == 1
    assert (record["name"], record["labels"]) == ("mapped", {"a": "1", "b": "2"})


def test_a_job_goes_on_from_its_checkpoint_and_the_server_knows_when_it_was_made(
    cluster: rota.ClusterContext,
):
    def count() -> tuple[int, bool]:
        me = rota.context()
        file = me.checkpoint_dir / "count"
        if not me.resumed:
            file.write_text("41")
            rota.checkpoint(["first half"])
            raise RuntimeError("broken half-way")
        me.checkpoint()
        return int(file.read_text()) + 1, me.resumed

    job = cluster.submit(count, retries=1, backoff_s=0)

    assert job.result(WAIT_S) == (42, True)
    kinds = [event["kind"] for event in cluster.events(job)]
    assert kinds.count("checkpoint-reported") == 2


def test_progress_is_heard_while_the_job_runs_and_stays_afterwards(cluster: rota.ClusterContext):
    def report() -> None:
        me = rota.context()
        me.progress(0.25, "a quarter", loss=0.5)
        me.progress(0.75, "three quarters", loss=0.1)

    job = cluster.submit(report)
    job.result(WAIT_S)

    said = job.progress()
    assert said is not None
    assert (said["fraction"], said["message"], said["loss"]) == (0.75, "three quarters", 0.1)
    with rota.connect(cluster.url) as other:
        assert other.progress(int(job)) == said
    assert cluster.progress(cluster.submit(abs, -1)) is None


def test_a_job_submits_children_that_carry_its_name(cluster: rota.ClusterContext):
    def parent() -> list[tuple[int, str]]:
        with rota.context().cluster() as mine:
            jobs = mine.map(abs, [-1, -2])
            return [(job.result(60), job.status().record["labels"]["parent"]) for job in jobs]

    job = cluster.submit(parent)

    assert job.result(WAIT_S) == [(1, str(int(job))), (2, str(int(job)))]


def test_outside_of_a_job_there_is_no_context(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ROTA_JOB_ID", raising=False)

    with pytest.raises(RuntimeError, match="not inside a job"):
        rota.context()


def test_progress_that_cannot_be_meant_is_refused(tmp_path):
    me = JobContext({"ROTA_JOB_ID": "7", "ROTA_RESULT_DIR": str(tmp_path)})

    with pytest.raises(ValueError, match=r"fraction: 40 is not valid; 0.0 to 1.0"):
        me.progress(40)
    me.progress(0.4)
    assert json.loads((tmp_path / "7.0.progress").read_text())["fraction"] == 0.4
    with pytest.raises(RuntimeError, match="no place for it"):
        JobContext({"ROTA_JOB_ID": "7"}).progress(0.4)


def test_what_is_said_often_stays_small_and_reaches_back_to_the_beginning(tmp_path):
    said = tmp_path / "said"
    me = JobContext({"ROTA_JOB_ID": "7", "ROTA_PROGRESS_FILE": str(said)})
    for step in range(3000):
        me.progress(step / 3000, "m" * 500, loss=step, **{f"f{at}": at for at in range(30)})
    text = said.read_bytes()
    lines = [json.loads(line) for line in text.splitlines()]

    assert len(text) <= reports.FILE_BYTES_MAX
    assert lines[0]["loss"] == 0
    assert lines[-1]["loss"] == 2999
    steps = [line["loss"] for line in lines]
    assert steps == sorted(steps)
    assert len(steps) > 20
    assert len(lines[0]) == 3 + reports.FIGURES_MAX


def test_many_processes_say_something_at_once_and_no_line_is_torn(tmp_path):
    said = tmp_path / "said"
    program = (
        "import sys, rota\n"
        "for step in range(300): rota.context().progress(step / 300, 'm' * 150, loss=step)\n"
    )
    environment = {**os.environ, "ROTA_JOB_ID": "7", "ROTA_PROGRESS_FILE": str(said)}
    running = [subprocess.Popen([sys.executable, "-c", program], env=environment) for _ in range(4)]
    assert [child.wait(WAIT_S) for child in running] == [0] * 4

    lines = said.read_bytes().splitlines()

    assert all(json.loads(line)["message"] == "m" * 150 for line in lines)
    assert len(lines) > 100
