"""The comparison on a screen: it fits, it marks the best, and a pipe gets everything."""

import pytest

from rota.sim.compare import class_comparison, comparison, interval_table
from rota.sim.figures import summarise
from tests.sim.runs import job, played, steady


@pytest.fixture
def summaries():
    """Easy lets the big job wait, fcfs the small one."""
    jobs = [
        job(1, 0, 100, 4, user="ada"),
        job(2, 0, 50, 4, user="bob"),
        job(3, 0, 10, 1, user="cem"),
    ]
    easy = played(jobs, [10, 110, 0], cpu_s=2.0)
    fcfs = played(jobs, [0, 100, 150], policy="fcfs", cpu_s=1.0)
    return {"easy": summarise(easy), "fcfs": summarise(fcfs)}


def test_a_pipe_gets_every_figure_in_plain_text(summaries):
    lines = comparison(summaries)

    assert lines[0].split()[:7] == ["policy", "wait", "s", "median", "p95", "max", "slowdown"]
    assert lines[0].endswith("jobs/CPU s")
    assert lines[1].split()[:5] == ["easy", "40", "10", "100", "110"]
    assert lines[2].split()[:5] == ["fcfs", "83.3", "100", "145", "150"]
    assert len(lines) == 3
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize("width", [200, 100, 80, 60, 40, 24])
def test_a_table_fits_and_keeps_what_matters_most(summaries, width):
    lines = comparison(summaries, width)

    assert max(map(len, lines)) <= width
    assert lines[0].startswith("policy  wait s")


def test_eighty_columns_hold_waits_slowdown_use_makespan_and_fairness(summaries):
    heading = comparison(summaries, 80)[0]

    for title in ("wait s", "median", "p95", "slowdown", "used %", "makespan s", "fair"):
        assert title in heading


def test_a_long_policy_name_is_cut_before_a_figure_is_lost(summaries):
    named = {"a-policy-with-a-very-long-name-of-its-own": summaries["easy"]}

    lines = comparison(named, 40)

    assert max(map(len, lines)) <= 40
    assert "…" in lines[1]
    assert "slowdown" in lines[0]


def test_the_best_of_a_column_stands_out_on_a_terminal_only(summaries):
    plain = comparison(summaries, 80)
    marked = comparison(summaries, 80, colour=True)

    assert "\x1b[1;32m    40\x1b[0m" in marked[1]
    assert "\x1b" not in "".join(plain)


def test_where_all_are_equal_nobody_is_the_best(summaries):
    twins = {"easy": summaries["easy"], "twin": summaries["easy"]}

    assert comparison(twins, 80, colour=True) == comparison(twins, 80)


def test_rare_figures_take_no_room_where_nothing_happened():
    quiet = summarise(steady(3, [0]))
    busy = summarise(steady(3, [0], preemptions=[2, 0, 0], lost_s=60.0, too_large=4))

    assert "preempted" not in comparison({"a": quiet})[0]
    assert "too large" not in comparison({"a": quiet})[0]
    both = comparison({"a": quiet, "b": busy})
    assert "preempted" in both[0]
    assert "lost s" in both[0]
    assert "too large" in both[0]


def test_fragmentation_is_shown_for_runs_that_have_it():
    placed = summarise(steady(3, [0], extra={"fragmentation": 12.5, "unallocated_gpus": 42}))

    heading, row = comparison({"fgd": placed})

    assert "fragm. %" in heading
    assert "12.50" in row
    assert "42" in row


def test_a_policy_name_cannot_play_with_the_terminal(summaries):
    lines = comparison({"[red]x\x1b[2J": summaries["easy"]}, 80, colour=True)

    assert lines[1].startswith("[red]x?[2J")


def test_classes_stand_side_by_side_in_their_order(summaries):
    lines = class_comparison(summaries, "by_size", 80)

    assert lines == [
        "slowdown by size      1   2-4",
        "easy               1.00  2.15",
        "fcfs              16.00  2.00",
    ]


def test_a_trace_without_groups_has_no_table_of_groups(summaries):
    assert class_comparison(summaries, "by_group", 80) == []


def test_intervals_and_paired_differences_fit_eighty_columns():
    easy = steady(200, [100, 200])
    better = steady(200, [50, 150], "easy-sjbf")

    lines = interval_table([easy, better], seed=1, width=80)

    assert max(map(len, lines)) <= 80
    assert [line.split("  ")[0] for line in lines] == [
        "policy",
        "easy",
        "easy-sjbf",
        "easy-sjbf - easy",
    ]
    assert "-50 (-50 to -50)" in lines[3]
    assert "-0.50 (-0.50 to -0.50)" in lines[3]


def test_a_short_trace_has_no_table_of_intervals():
    assert interval_table([steady(10, [1])]) == []
