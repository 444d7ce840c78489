"""Levels over time and the chart of jobs: what is drawn is what happened."""

import pytest

from rota.sim.report.gantt import Rectangle, gantt, window
from rota.sim.report.series import (
    TraceSpan,
    smoothed,
    used_over_time,
    waiting_over_time,
    whole_span,
)
from tests.sim.runs import job, played, steady


def test_each_step_keeps_its_lowest_mean_and_highest_use():
    # Four processors from 0 to 5, one from 5 to 20.
    run = played([job(1, 0, 5, 3), job(2, 0, 20, 1)], [0, 0])

    used = used_over_time(run, whole_span([run]), bins=2)

    assert used.step_s == 10
    assert used.mean == [2.5, 1]
    assert used.low == [1, 1]
    assert used.high == [4, 1]


def test_a_job_that_follows_another_leaves_no_gap_between_them():
    run = played([job(1, 0, 10, 2), job(2, 0, 10, 2)], [0, 10])

    used = used_over_time(run, whole_span([run]), bins=1)

    assert (used.low, used.mean, used.high) == ([2], [2], [2])


def test_the_queue_counts_jobs_that_are_submitted_and_off_the_machine():
    # Job 2 waits from 0 to 10; job 1 gives way from 10 to 30.
    jobs = [job(1, 0, 20), job(2, 0, 20)]
    run = played(jobs, [0, 10], pieces=[(0, 0, 10), (0, 30, 40)], end_s=[40, 30])

    waiting = waiting_over_time(run, whole_span([run]), bins=4)

    assert waiting.mean == [1, 1, 1, 0]
    assert waiting.high == [1, 1, 1, 0]


def test_a_lonely_peak_survives_however_few_steps_are_drawn():
    run = steady(1000, [0], capacity=1)
    run.jobs.append(job(1001, 50_000, 1, 500))
    run.start_s.append(50_000)
    run.end_s.append(50_001)

    used = used_over_time(run, whole_span([run]), bins=10)

    assert max(used.high) == 501
    assert max(used.mean) < 2


def test_the_calm_line_is_the_mean_of_the_neighbours():
    assert smoothed([0, 3, 6, 0], width=3) == [1.5, 3, 3, 3]


def test_jobs_take_the_lowest_processors_that_are_free():
    # 1 holds 0 and 1, 2 holds 2; when 1 is gone, 3 takes 0, 1 and 3.
    run = played([job(1, 0, 10, 2), job(2, 0, 30, 1), job(3, 0, 5, 3)], [0, 0, 10])

    chart = gantt(run, TraceSpan(0, 30))

    assert chart.rectangles == [
        Rectangle(0, 0, 2, 0, 10),
        Rectangle(1, 2, 1, 0, 30),
        Rectangle(2, 0, 2, 10, 15),
        Rectangle(2, 3, 1, 10, 15),
    ]
    assert chart.jobs == 3


def test_jobs_with_nodes_are_drawn_on_them():
    run = played([job(1, 0, 10, 3), job(2, 0, 10)], [0, 0], nodes=["0-1,3", "2"])

    chart = gantt(run, TraceSpan(0, 10))

    assert [(r.place, r.low, r.height) for r in chart.rectangles] == [
        (0, 0, 2),
        (0, 3, 1),
        (1, 2, 1),
    ]
    assert chart.row_count == 4
    assert chart.rows == []


def test_jobs_that_share_a_node_stand_above_each_other():
    run = played([job(1, 0, 10), job(2, 0, 10), job(3, 0, 10)], [0, 0, 10], nodes=["a", "a", "b"])

    chart = gantt(run, TraceSpan(0, 20))

    assert chart.rows == ["a", "b"]
    assert [(r.place, r.low, r.height) for r in chart.rectangles] == [
        (0, 0, 0.5),
        (1, 0.5, 0.5),
        (2, 1, 0.5),
    ]


def test_a_job_in_pieces_is_drawn_in_pieces():
    run = played([job(1, 0, 20)], [0], pieces=[(0, 0, 10), (0, 30, 40)], end_s=[40])

    chart = gantt(run, TraceSpan(0, 40))

    assert [(r.since_s, r.until_s) for r in chart.rectangles] == [(0, 10), (30, 40)]
    assert chart.jobs == 1


def test_a_short_trace_is_drawn_whole_and_a_long_one_around_the_moment():
    run = steady(1000, [0])
    span = whole_span([run])

    assert window([run], 50_000, span, most=1000) == span
    view = window([run], 50_000, span, most=100)
    drawn = gantt(run, view).jobs
    assert 90 <= drawn <= 100
    assert (view.since_s + view.until_s) / 2 == pytest.approx(50_000, abs=100)


def test_more_jobs_at_once_than_can_be_drawn_are_cut():
    run = played([job(n, 0, 10) for n in range(1, 101)], [0] * 100, capacity=100)

    view = window([run], 5, whole_span([run]), most=30)

    assert gantt(run, view, most=30).jobs == 30
