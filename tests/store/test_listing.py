"""Listings of jobs: what is chosen, in which order, and along which index."""

import itertools

import pytest

from rota.core.facts.states import JobState
from rota.store.api import Batch, JobFilter
from rota.store.listing import listing
from tests.store.builders import job

S = JobState


@pytest.fixture
def filled(store):
    """Twelve jobs of two users in several states, queues, projects and one array."""
    states = (S.QUEUED, S.RUNNING, S.COMPLETED, S.FAILED)
    store.commit(
        Batch(
            jobs=[
                job(
                    number,
                    states[number % 4],
                    user="ann" if number % 3 else "bob",
                    project="vision" if number % 2 else "",
                    queue="slow" if number > 9 else "default",
                    name=f"job-{number % 5}",
                    array_id=3 if 4 <= number <= 6 else 0,
                    priority=10 * (number % 4),
                )
                for number in range(1, 13)
            ]
        )
    )
    return store


def ids(jobs):
    return [one.id for one in jobs]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (JobFilter(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
        (JobFilter(states=(S.QUEUED,)), [4, 8, 12]),
        (JobFilter(states=(S.FAILED, S.QUEUED)), [3, 4, 7, 8, 11, 12]),
        (JobFilter(user="bob"), [3, 6, 9, 12]),
        (JobFilter(user="bob", states=(S.QUEUED, S.RUNNING)), [9, 12]),
        (JobFilter(project="vision"), [1, 3, 5, 7, 9, 11]),
        (JobFilter(project="vision", user="bob"), [3, 9]),
        (JobFilter(queue="slow"), [10, 11, 12]),
        (JobFilter(queue="slow", states=(S.QUEUED, S.FAILED)), [11, 12]),
        (JobFilter(name="job-2"), [2, 7, 12]),
        (JobFilter(array=3), [4, 5, 6]),
        (JobFilter(array=3, states=(S.QUEUED,)), [4]),
        (JobFilter(ids=(2, 9, 99)), [2, 9]),
        (JobFilter(ids=(2, 9), user="bob"), [9]),
        (JobFilter(user="nobody"), []),
        (JobFilter(priorities=(30, 100)), [3, 7, 11]),
        (JobFilter(priorities=(10, 20), user="bob"), [6, 9]),
        (JobFilter(priorities=(0, 9), states=(S.QUEUED, S.FAILED), ids=(4, 5, 7)), [4]),
        (JobFilter(states=tuple(S)), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
    ],
)
def test_a_filter_chooses_the_same_jobs_in_both_directions(filled, wanted, expected):
    assert ids(filled.list_jobs(wanted)) == expected
    assert ids(filled.list_jobs(wanted, newest_first=True)) == expected[::-1]


@pytest.mark.parametrize(
    "wanted",
    [
        JobFilter(),
        JobFilter(user="ann"),
        JobFilter(states=(S.QUEUED, S.COMPLETED, S.FAILED)),
        JobFilter(project="vision", states=(S.RUNNING, S.FAILED)),
    ],
)
@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_together_are_the_whole_list(filled, wanted, newest_first):
    whole = ids(filled.list_jobs(wanted, newest_first=newest_first))
    paged = []

    after = 0
    while page := ids(filled.list_jobs(wanted, after=after, limit=2, newest_first=newest_first)):
        assert len(page) <= 2
        paged += page
        after = page[-1]

    assert paged == whole
    assert len(set(paged)) == len(paged) > 2


def test_a_listing_gives_jobs_in_full(filled):
    assert filled.list_jobs(JobFilter(ids=(4,))) == [
        job(4, S.QUEUED, user="ann", name="job-4", array_id=3, priority=0)
    ]


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (JobFilter(states=(S.QUEUED, S.RUNNING)), "jobs_state"),
        (JobFilter(states=(S.QUEUED,)), "jobs_state"),
        (JobFilter(user="ann"), "jobs_user"),
        (JobFilter(user="ann", states=(S.FAILED,)), "jobs_user"),
        (JobFilter(user="ann", states=(S.FAILED, S.QUEUED), queue="q"), "jobs_user"),
        (JobFilter(project="vision"), "jobs_project"),
        (JobFilter(array=5), "jobs_array"),
        (JobFilter(array=5, states=(S.FAILED, S.QUEUED)), "jobs_array"),
    ],
)
@pytest.mark.parametrize("newest_first", [False, True])
def test_sqlite_walks_an_index_in_order_and_never_the_whole_table(
    sqlite_store, wanted, index, newest_first
):
    text, values = listing(wanted, after=7, limit=20, newest_first=newest_first)

    plan = [row[3] for row in sqlite_store.driver.read(f"EXPLAIN QUERY PLAN {text}", values)]

    assert any(index in step for step in plan), plan
    assert not any(step.startswith("SCAN jobs") for step in plan), plan
    ranges = [step for step in plan if index in step]
    assert all("id<?" in step or "id>?" in step for step in ranges), plan
    if "UNION" not in text:  # The merge sorts its short ranges; a single range needs no sorting.
        assert not any("TEMP B-TREE" in step for step in plan), plan


@pytest.mark.slow
def test_twenty_of_many_jobs_are_listed_as_fast_as_twenty_of_few(sqlite_store):
    wanted = [
        JobFilter(),
        JobFilter(states=(S.QUEUED, S.COMPLETED)),
        JobFilter(user="ann"),
        JobFilter(user="ann", states=(S.QUEUED, S.RUNNING)),
    ]
    sqlite_store.commit(Batch(jobs=[job(number) for number in range(1, 101)]))
    few = _steps(sqlite_store, wanted)
    for first in range(101, 20_101, 1000):
        sqlite_store.commit(
            Batch(jobs=[job(number, S.COMPLETED) for number in range(first, first + 1000)])
        )
    many = _steps(sqlite_store, wanted)

    assert 0 < few <= many < 2 * few


def _steps(store, wanted) -> int:
    """How many instructions of its own SQLite needs; time would depend on the machine."""
    (reader,) = store.driver._readers
    steps = itertools.count()
    reader.set_progress_handler(lambda: next(steps) and None, 1)
    for one in wanted:
        store.list_jobs(one, limit=20, newest_first=True)
    reader.set_progress_handler(None, 1)
    return next(steps)
