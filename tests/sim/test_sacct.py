"""Exports of Slurm's accounting become traces: the table of ``sacct -P``, and its JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

from rota.core.facts.resources import Request
from rota.sim.readers import read_trace
from rota.sim.trace import BadTrace, Trace

COLUMNS = (
    "JobID|JobName|User|Account|Partition|Submit|Start|End|Timelimit|ReqCPUS|NNodes|ReqTRES|State"
)


def row(job: str = "7", start: str = "2026-01-01T00:10:00", **cells: str) -> str:
    told = {
        "name": "train",
        "submit": "2026-01-01T00:00:00",
        "end": "2026-01-01T01:10:00",
        "limit": "1-02:00:00",
        "cpus": "8",
        "nodes": "1",
        "tres": "billing=8,cpu=8,mem=16G,node=1",
        "state": "COMPLETED",
    } | cells
    return (
        f"{job}|{told['name']}|ann|vision|gpu|{told['submit']}|{start}|{told['end']}|"
        f"{told['limit']}|{told['cpus']}|{told['nodes']}|{told['tres']}|{told['state']}"
    )


def read(folder: Path, *rows: str, name: str = "past.txt") -> Trace:
    path = folder / name
    path.write_text("\n".join(rows) + "\n")
    return read_trace(path)


def test_a_row_gives_the_job(tmp_path):
    trace = read(tmp_path, COLUMNS, row())

    (job,) = trace.jobs
    assert (trace.unit, job.procs, job.submit_s, job.run_s) == ("processors", 8, 0, 3600)
    assert job.estimate_s == 26 * 3600
    assert (job.user, job.group, job.name, job.queue) == ("ann", "vision", "train", "gpu")
    assert job.request is None


def test_steps_and_jobs_that_never_ran_are_left_out_and_counted(tmp_path):
    rows = (
        *(row("7"), row("7.batch"), row("7.0")),
        row("8", "None", state="CANCELLED by 0"),
        row("9", end="Unknown", state="RUNNING"),
    )

    trace = read(tmp_path, COLUMNS, *rows)

    assert len(trace.jobs) == 1
    assert trace.left_out == {"a step of a job": 2, "never started": 1, "not ended": 1}


def test_jobs_with_gpus_have_requests_for_nodes(tmp_path):
    wide = row("8", nodes="2", tres="cpu=8,mem=32G,node=2,gres/gpu=4,gres/gpu:a100=4")

    trace = read(tmp_path, COLUMNS, row("7"), wide)

    plain, gpus = trace.jobs
    assert trace.unit == "GPUs"
    assert (plain.procs, gpus.procs, gpus.tasks) == (0, 4, 2)
    assert gpus.request == Request(4000, 16384, device="gpu", device_count=2)


def test_jobs_are_sorted_by_their_submit_and_arrays_are_jobs(tmp_path):
    later = row("7_1", submit="2026-01-01T00:05:00")

    trace = read(tmp_path, COLUMNS, later, row("8_[2-3]"))

    assert [job.submit_s for job in trace.jobs] == [0, 300]


def test_moments_may_be_seconds_and_a_limit_may_be_missing(tmp_path):
    given = row(submit="1700000000", start="1700000060", end="1700000160", limit="UNLIMITED")

    (job,) = read(tmp_path, COLUMNS, given).jobs

    assert (job.run_s, job.estimate_s) == (100, 0)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (("JobID|Submit|State", "1|Unknown|FAILED"), "1: the column 'Start' is missing"),
        ((COLUMNS, "1|2|3"), "2: no jobs that ran to an end; left out: 1 a line of other fields"),
        ((COLUMNS, row(submit="yesterday")), "(Submit): 'yesterday' is no time such as"),
        ((COLUMNS, row(limit="soon")), "(Timelimit): 'soon' is no span of time"),
        ((COLUMNS, row(tres="cpu=8,mem=lots")), "'lots' is no amount of memory"),
        ((COLUMNS, row(end="Unknown")), "no jobs that ran to an end; left out: 1 not ended"),
        (("{", '  "meta": {}', "}"), "the key 'jobs' is missing"),
        (("{", '  "jobs": [1]', "}"), "job 1 of 'jobs'"),
        (("{", '  "jobs": ['), "no JSON of sacct"),
    ],
)
def test_what_is_broken_is_refused_by_its_place(tmp_path, rows, problem):
    with pytest.raises(BadTrace) as refused:
        read(tmp_path, *rows)

    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


def record(**more: Any) -> dict[str, Any]:
    limit = {"set": True, "infinite": False, "number": 60}
    times = {"submission": 1000, "start": 1100, "end": 1400, "limit": limit}
    asked = [
        {"type": "cpu", "name": "", "count": 4},
        {"type": "mem", "name": "", "count": 8192},
        {"type": "gres", "name": "gpu", "count": 1},
    ]
    plain = {"job_id": 5, "user": "bob", "account": "nlp", "name": "x", "partition": "p"}
    return {**plain, "time": times, "tres": {"requested": asked}, "allocation_nodes": 1, **more}


def test_json_gives_the_same_facts(tmp_path):
    path = tmp_path / "past.json"
    path.write_text(json.dumps({"meta": {}, "jobs": [record()]}, indent=2))

    trace = read_trace(path)

    (job,) = trace.jobs
    assert (trace.unit, job.procs, job.run_s, job.estimate_s) == ("GPUs", 1, 300, 3600)
    assert job.request == Request(4000, 8192, device="gpu", device_count=1)
    assert (job.user, job.group) == ("bob", "nlp")
