"""What a run leaves behind can be read by people, by spreadsheets and by the simulator itself."""

import csv
import json
import sys

import pytest

from rota.sim.readers import read_trace
from rota.sim.run import Run
from rota.sim.trace import TraceJob
from rota.sim.writers import CannotWrite, write_jobs, write_parquet, write_summary
from tests.support.machine import missing


def small_run() -> Run:
    return Run(
        policy="easy",
        jobs=[
            TraceJob(7, 0, 10, 4, 60),
            TraceJob(8, 0.1, 1e-05, 1),
            TraceJob(9, 1_000_000_000_000, 3.0, 2),
        ],
        capacity=8,
        start_s=[0, 0.1 + 0.2, 1_000_000_000_000.0],
        end_s=[10, 0.30001, 1_000_000_000_003],
        estimate_s=[60, 0.00001, 3.0],
        nodes=["0-3,7", 'odd "name"', ""],
    )


def test_jobs_are_written_with_plain_numbers_and_quoted_nodes(tmp_path):
    write_jobs(small_run(), tmp_path / "easy" / "jobs.csv")

    assert (tmp_path / "easy" / "jobs.csv").read_text() == (
        "job,submit,start,end,wait,procs,nodes,estimate,run\n"
        '7,0,0,10,0,4,"0-3,7",60,10\n'
        '8,0.1,0.3,0.30001,0.2,1,"odd ""name""",0.00001,0.00001\n'
        "9,1000000000000,1000000000000,1000000000003,0,2,,3,3\n"
    )


def test_jobs_without_named_nodes_have_an_empty_column(tmp_path):
    run = small_run()
    run.nodes = []

    write_jobs(run, tmp_path / "jobs.csv")

    with (tmp_path / "jobs.csv").open(newline="") as file:
        assert [row["nodes"] for row in csv.DictReader(file)] == ["", "", ""]


def test_a_tiny_negative_wait_is_written_as_none(tmp_path):
    run = Run("easy", [TraceJob(1, 0.3, 1, 1)], 1, start_s=[0.1 + 0.2 - 1e-12])
    run.end_s, run.estimate_s = [1.3], [1]

    write_jobs(run, tmp_path / "jobs.csv")

    assert (tmp_path / "jobs.csv").read_text().splitlines()[1] == "1,0.3,0.3,1.3,0,1,,1,1"


def test_what_was_written_is_a_trace_again(tmp_path):
    run = small_run()
    write_jobs(run, tmp_path / "jobs.csv")

    again = read_trace(tmp_path / "jobs.csv").jobs

    assert [(job.id, job.submit_s, job.run_s, job.procs) for job in again] == [
        (job.id, job.submit_s, job.run_s, job.procs) for job in run.jobs
    ]
    assert [job.estimate_s for job in again] == run.estimate_s


@pytest.mark.slow
def test_parquet_has_the_same_columns_as_the_csv_file(tmp_path):
    try:
        from pyarrow import parquet
    except ImportError:
        missing("pyarrow is not installed (the extra `sim` brings it)")

    write_parquet(small_run(), tmp_path / "jobs.parquet")

    table = parquet.read_table(tmp_path / "jobs.parquet").to_pydict()
    assert ",".join(table) == "job,submit,start,end,wait,procs,nodes,estimate,run"
    assert table["job"] == [7, 8, 9]
    assert table["nodes"] == ["0-3,7", 'odd "name"', ""]
    assert table["wait"] == [0.0, 0.1 + 0.2 - 0.1, 0.0]


def test_parquet_without_pyarrow_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(CannotWrite, match=r"needs pyarrow; install it with: pip install 'rota\["):
        write_parquet(small_run(), tmp_path / "jobs.parquet")


def test_the_summary_is_json_that_every_program_reads(tmp_path):
    path = tmp_path / "summary.json"

    write_summary(path, {"easy": {"mean_wait": 12.5, "gini": float("nan"), "jobs": 3}})

    assert json.loads(path.read_text()) == {"easy": {"mean_wait": 12.5, "gini": None, "jobs": 3}}
    assert path.read_text().endswith("}\n")


def test_a_new_result_takes_the_place_of_the_old_one_and_leaves_nothing_beside(tmp_path):
    path = tmp_path / "summary.json"
    write_summary(path, {"old": {"text": "x" * 1000}})

    write_summary(path, {"new": {}})

    assert json.loads(path.read_text()) == {"new": {}}
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_that_breaks_off_leaves_the_old_result(tmp_path):
    path = tmp_path / "jobs.csv"
    write_jobs(small_run(), path)
    before = path.read_text()
    uneven = small_run()
    uneven.start_s.pop()

    with pytest.raises(ValueError, match="zip"):
        write_jobs(uneven, path)

    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_to_is_told_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(CannotWrite, match=r"summary\.json: cannot be written \("):
        write_summary(tmp_path / "file" / "summary.json", {})


def test_a_folder_is_never_replaced(tmp_path):
    with pytest.raises(CannotWrite, match="is there already and no plain file"):
        write_summary(tmp_path, {})

    assert tmp_path.is_dir()
