"""The figures of a run, against sums that fit on a napkin and against published averages."""

import json
from math import inf

import pytest

from rota.sim.figures import length_class, size_class, summarise
from tests.sim.runs import job, played, published

#: What users and other programs rely on.
FIXED = [
    *("jobs", "mean_wait", "mean_bounded_slowdown", "utilization", "makespan", "max_wait"),
    *("cpu_seconds", "jobs_per_second"),
]


def test_waits_slowdowns_and_use_of_three_jobs_are_those_on_the_napkin():
    # Waits 0, 90, 40; slowdowns 100/100, (90+10)/10, (40+2)/10.
    jobs = [job(1, 10, 100, 4), job(2, 20, 10, 2), job(3, 70, 2, 1)]

    summary = summarise(played(jobs, [10, 110, 110], capacity=4, cpu_s=0.5))

    assert summary["jobs"] == 3
    assert summary["mean_wait"] == pytest.approx(130 / 3)
    assert summary["median_wait"] == 40
    assert summary["p95_wait"] == pytest.approx(85)
    assert summary["max_wait"] == 90
    assert summary["mean_bounded_slowdown"] == pytest.approx((1 + 10 + 4.2) / 3)
    assert summary["median_bounded_slowdown"] == pytest.approx(4.2)
    assert summary["p95_bounded_slowdown"] == pytest.approx(4.2 + 0.9 * 5.8)
    assert summary["makespan"] == 110
    assert summary["utilization"] == pytest.approx((400 + 20 + 2) / (4 * 110))
    assert summary["unallocated"] == pytest.approx(1 - 422 / 440)
    assert summary["cpu_seconds"] == 0.5
    assert summary["jobs_per_second"] == 6


def test_a_summary_has_the_promised_names_and_is_json():
    summary = summarise(played([job(1, 0, 5, user="ada", group="a")], [0]))

    assert set(FIXED) <= set(summary)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_a_short_job_that_waits_a_little_is_not_slowed_below_one():
    summary = summarise(played([job(1, 0, 1)], [5]))

    assert summary["mean_bounded_slowdown"] == 1


def test_a_run_without_jobs_has_figures_of_zero():
    summary = summarise(played([], [], too_large=3))

    assert {summary[name] for name in FIXED} == {0}
    assert summary["too_large"] == 3
    assert summary["fairness"] is None
    assert summary["by_size"] == {}


def test_a_job_that_gave_way_waited_while_it_was_off_the_machine():
    # 30 s on the machine in two pieces, over 100 s after it was submitted.
    jobs = [job(1, 0, 30, 2), job(2, 0, 50, 4)]
    run = played(
        jobs,
        [0, 20],
        preemptions=[1, 0],
        pieces=[(0, 0, 20), (0, 90, 100)],
        end_s=[100, 70],
        lost_s=8,
    )

    summary = summarise(run)

    assert summary["max_wait"] == 70
    assert summary["mean_wait"] == (70 + 20) / 2
    assert summary["mean_bounded_slowdown"] == pytest.approx((100 / 30 + 70 / 50) / 2)
    assert summary["utilization"] == (2 * 30 + 4 * 50) / (4 * 100)
    assert summary["preemptions"] == 1
    assert summary["lost_work_s"] == 8


def test_jobs_stopped_at_their_limit_are_counted_and_count_as_long_as_they_ran():
    run = played([job(1, 0, 100)], [20], end_s=[60], killed=[0])

    summary = summarise(run)

    assert summary["killed"] == 1
    assert summary["mean_bounded_slowdown"] == 60 / 40


def test_jobs_that_never_end_are_counted_and_left_out_of_the_means():
    jobs = [job(1, 0, 10), job(2, 0, 10), job(3, 5, 10)]
    run = played(jobs, [inf, 0, 25], killed=[2], nodes=["", "0", "1"], pieces=[(2, 25, 35)])

    summary = summarise(run)

    assert summary["unfinished"] == 1
    assert summary["jobs"] == 2
    assert summary["mean_wait"] == 10
    assert summary["makespan"] == 35


def test_fairness_counts_each_user_once_and_names_the_worst_off():
    # Mean slowdowns: ada 1 (three jobs), bob 3, cem 2.
    jobs = [job(n, 0, 10, user="ada") for n in (1, 2, 3)]
    jobs += [job(4, 0, 10, user="bob"), job(5, 0, 10, user="cem")]

    fairness = summarise(played(jobs, [0, 0, 0, 20, 10]))["fairness"]

    assert fairness == {
        "users": 3,
        "jain": pytest.approx(36 / (3 * 14)),
        "worst_user": "bob",
        "worst_mean_bounded_slowdown": 3,
        "median_mean_bounded_slowdown": 2,
    }


def test_a_trace_without_users_and_groups_has_no_figures_about_them():
    summary = summarise(played([job(1, 0, 10)], [0]))

    assert summary["fairness"] is None
    assert summary["by_group"] == {}


def test_classes_tell_who_waited():
    jobs = [job(1, 0, 60, 1, group="b"), job(2, 0, 60, 3, group="a"), job(3, 0, 20000, 3)]

    summary = summarise(played(jobs, [0, 60, 120]))

    assert {name: entry["mean_wait"] for name, entry in summary["by_size"].items()} == {
        "1": 0,
        "2-4": 90,
    }
    assert {name: entry["jobs"] for name, entry in summary["by_length"].items()} == {
        "short": 2,
        "long": 1,
    }
    assert {
        name: entry["mean_bounded_slowdown"] for name, entry in summary["by_group"].items()
    } == {
        "": pytest.approx(1.006),
        "a": 2,
        "b": 1,
    }


@pytest.mark.parametrize(
    ("procs", "name"),
    [
        *((0, "0"), (1, "1"), (2, "2-4"), (4, "2-4"), (5, "5-16"), (16, "5-16"), (17, "17-64")),
        *((64, "17-64"), (65, "65-256"), (256, "65-256"), (1024, "257-1024"), (1025, "1025+")),
    ],
)
def test_a_size_class_takes_both_of_its_ends(procs, name):
    assert size_class(procs) == name


def test_length_classes_end_at_a_quarter_of_an_hour_and_at_four_hours():
    assert [length_class(s) for s in (900, 901, 14400, 14401)] == [
        "short",
        "medium",
        "medium",
        "long",
    ]


def test_further_figures_of_a_run_join_the_summary_but_replace_none():
    run = played([job(1, 0, 10)], [0], extra={"fragmentation": 7.5, "jobs": 99})

    summary = summarise(run)

    assert summary["fragmentation"] == 7.5
    assert summary["jobs"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("log", "capacity", "column", "slowdown", "wait"),
    [
        ("sc15-KTH-SP2", 100, "start_easy", 92.577, 6836.87),
        ("sc15-KTH-SP2", 100, "start_easy_exact", 71.722, None),
        ("sc15-KTH-SP2", 100, "start_easy_sjbf_exact", 49.848, None),
        ("sc15-CTC-SP2", 338, "start_easy", 49.571, 14272.59),
        ("sc15-CTC-SP2", 338, "start_easy_exact", 37.165, None),
        ("sc15-CTC-SP2", 338, "start_easy_sjbf_exact", 17.572, None),
        ("sc15-SDSC-SP2", 128, "start_easy", 87.870, 20497.76),
        ("sc15-SDSC-SP2", 128, "start_easy_exact", 70.478, None),
        ("sc15-SDSC-SP2", 128, "start_easy_sjbf_exact", 56.836, None),
    ],
)
def test_published_starts_give_the_published_averages(
    shared_folder, log, capacity, column, slowdown, wait
):
    summary = summarise(published(shared_folder, log, column, capacity))

    assert round(summary["mean_bounded_slowdown"], 3) == slowdown
    # Waits were printed for one of the three schedules only.
    assert wait in (None, round(summary["mean_wait"], 2))
