"""How old jobs ended is kept in pages, so that a start does not read every row there ever was."""

import random

import pytest

from rota.controller.recover import recover
from rota.core.derived.ids import page_ids
from rota.core.facts.job import Outcome
from rota.core.facts.states import FINAL, Cause, JobState
from rota.store.api import Batch
from tests.store.builders import START_S, Log, array, job

LAST_OF_FIRST_PAGE = page_ids(0)[1]


def ended_as(store) -> dict[int, JobState | None]:
    ledger = recover(store.load()).ids.ended
    return {number: ledger.get(number) for number in range(1, LAST_OF_FIRST_PAGE + 200)}


def fill(store, states: dict[int, JobState]) -> None:
    store.commit(Log().submitted(*(job(number, state) for number, state in states.items())))


@pytest.mark.parametrize("seed", range(3))
def test_sealed_pages_say_what_the_rows_said(sql_place, seed):
    chance, final = random.Random(seed), sorted(FINAL)
    states = {number: chance.choice(final) for number in range(1, LAST_OF_FIRST_PAGE + 150)}
    store = sql_place.open()
    fill(store, states)
    before = ended_as(store)

    sealed = store.seal_outcomes()

    assert sealed == 1
    reopened = sql_place.reopen()
    assert ended_as(reopened) == before
    assert len(reopened.load().outcomes) < 200
    assert reopened.seal_outcomes() == 0


def test_a_page_with_a_job_that_runs_waits(sql_place):
    states = dict.fromkeys(range(1, LAST_OF_FIRST_PAGE + 150), JobState.COMPLETED)
    store = sql_place.open()
    fill(store, states | {7: JobState.RUNNING})

    assert store.seal_outcomes() == 0

    store.commit(Batch(jobs=[job(7, JobState.FAILED)]))
    assert store.seal_outcomes() == 1
    assert ended_as(sql_place.reopen())[7] is JobState.FAILED


def test_what_was_pruned_is_still_known_to_have_ended(sql_place):
    store = sql_place.open()
    fill(store, dict.fromkeys(range(1, LAST_OF_FIRST_PAGE + 150), JobState.TIMEOUT))
    store.seal_outcomes()

    while store.prune(START_S + 10 * 86400.0):
        pass

    reopened = sql_place.reopen()
    assert reopened.job(5) is None
    assert ended_as(reopened)[5] is JobState.TIMEOUT


def test_a_page_with_elements_that_nothing_has_touched_waits(sql_place):
    family = array(2, LAST_OF_FIRST_PAGE, waiting_from=1)
    log, store = Log(), sql_place.open()
    store.commit(log.submitted(job(1, JobState.COMPLETED)))
    store.commit(log.array_submitted(family))

    assert store.seal_outcomes() == 0


def prune_all(store) -> None:
    while store.prune(START_S + 10 * 86400.0):
        pass


def test_how_pruned_elements_of_an_open_array_ended_is_known_after_a_restart(place):
    store, log = place.open(), Log()
    store.commit(log.array_submitted(array(2, 300, waiting_from=3)))
    ends = {3: JobState.COMPLETED, 4: JobState.FAILED, 5: JobState.CANCELLED}
    store.commit(log.submitted(*(job(number, end, array_id=2) for number, end in ends.items())))

    prune_all(store)

    known = ended_as(place.reopen())
    assert {number: end for number, end in known.items() if end} == ends


def test_a_pruned_array_is_known_with_its_worst_end_and_what_was_cut_of_it(place):
    size = 3 * (LAST_OF_FIRST_PAGE + 1)
    store, log = place.open(), Log()
    cut = Outcome(JobState.CANCELLED, Cause.CANCELLED)
    family = array(
        2, size, waiting_from=size, cut=[[1, 1], [3, size - 1]], cut_s=START_S, cut_outcome=cut
    )
    store.commit(log.array_submitted(family))
    touched = [(3, JobState.COMPLETED), (5, JobState.TIMEOUT)]
    store.commit(log.submitted(*(job(number, end, array_id=2) for number, end in touched)))
    before = recover(store.load()).ids.ended.counts

    prune_all(store)

    cluster = recover(place.reopen().load())
    assert [cluster.state_of(n) for n in (2, 3, 4, 5, size + 2, size + 3)] == [
        *(JobState.TIMEOUT, JobState.COMPLETED, JobState.CANCELLED, JobState.TIMEOUT),
        *(JobState.CANCELLED, None),
    ]
    assert cluster.ids.ended.is_array(2)
    assert cluster.ids.ended.counts == before


@pytest.mark.parametrize("seed", range(3))
def test_pruned_a_few_at_a_time_between_seals_and_restarts_nothing_is_forgotten(sql_place, seed):
    chance, final = random.Random(seed), sorted(FINAL)
    states = {number: chance.choice(final) for number in range(1, 2 * LAST_OF_FIRST_PAGE)}
    store = sql_place.open()
    fill(store, states | {9: JobState.RUNNING})
    for _ in range(3):
        store.prune(START_S + 10 * 86400.0, limit=chance.randrange(2, 3000))
        store = sql_place.reopen()
    store.commit(Batch(jobs=[job(9, JobState.FAILED)]))
    before = ended_as(store)

    sealed = store.seal_outcomes()
    prune_all(store)

    assert sealed == 1
    assert ended_as(sql_place.reopen()) == before
    assert before == {number: (states | {9: JobState.FAILED}).get(number) for number in before}
