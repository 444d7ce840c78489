"""``rota sim`` as people use it: a small log, its table, its files, and what is refused."""

import csv
import json
from pathlib import Path

import pytest

LOG = """\
; MaxProcs: 8
1 0 -1 100 6 -1 -1 6 100 -1 1 1 1 -1 -1 -1 -1 -1
2 5 -1 50 8 -1 -1 8 60 -1 1 2 1 -1 -1 -1 -1 -1
3 10 -1 30 2 -1 -1 2 40 -1 1 3 1 -1 -1 -1 -1 -1
4 20 -1 200 2 -1 -1 2 300 -1 1 1 1 -1 -1 -1 -1 -1
"""


@pytest.fixture
def log(tmp_path) -> str:
    path = tmp_path / "small.swf"
    path.write_text(LOG)
    return str(path)


def starts(folder: Path, policy: str) -> list[float]:
    with (folder / policy / "jobs.csv").open() as file:
        return [float(row["start"]) for row in csv.DictReader(file)]


def test_policies_are_compared_in_one_table_and_their_jobs_written(rota, log, tmp_path):
    out = tmp_path / "out"

    ended = rota("sim", log, "--policy", "fcfs,easy,conservative", "--out", str(out))

    assert ended.code == 0, ended.err
    assert "small: 4 jobs on 8 processors" in ended.out
    assert starts(out, "fcfs") == [0, 100, 150, 150]
    assert starts(out, "easy") == [0, 100, 10, 150]
    assert starts(out, "conservative") == [0, 100, 10, 150]
    summary = json.loads((out / "summary.json").read_text())
    assert set(summary) == {"fcfs", "easy", "conservative"}
    assert summary["easy"]["jobs"] == 4
    assert summary["easy"]["mean_wait"] == pytest.approx((0 + 95 + 0 + 130) / 4)
    header = (out / "easy" / "jobs.csv").read_text().splitlines()[0]
    assert header == "job,submit,start,end,wait,procs,nodes,estimate,run"


def test_nodes_have_numbers_and_processors_have_none(rota, log, tmp_path):
    for option, nodes in (("--nodes", ["0-5", "0-7", "6-7", "0-1"]), ("--procs", [""] * 4)):
        assert rota("sim", log, option, "8", "--policy", "easy", "--out", str(tmp_path)).code == 0

        with (tmp_path / "easy" / "jobs.csv").open() as file:
            assert [row["nodes"] for row in csv.DictReader(file)] == nodes


def test_a_log_out_of_the_whole_core_agrees_with_the_one_out_of_the_pool(rota, log, tmp_path):
    """``aggressive`` without anybody to delay is EASY, and is played by the whole core."""
    assert rota("sim", log, "--policy", "easy,multifactor", "--out", str(tmp_path)).code == 0

    assert starts(tmp_path, "multifactor") == starts(tmp_path, "easy")


def test_a_smaller_machine_leaves_out_what_does_not_fit_and_says_so(rota, log):
    ended = rota("sim", log, "--procs", "6", "--policy", "easy")

    assert ended.code == 0
    assert "left out: 1 (larger than the machine)" in ended.out


def test_a_part_of_a_log_can_be_played_under_more_load(rota, log, tmp_path):
    parts = ["--skip", "1", "--jobs", "2", "--scale", "load=2"]

    ended = rota("sim", log, "--policy", "easy", *parts, "--out", str(tmp_path))

    assert ended.code == 0
    with (tmp_path / "easy" / "jobs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["job"] for row in rows] == ["2", "3"]
    assert [row["submit"] for row in rows] == ["5", "7.5"]


def test_from_and_to_cut_by_time(rota, log):
    ended = rota("sim", log, "--policy", "easy", "--from", "5s", "--to", "20s")

    assert "small: 2 jobs" in ended.out


def test_jobs_that_outlive_their_limit_are_killed_or_not(rota, tmp_path):
    path = tmp_path / "over.swf"
    path.write_text("; MaxProcs: 4\n1 0 -1 100 4 -1 -1 4 60 -1 1 1 1 -1 -1 -1 -1 -1\n")
    for overrun, end in (("kill", "60"), ("extend", "100")):
        rota("sim", str(path), "--policy", "easy", "--overrun", overrun, "--out", str(tmp_path))

        with (tmp_path / "easy" / "jobs.csv").open() as file:
            assert [row["end"] for row in csv.DictReader(file)] == [end]


def test_predictions_replace_estimates_and_their_coverage_is_told(rota, log, tmp_path):
    ended = rota("sim", log, "--policy", "easy", "--estimates", "predicted", "--out", str(tmp_path))

    assert ended.code == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert 0.0 <= summary["easy"]["coverage"] <= 1.0


def test_a_report_is_one_page(rota, log, tmp_path):
    page = tmp_path / "report.html"

    assert rota("sim", log, "--policy", "fcfs,easy", "--report", str(page)).code == 0

    assert page.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--policy", "eazy"], "policy: 'eazy' is not known; did you mean easy?"),
        (["--policy", ","], "no policy is named"),
        (["--procs", "0"], "0 is too small; the least is 1"),
        (["--procs", "4", "--nodes", "4"], "give one of --procs, --nodes and --cluster"),
        (["--scale", "load=0"], "'load=0' is not load=FACTOR or run=FACTOR"),
        (["--scale", "speed=2"], "'speed=2' is not load=FACTOR"),
        (["--events", "many"], "'many' is not one of 'batch', 'single'"),
        (["--skip", "4"], "no job is left of 4"),
        (["--from", "soon"], "'soon' is not valid; expected a time"),
        (["--policy", "fgd"], "policy: 'fgd' places jobs on nodes; give --cluster FILE"),
        (["--cluster", "/no/such/file"], "/no/such/file"),
        (["--history", "/somewhere"], "give a TRACE, or --history"),
        (["--kind", "pbs"], "pbs"),
        (["--out", "/proc/nowhere"], "--out /proc/nowhere"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_line(rota, log, arguments, problem):
    if "--policy" not in arguments:
        arguments = ["--policy", "easy", *arguments]

    ended = rota("sim", log, *arguments)

    assert ended.code == 2
    assert problem in ended.err
    assert len(ended.err.strip().splitlines()) == 1


def test_a_log_of_unknown_size_needs_a_machine(rota, tmp_path):
    path = tmp_path / "bare.swf"
    path.write_text("1 0 -1 100 4 -1 -1 4 60 -1 1 1 1 -1 -1 -1 -1 -1\n")

    ended = rota("sim", str(path), "--policy", "easy")

    assert ended.code == 2
    assert "bare does not say how large its machine is; give --procs N" in ended.err


def test_what_would_have_been_said_at_submit_is_printed_and_written(rota, log, tmp_path):
    ended = rota("sim", log, "--policy", "easy,fcfs", "--foresight", "--out", str(tmp_path))

    assert ended.code == 0, ended.err
    assert "told at submit" in ended.out
    with (tmp_path / "easy" / "foresight.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["job"], row["said_at"], row["start"]) for row in rows] == [
        ("2", "5", "100"),
        ("4", "20", "150"),
    ]
    figures = json.loads((tmp_path / "summary.json").read_text())["fcfs"]["foresight"]
    assert figures["asked"] == 3
    assert set(figures["coverage"]) == {"50", "80", "90"}


def test_an_interval_of_foresight_without_foresight_is_refused(rota, log):
    ended = rota("sim", log, "--policy", "easy", "--foresight-every", "2")

    assert ended.code != 0
    assert "--foresight-every: it goes with --foresight" in ended.err


def test_several_policies_end_in_a_verdict(rota, log):
    ended = rota("sim", log, "--policy", "fcfs,easy")

    (said,) = [line for line in ended.out.splitlines() if line.startswith("Verdict: ")]
    assert "under easy instead of fcfs jobs wait" in said
    assert "the longest wait" in said


def test_a_policy_that_cannot_be_played_costs_its_own_line_only(rota, log):
    ended = rota("sim", log, "--policy", "easy,fgd")

    assert ended.code == 0, ended.err
    assert "note: fgd is left out: policy: 'fgd' places jobs on nodes" in ended.err
    assert "\neasy " in ended.out


def test_an_export_of_sacct_is_played(rota, tmp_path):
    path = tmp_path / "past.txt"
    head = "JobID|User|Submit|Start|End|Timelimit|ReqCPUS"
    times = "2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T01:00:10|02:00:00"
    path.write_text(f"{head}\n1|ann|{times}|4\n1.batch||{times}|4\n")

    ended = rota("sim", str(path), "--procs", "4", "--policy", "easy")

    assert ended.code == 0, ended.err
    assert "past: 1 jobs on 4 processors" in ended.out
    assert "left out: 1 (a step of a job)" in ended.out


def test_a_list_without_times_is_placed_and_not_played(rota, tmp_path):
    pods, nodes = tmp_path / "pods.csv", tmp_path / "nodes.csv"
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1024,1,500\n")
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,8000,8192,2,T4\n")

    placed = rota("sim", str(pods), "--cluster", str(nodes), "--policy", "fgd")
    played = rota("sim", str(pods), "--cluster", str(nodes), "--policy", "easy")

    assert placed.code == 0, placed.err
    assert "'easy' needs a clock, and pods has no times" in played.err
