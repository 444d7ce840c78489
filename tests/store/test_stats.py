"""Sums over the jobs of a period: equal in every store, and made by the database."""

import pytest

from rota.core.facts.states import JobState
from rota.store.api import Batch
from rota.store.stats import Cohort, StateSums, longest, sums
from tests.store.builders import DAY_S, START_S, job

S = JobState


@pytest.fixture
def filled(store):
    """Ann's and Bob's jobs of this week and of an earlier one; each started after 2 s."""
    store.commit(
        Batch(
            jobs=[
                job(1, S.COMPLETED, at_s=START_S - 9 * DAY_S),
                job(2, S.COMPLETED, ended_s=START_S + 12),
                job(3, S.COMPLETED, ended_s=START_S + 22),
                job(4, S.FAILED, ended_s=START_S + 102),
                job(5, S.QUEUED),
                job(6, S.RUNNING),
                job(7, S.SCHEDULED),
                job(8, S.TIMEOUT, user="bob", ended_s=START_S + 52),
                job(9, S.RUNNING, user="bob", at_s=START_S + 10),
                _cancelled_before_its_start(),
            ]
        )
    )
    return store


def _cancelled_before_its_start():
    made = job(10, S.CANCELLED, user="bob", ended_s=START_S + 5)
    made.tasks[0].attempts.clear()
    return made


def test_jobs_of_the_period_are_added_up_by_user_and_state(filled):
    found = filled.job_sums(Cohort(START_S - DAY_S))

    assert found == [
        StateSums("ann", S.COMPLETED, 2, started=2, wait_s=4.0, ran=2, run_s=30.0),
        StateSums("ann", S.FAILED, 1, started=1, wait_s=2.0, ran=1, run_s=100.0),
        StateSums("ann", S.QUEUED, 1),
        StateSums("ann", S.RUNNING, 1, started=1, wait_s=2.0),
        StateSums("ann", S.SCHEDULED, 1),
        StateSums("bob", S.CANCELLED, 1),
        StateSums("bob", S.RUNNING, 1, started=1, wait_s=2.0),
        StateSums("bob", S.TIMEOUT, 1, started=1, wait_s=2.0, ran=1, run_s=50.0),
    ]


def test_a_user_can_be_chosen_and_a_longer_period_has_more(filled):
    week = filled.job_sums(Cohort(START_S, user="ann"))
    fortnight = filled.job_sums(Cohort(START_S - 14 * DAY_S, user="ann"))

    assert sum(one.jobs for one in week) == 6
    assert sum(one.jobs for one in fortnight) == 7
    assert {one.user for one in week} == {"ann"}


def test_a_time_with_an_end_and_a_project_have_no_others(store):
    store.commit(Batch(jobs=[job(1, S.COMPLETED), job(2, S.COMPLETED, project="vision")]))

    of_vision = store.job_sums(Cohort(0.0, project="vision"))
    before = store.job_sums(Cohort(0.0, START_S))

    assert [one.jobs for one in of_vision] == [1]
    assert [one.id for one in store.longest_jobs(Cohort(0.0, project="vision"), now_s=0.0)] == [2]
    assert before == []


def test_a_period_without_jobs_has_no_sums(filled):
    assert filled.job_sums(Cohort(START_S + DAY_S)) == []
    assert filled.job_sums(Cohort(START_S, user="nobody")) == []
    assert filled.longest_jobs(Cohort(START_S + DAY_S), now_s=START_S) == []


def test_the_longest_jobs_come_first_with_those_that_still_run(filled):
    now_s = START_S + 72

    found = filled.longest_jobs(Cohort(START_S), now_s=now_s, limit=4)
    of_bob = filled.longest_jobs(Cohort(START_S, user="bob"), now_s=now_s)

    assert [one.id for one in found] == [4, 6, 9, 8]
    assert [one.id for one in of_bob] == [9, 8]


def test_a_job_that_waits_again_does_not_count_as_started(store):
    requeued = job(1, S.COMPLETED)
    requeued.outcome, requeued.ended_s = None, 0.0
    store.commit(Batch(jobs=[requeued]))

    assert requeued.state is S.QUEUED
    assert store.job_sums(Cohort(START_S)) == [StateSums("ann", S.QUEUED, 1)]
    assert store.longest_jobs(Cohort(START_S), now_s=START_S + 99) == []


def test_the_database_reads_only_the_jobs_of_the_period(sqlite_store):
    for text, values in (
        sums(Cohort(START_S)),
        longest(Cohort(START_S, user="ann", project="x"), START_S, 5),
    ):
        plan = sqlite_store.driver.read(f"EXPLAIN QUERY PLAN {text}", values)
        steps = " ".join(str(row[3]) for row in plan)

        assert "SCAN jobs" not in steps
        assert "USING INDEX jobs_created (created_at>?)" in steps


def test_jobs_of_a_period_come_the_newest_first_and_no_more_than_asked_for(filled):
    whole = [one.id for one in filled.jobs_submitted(START_S, START_S + DAY_S, limit=100)]
    newest = [one.id for one in filled.jobs_submitted(START_S, START_S + DAY_S, limit=3)]
    earlier = [one.id for one in filled.jobs_submitted(0.0, START_S, limit=100)]

    assert whole == [9, 2, 3, 4, 5, 6, 7, 8, 10]
    assert newest == [9, 2, 3]
    assert earlier == [1]


def test_jobs_of_a_period_are_found_when_their_rows_are_packed(sql_place):
    store = sql_place.open()
    store.commit(Batch(jobs=[job(number, S.COMPLETED) for number in range(1, 60)]))
    while store.pack(START_S + DAY_S):
        pass

    found = store.jobs_submitted(START_S, START_S + DAY_S, limit=100)

    assert {one.id for one in found} == set(range(1, 60))
