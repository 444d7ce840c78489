"""Budgets of device-hours: what has been used, what running jobs may still use, what comes back."""

import pytest

from rota.core.changes import events as ev
from rota.core.facts.placing import Placement
from rota.core.facts.policy import Estimates
from rota.core.facts.tenant import Limits, Quota, User
from rota.scheduling.limits.quota import GivenBack, Quotas, Short, held_by
from rota.scheduling.scheduler import Scheduler
from rota.testing.stage import Stage, node, spec
from tests.unit.books import DAY_S, HOUR_S, Books, amount

WEEK_S = int(7 * DAY_S)


def with_budget(hours: float, *, soft: bool = False, **quota: object) -> Books:
    """At noon. Alice has so many device-hours within a week."""
    books = Books()
    books.now_s = books.now_s // DAY_S * DAY_S + DAY_S / 2
    part = "soft" if soft else "hard"
    limits = Limits(device_hours=hours)
    books.user("alice", period_s=WEEK_S, **{part: limits}, **quota)
    return books


def short(books: Books, job: int, gpus: float = 1) -> Short | None:
    key = books.cluster.lanes.where[job].key
    return Quotas(books.cluster, books.now_s).short(key, amount(gpus=gpus))


def used(books: Books) -> float:
    """What is used or spoken for, as one that does not fit is told."""
    job = books.wait(gpus=1, time_limit_s=10**7)
    found = short(books, job)
    assert found is not None
    return found.used


def test_hours_of_all_days_within_the_period_are_added_up():
    books = with_budget(10)
    books.ran("alice", hours=2, gpus=1, ago_h=24)
    books.ran("alice", hours=1, gpus=3, ago_h=48)
    books.ran("alice", hours=5, cpus=2, ago_h=24)
    books.ran("bob", hours=5, gpus=1, ago_h=24)

    assert used(books) == pytest.approx(5)


def test_of_the_day_on_which_the_period_begins_its_part_counts_and_nothing_before():
    books = with_budget(10)
    books.ran("alice", hours=2, gpus=2, ago_h=7 * 24 - 3)
    books.ran("alice", hours=4, gpus=1, ago_h=8 * 24 + 3)

    assert used(books) == pytest.approx(2), "the period begins at noon: half of the day counts"


def test_a_budget_of_a_project_counts_all_below_it_and_no_others():
    books = Books()
    books.project("lab", hard=Limits(device_hours=10), period_s=WEEK_S)
    books.project("vision", "lab")
    for project, hours in (("lab", 1), ("vision", 2), ("", 4)):
        books.ran("ann", project, hours=hours, gpus=1, ago_h=24)
    books.run("ben", "vision", gpus=1, time_limit_s=3600)
    job = books.wait("cem", "lab", gpus=1, time_limit_s=10**6)

    found = short(books, job)

    assert found is not None
    assert found.used == pytest.approx(4)
    assert found.counters == (("project", "lab"), ("project", "vision"))


def test_a_running_job_is_charged_for_what_it_had_and_what_its_limit_leaves_it():
    books = with_budget(10)
    books.run(gpus=2, time_limit_s=4 * 3600, at_s=books.now_s - HOUR_S)

    assert used(books) == pytest.approx(8)


def test_a_running_job_beyond_its_limit_is_charged_for_what_it_had():
    books = with_budget(10)
    books.run(gpus=1, time_limit_s=3600, at_s=books.now_s - 3 * HOUR_S)

    assert used(books) == pytest.approx(3)


def test_time_that_a_job_was_suspended_comes_on_top_of_what_it_may_still_use():
    books = with_budget(20)
    start_s = books.now_s - 4 * HOUR_S
    once = books.run(gpus=1, time_limit_s=6 * 3600, at_s=start_s)
    books.tell(ev.JobSuspended(job=once, by="alice"), start_s + HOUR_S)
    books.tell(ev.JobResumed(job=once), start_s + 2 * HOUR_S)
    before = used(books)

    books.tell(ev.JobSuspended(job=once, by="alice"), start_s + 3 * HOUR_S)

    assert before == pytest.approx(7), "four hours held, and three of its six left"
    assert used(books) == pytest.approx(8), "one hour more that it does not run"


@pytest.mark.parametrize(
    ("fields", "estimates", "hours"),
    [
        ({"time_limit_s": 7200, "estimate_s": 3600}, Estimates.PREDICTED, 2),
        ({"estimate_s": 3600}, Estimates.USER, 1),
        ({"estimate_s": 3600, "predicted_s": 10800}, Estimates.PREDICTED, 3),
        ({"estimate_s": 3600, "predicted_s": 10800}, Estimates.USER, 1),
        ({}, Estimates.USER, 5),
    ],
)
def test_a_job_may_use_its_limit_else_what_it_is_taken_to_last(fields, estimates, hours):
    books = with_budget(0.5)
    books.rules(backfill={"estimates": estimates, "estimate_device_s": 5 * 3600})
    job = books.wait(gpus=1, **fields)

    found = short(books, job)

    assert found is not None
    assert found.wanted == hours


def test_a_budget_may_be_spent_to_the_last_second():
    books = with_budget(3)
    books.ran("alice", hours=1, gpus=1, ago_h=24)
    job = books.wait(gpus=1, time_limit_s=2 * 3600)
    longer = books.wait(gpus=1, time_limit_s=2 * 3600 + 1)

    assert short(books, job) is None
    assert short(books, longer) is not None


def days_ago(books: Books, count: int) -> float:
    """When the hours of that day come back."""
    return (books.now_s // DAY_S - count + 1) * DAY_S + WEEK_S


@pytest.mark.parametrize(
    ("limit_h", "days"), [(2, 3), (2.5, 2), (3.5, 2), (4, 2), (4.5, 1), (5, 1)]
)
def test_time_gives_back_day_by_day_until_there_is_enough(limit_h, days):
    books = with_budget(7)
    for count, hours in ((3, 2), (2, 2), (1, 1)):
        books.ran("alice", hours=hours, gpus=1, ago_h=24 * count)
    job = books.wait(gpus=1, time_limit_s=int((limit_h + 2) * 3600))

    found = short(books, job)

    assert found is not None
    assert found.used == pytest.approx(5)
    assert found.again_s == days_ago(books, days)


def test_a_job_over_its_budget_starts_when_time_has_given_enough_back():
    books = with_budget(3)
    books.ran("alice", hours=3, gpus=1, ago_h=24)
    job = books.wait(gpus=1, time_limit_s=3600)
    scheduler = Scheduler(books.cluster)
    early = scheduler.run(books.now_s)

    late = scheduler.run(early.wake_s)

    assert not early.starts
    assert early.wake_s == days_ago(books, 1)
    assert [start.job for start in late.starts] == [job]


def test_what_only_running_jobs_have_spoken_for_no_time_gives_back():
    books = with_budget(3)
    books.run(gpus=1, time_limit_s=3 * 3600)
    job = books.wait(gpus=1, time_limit_s=3600)

    found = short(books, job)

    assert found is not None
    assert found.again_s == 0


def test_a_soft_budget_may_be_borrowed_beyond_unless_it_is_said_otherwise():
    lent, firm = with_budget(1, soft=True), with_budget(1, soft=True, borrow=False)
    for books in (lent, firm):
        books.ran("alice", hours=1, gpus=1, ago_h=24)
        books.wait(gpus=1, time_limit_s=3600)

    answers = []
    for books in (lent, firm):
        desk = Quotas(books.cluster, books.now_s)
        (lane,) = books.cluster.lanes.lanes.values()
        found = desk.short(lane.key, amount(gpus=1))
        answers.append((found and found.hard, desk.borrowing(lane.key, amount(gpus=1))))

    assert answers == [(None, True), (False, False)]


def test_what_a_pass_gives_is_charged_to_the_budget_at_once():
    books = with_budget(4)
    job = books.wait(gpus=1, time_limit_s=2 * 3600)
    desk, key = Quotas(books.cluster, books.now_s), books.cluster.lanes.where[job].key

    desk.take(key, amount(gpus=2))

    found = desk.short(key, amount(gpus=1))
    assert found is not None
    assert (found.used, found.wanted) == (4, 2)
    assert str(found) == "user alice has used or spoken for 4 of 4 device-hours, 2 wanted"


def test_a_job_that_only_a_smaller_node_is_within_its_budget_gets_a_larger_one_in_time():
    stage = Stage([node("small", cpus=1, gpus=1), node("large", cpus=4, gpus=4)])
    stage.now_s = stage.begin_s = 20_000 * DAY_S
    quota = Quota(hard=Limits(device_hours=5), period_s=WEEK_S)
    stage.tell(ev.UserSet(user=User("alice", quota=quota)))
    only_small = Placement(nodes=("small",))
    stage.submit(spec(user="bob", gpus=1, placement=only_small), runs_s=30 * DAY_S)
    stage.submit(spec(gpus=1, time_limit_s=3 * 3600))
    stage.submit_later(DAY_S, spec(gpus=1, time_limit_s=3600, placement=Placement(exclusive=True)))

    stage.play()

    # Of the larger node all four devices count; the first three hours come back after a week.
    assert stage.started_s[3] == stage.begin_s + DAY_S + WEEK_S


@pytest.mark.parametrize(("hours", "is_lent"), [(3.0, False), (2.9, True)])
def test_a_job_is_lent_its_gpu_only_where_it_may_use_more_than_the_soft_budget(hours, is_lent):
    books = with_budget(hours, soft=True, borrow=True)
    job = books.cluster.jobs[books.run(gpus=1, time_limit_s=3 * 3600)]
    part = GivenBack(job, held_by(books.cluster, job))

    desk = Quotas(books.cluster, books.now_s)

    assert desk.reclaimable(part) == is_lent
    assert desk.all_reclaimable([part]) == is_lent
