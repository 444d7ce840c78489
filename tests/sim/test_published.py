"""Published results, met to the digit with the product's own reader, core and settings."""

import csv
import gzip
import json
from pathlib import Path

import pytest

from rota.sim.cut import Cut, cut
from rota.sim.figures import summarise
from rota.sim.machine import SimMachine, machine_for
from rota.sim.readers import read_trace
from rota.sim.settings import Events, SimEstimates, SimSettings
from rota.sim.simulate import simulate

SC15 = [
    ("easy", SimEstimates.USER, "start_easy"),
    ("easy", SimEstimates.EXACT, "start_easy_exact"),
    ("easy-sjbf", SimEstimates.EXACT, "start_easy_sjbf_exact"),
]


def rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
@pytest.mark.parametrize("log", ["KTH", "CTC", "SDSC"])
def test_every_job_of_an_sc15_log_starts_at_the_published_second(shared_folder: Path, log: str):
    trace = read_trace(shared_folder / f"traces/swf/sc15-{log}-SP2.swf.gz")
    published = rows(shared_folder / f"traces/expected/sc15-{log}-SP2.starts.csv.gz")
    machine = machine_for(trace)

    for policy, estimates, column in SC15:
        settings = SimSettings(events=Events.SINGLE, estimates=estimates)
        run = simulate(trace, machine, policy, settings)

        assert [job.id for job in run.jobs] == [int(row["job"]) for row in published]
        assert run.start_s == [float(row[column]) for row in published], (policy, estimates)


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_jobs_of_the_batsim_log_start_when_and_where_they_were_published(
    shared_folder: Path, policy: str
):
    trace = read_trace(shared_folder / "traces/swf/batsim-medium-late.swf.gz")
    published = rows(shared_folder / "traces/expected/batsim-medium-late.starts.csv.gz")

    run = simulate(trace, machine_for(trace, nodes=32), policy, SimSettings())

    starts = [float(row[f"start_{policy}_pinned"]) for row in published]
    assert run.start_s == pytest.approx(starts, abs=2e-6)
    nodes = [row[f"nodes_{policy}"].replace(" ", ",") for row in published]
    assert run.nodes == nodes


def test_fcfs_over_ten_stretches_gives_the_slowdown_and_use_of_the_rlscheduler_tables(
    shared_folder: Path,
):
    tables = json.loads((shared_folder / "traces/expected/rlscheduler_tables.json").read_text())
    length = tables["sequence_length"]
    for log in ("lublin-1", "lublin-2"):
        trace = read_trace(shared_folder / f"traces/swf/{log}.swf.gz")
        found = [
            summarise(
                simulate(
                    cut(trace, Cut(skip=first, jobs=length)),
                    SimMachine(capacity=256),
                    "fcfs",
                    SimSettings(),
                )
            )
            for first in tables["first_job_index_of_each_sequence_0_based"]
        ]

        slowdown = sum(each["mean_bounded_slowdown"] for each in found) / len(found)
        used = sum(each["utilization_until_last_start"] for each in found) / len(found)
        assert round(slowdown, 2) == tables["bsld_no_backfill"][log]["FCFS"]
        assert round(used, 3) == tables["util_no_backfill"][log]["FCFS"]


@pytest.mark.parametrize("log", ["trace1", "trace1_pr", "trace3", "trace3_pr"])
def test_srtf_and_srsf_come_within_two_percent_of_the_published_completion_times(
    shared_folder: Path, log: str
):
    published = json.loads((shared_folder / "traces/expected/muri_published.json").read_text())
    trace = read_trace(shared_folder / f"traces/gpu/muri_{log}.csv.gz")
    machine = machine_for(trace, nodes=8)

    for policy in ("srtf", "srsf"):
        run = simulate(trace, machine, policy, SimSettings())

        ends = zip(run.jobs, run.end_s, strict=True)
        mean_s = sum(end_s - job.submit_s for job, end_s in ends) / len(run.jobs)
        expected_s = published["published"][policy.upper()]["avg_jct"][log]
        assert mean_s == pytest.approx(expected_s, rel=0.02)
