"""Tables, blocks, trees, CSV and YAML at a given width."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.cli.cluster.gpu_table import gpu_table
from rota.cli.cluster.nodes import node_table
from rota.cli.cluster.top_frame import TopSnapshot, frame
from rota.cli.jobs.change import summary
from rota.cli.jobs.queue import job_table, tree_label
from rota.cli.jobs.show import attempt_table, job_block, why_lines
from rota.cli.shared import job_fields, render
from rota.cli.shared.naming import parse_states
from rota.client.errors import ClientError

NOW_S = job_fields.seconds("2026-11-15T12:00:00Z")


def a_job(**changes):
    job = {
        "id": 12,
        "uid": "abc",
        "name": "train",
        "user": "ada",
        "state": "running",
        "priority": 50,
        "resources": {"cpus": 2, "memory_mb": 16_384, "gpus": 1},
        "tasks": 1,
        "submitted_at": "2026-11-15T11:00:00Z",
        "started_at": "2026-11-15T11:58:30Z",
        "ended_at": None,
        "nodes": ["box"],
        "reason": "",
        "exit_code": None,
        "depends_on": [],
        "command": ["python", "train.py", "a b"],
    }
    return {**job, **changes}


def test_the_queue_shows_where_a_job_runs_and_why_another_waits():
    waiting = a_job(id=13, state="queued", started_at=None, nodes=[], reason="waits for 2 GPUs")

    lines = job_table([a_job(), waiting], NOW_S)

    assert lines == [
        "ID  NAME   USER  STATE    TIME  CPUS  MEM  GPUS  REASON/NODE",
        "12  train  ada   running  1:30     2  16G     1  box",
        "13  train  ada   queued      -     2  16G     1  waits for 2 GPUs",
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_fits_the_terminal_by_cutting_names_and_reasons(width):
    jobs = [a_job(name="a-very-long-name-" * 5, state="queued", reason="because " * 20)]

    lines = job_table(jobs, NOW_S, width=width)

    assert all(render.cells(line) <= width for line in lines)
    assert "…" in lines[1]


def test_an_id_is_never_cut():
    jobs = [a_job(id=123_456_789_012, name="x" * 50)]

    lines = job_table(jobs, NOW_S, width=20)

    assert lines[1].startswith("123456789012 ")


def test_elements_of_an_array_that_wait_together_take_one_line():
    array = a_job(id=5, array_id=5, array_indices="3-99%4", state="queued")
    element = a_job(id=8, array_id=5, array_index=2)

    assert job_fields.display_id(array) == "5_[3-99%4]"
    assert job_fields.display_id(element) == "5_2"
    assert job_fields.display_id(a_job(array_id=None)) == "12"


def test_a_name_cannot_play_with_the_terminal():
    lines = job_table([a_job(name="\x1b[31mred\nline\t")], NOW_S)

    assert len(lines) == 2
    assert "?[31mred?line?" in lines[1]


def test_wide_characters_count_twice_so_that_columns_stay_under_each_other():
    lines = render.table(
        [render.Column("A"), render.Column("B")], [("訓練", "x"), ("ab", "y"), ("é", "z")]
    )

    assert [render.cells(line.rpartition(" ")[0]) for line in lines] == [5, 5, 5, 5]


@given(st.text(max_size=30), st.integers(1, 20))
def test_a_cut_text_never_takes_more_room_than_it_was_given(text, width):
    assert render.cells(render.cut(render.clean(text), width)) <= width


@pytest.mark.parametrize(
    ("length_s", "text"),
    [
        (None, "-"),
        (7, "0:07"),
        (754, "12:34"),
        (3723, "1:02:03"),
        (176_523, "2-01:02:03"),
        (-1, "0:00"),
    ],
)
def test_a_run_time_is_written_like_a_clock(length_s, text):
    assert job_fields.clock(length_s) == text


def test_a_gang_shows_what_all_its_tasks_have_together():
    roles = [
        {"name": "driver", "count": 1, "resources": {"cpus": 2, "memory_mb": 1024}},
        {"name": "worker", "count": 3, "resources": {"cpus": 1, "gpus": 1}},
    ]
    mixed = a_job(resources=roles[0]["resources"], tasks=4, roles=roles)
    elastic = a_job(tasks=4, min_tasks=2)
    shrunk = {**elastic, "allocations": [{"task": 0}, {"task": 3}]}

    assert job_fields.cpus(mixed) == 5
    assert (job_fields.memory(mixed), job_fields.gpus(mixed)) == ("1G", "3")
    assert [job_fields.cpus(job) for job in (elastic, shrunk)] == [8, 4]


def test_gpus_show_model_and_share():
    assert job_fields.gpus(a_job(resources={"gpus": 2, "gpu_type": "A100"}, tasks=2)) == "4xA100"
    shared = {"gpus": 1, "shared": True, "gpu_memory_mb": 8192}
    assert job_fields.gpus(a_job(resources=shared)) == "1/8G"
    assert job_fields.gpus(a_job(resources={})) == "-"


def test_jobs_sort_by_several_fields_and_a_minus_turns_one_round():
    jobs = [
        a_job(id=1, user="b", resources={"gpus": 1}),
        a_job(id=2, user="a", resources={"gpus": 1}),
        a_job(id=3, user="a", resources={"gpus": 9}),
        a_job(id=4, user="a", resources={}),
    ]

    ordered = job_fields.sorted_jobs(jobs, ["user", "-gpus"], NOW_S)

    assert [job["id"] for job in ordered] == [3, 2, 4, 1]


def test_a_field_with_gaps_still_sorts():
    jobs = [a_job(id=1, exit_code=None), a_job(id=2, exit_code=3), a_job(id=3, exit_code=0)]

    assert [job["id"] for job in job_fields.sorted_jobs(jobs, ["exit"], NOW_S)] == [3, 2, 1]


def test_an_unknown_field_or_state_is_refused_with_the_nearest_one():
    with pytest.raises(ClientError, match="no field 'nme'; did you mean name"):
        job_fields.field("nme")
    with pytest.raises(ClientError, match="no state 'runing'; did you mean running"):
        parse_states("failed,runing")


def test_states_have_the_names_that_people_use():
    assert parse_states("pending, Running,done") == "queued,running,finished"


def test_dependents_stand_under_what_they_wait_for():
    jobs = [
        a_job(id=1, name="a"),
        a_job(id=2, name="b", depends_on=[{"kind": "after-ok", "job": 1}]),
        a_job(id=3, name="c", depends_on=[{"kind": "after-any", "job": 2}]),
        a_job(id=4, name="d", depends_on=[{"kind": "after", "job": 1}]),
        a_job(id=5, name="e", depends_on=[{"kind": "after", "job": 99}]),
    ]

    assert render.dependency_tree(jobs, tree_label) == [
        "1 a [running]",
        "├─ 2 b [running] (after-ok 1)",
        "│  └─ 3 c [running] (after-any 2)",
        "└─ 4 d [running] (after 1)",
        "5 e [running] (after 99)",
    ]


def test_a_chain_of_thousands_of_jobs_is_still_a_tree():
    jobs = [
        a_job(id=n, depends_on=[{"kind": "after-ok", "job": n - 1}] if n > 1 else [])
        for n in range(1, 5001)
    ]

    assert len(render.dependency_tree(jobs, tree_label)) == 5000


def test_csv_reads_back_whatever_the_cells_hold():
    rows = [["a,b", 'say "x"'], ["line\nbreak", ""]]

    text = render.to_csv(["one", "two"], rows)

    assert list(csv.reader(io.StringIO(text))) == [["one", "two"], *rows]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-2+3|x", "@SUM(1)", "\t=1"])
def test_a_name_that_somebody_chose_is_no_formula_in_a_spreadsheet(name: str):
    text = render.to_csv(["id", "name", "nice"], [[12, name, -5]])

    assert list(csv.reader(io.StringIO(text)))[1] == ["12", "'" + name, "-5"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(json_values)
def test_yaml_reads_back_as_the_same_value(value):
    yaml = pytest.importorskip("yaml")

    assert yaml.safe_load(render.to_yaml(value)) == json.loads(json.dumps(value))


def test_a_block_leaves_out_what_is_not_set():
    assert render.block([("id", 1), ("name", ""), ("long key", None), ("x", [])]) == ["id: 1"]


def test_a_job_is_shown_with_its_command_quoted_and_its_parents():
    lines = job_block(a_job(depends_on=[{"kind": "after-ok", "job": 3}]), NOW_S)

    text = "\n".join(lines)
    assert "python train.py 'a b'" in text
    assert "after-ok 3" in text
    assert lines[-1].split() == ["ran:", "1:30"]


def test_every_attempt_has_a_line_with_its_end():
    attempts = [
        {"number": 1, "task": 0, "node": "box", "started_at": "2026-11-15T11:00:00Z",
         "ended_at": "2026-11-15T11:00:07Z", "signal": 9, "cause": "out_of_memory",
         "peak_memory_mb": 2048},
        {"number": 2, "task": 0, "node": "box", "state": "placed"},
    ]  # fmt: skip

    lines = attempt_table(attempts, NOW_S)

    assert "0:07" in lines[1]
    assert "sig 9" in lines[1]
    assert "2G" in lines[1]
    assert lines[2].endswith("placed")


def test_the_reason_comes_first_then_what_would_help():
    answer = {"id": 7, "state": "queued", "reason": "no room", "lines": ["box: 1 CPU free"],
              "help": ["ask for less"]}  # fmt: skip

    assert why_lines(answer) == [
        "7 is queued: no room",
        "  box: 1 CPU free",
        "  try: ask for less",
    ]


def test_a_job_that_went_with_its_node_is_told_in_words():
    answer = {"id": 3, "state": "node_failed", "reason": "node_failed (node_lost)", "lines": []}

    assert why_lines(answer) == ["3 failed with its node: node_lost"]


def test_how_a_job_ended_is_said_once():
    line = "failed: exit code 3"

    assert why_lines({"id": 1, "state": "failed", "reason": line, "lines": [line]}) == [
        "1 failed: exit code 3"
    ]
    ended = a_job(state="failed", cause="exit: exit code 3", nodes=["box"])
    assert job_fields.where_or_why(ended) == "exit code 3"


def a_node(**changes):
    node = {
        "name": "box",
        "state": "up",
        "drained": False,
        "total": {"cpus": 8, "memory_mb": 64_321, "gpus": 2},
        "free": {"cpus": 6, "memory_mb": 32_768, "gpus": 1},
        "jobs": [12],
        "note": "",
    }
    return {**node, **changes}


def test_nodes_show_what_is_used_of_the_total():
    lines = node_table([a_node(), a_node(name="old", drained=True, state="down", note="fan")])

    assert lines[1].split() == ["box", "up", "2/8", "30.8G/62.8G", "1/2", "1"]
    assert "down+drained" in lines[2]


def test_a_gpu_shows_foreign_processes():
    gpu = {"node": "box", "index": 0, "model": "H200", "memory_mb": 143_771, "jobs": [12],
           "foreign": [{"pid": 77, "user": "eve", "memory_mb": 2048}]}  # fmt: skip

    lines = gpu_table([gpu])

    assert "140G" in lines[1]
    assert "eve:77:2G" in lines[1]


@pytest.mark.parametrize(("width", "height"), [(60, 20), (100, 40), (200, 100)])
def test_a_frame_of_top_fits_and_shows_both_kinds_of_jobs(width, height):
    snapshot = TopSnapshot(
        status={"jobs": {"running": 60, "queued": 70}, "controller": {"version": "1"}},
        nodes=[a_node(name=f"box{n}") for n in range(40)],
        gpus=[{"node": "box", "index": n, "memory_mb": 1000, "jobs": [n]} for n in range(64)],
        running=[a_job(id=n) for n in range(60)],
        waiting=[a_job(id=n, state="queued") for n in range(70)],
    )

    lines = frame(snapshot, NOW_S, width, height)

    assert len(lines) <= height
    assert all(render.cells(line) <= width for line in lines)
    assert any(line.startswith("RUNNING (60)") for line in lines)
    assert any(line.startswith("WAITING (70)") for line in lines)


def test_a_long_list_of_changed_jobs_is_counted():
    assert summary("cancelled", ["1", "2_3"]) == "cancelled 1, 2_3"
    assert summary("cancelled", [str(n) for n in range(1000)]).endswith("9 and 990 more")
    assert summary("cancelled", []) == "cancelled nothing"
