"""Environments, scripts and inputs go once nothing on record refers to them."""

import pytest

from rota.core.changes.events import BlobStored
from rota.core.facts.states import JobState
from rota.store.api import Batch
from rota.store.unused import MARGIN_S
from tests.store.builders import DAY_S, START_S, Log, array, job, spec

OLD_S = START_S - 30 * DAY_S
BEFORE_S = START_S - 7 * DAY_S


def used(log: Log, *digests: str, at_s: float = OLD_S) -> Batch:
    """The batch of a tick whose submits refer to these blobs."""
    bodies = {digest: digest.encode() for digest in digests}
    events = [log.record(BlobStored(*blob), at_s=at_s) for blob in bodies.items()]
    return Batch(events=events, blobs=bodies)


def collect(store) -> list[str]:
    found = store.unused_blobs(BEFORE_S)
    store.drop_blobs(found, BEFORE_S)
    return found


def test_a_blob_that_nothing_refers_to_goes(place):
    store = place.open()
    store.commit(used(Log(), "e1", "e2"))

    found = collect(store)

    assert found == ["e1", "e2"]
    assert place.reopen().blob("e1") is None


@pytest.mark.parametrize("field", ["environment", "script", "stdin"])
@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING, JobState.COMPLETED])
def test_what_a_job_on_record_refers_to_stays(store, field, state):
    log = Log()
    store.commit(used(log, "e1", "e2"))
    store.commit(log.submitted(job(1, state, at_s=OLD_S, **{field: "e1"})))

    found = collect(store)

    assert found == ["e2"]
    assert store.blob("e1") == b"e1"


def test_what_a_job_with_a_later_time_refers_to_stays_while_it_has_not_ended(store):
    """Its time was moved with the wall clock; that of the blob was not."""
    log = Log()
    store.commit(used(log, "e1"))
    store.commit(log.submitted(job(1, at_s=START_S, environment="e1")))

    assert collect(store) == []


def test_what_an_array_refers_to_stays_with_the_array(store):
    log = Log()
    store.commit(used(log, "e1"))
    store.commit(log.array_submitted(array(10, spec=spec(environment="e1"))))

    assert collect(store) == []


def test_a_blob_goes_after_its_last_job(store):
    log = Log()
    store.commit(used(log, "e1"))
    store.commit(log.submitted(job(1, JobState.COMPLETED, at_s=OLD_S, environment="e1")))
    before = collect(store)

    while store.prune(BEFORE_S):
        pass

    assert (before, collect(store)) == ([], ["e1"])


def test_packed_rows_are_read_too(sql_place):
    store, log = sql_place.open(), Log()
    store.commit(used(log, "e1"))
    done = [job(n, JobState.COMPLETED, at_s=OLD_S, environment="e1") for n in range(1, 60)]
    store.commit(log.submitted(*done))
    while store.pack(START_S):
        pass

    assert collect(store) == []


def test_a_blob_that_was_used_lately_stays(store):
    log = Log()
    store.commit(used(log, "e1", at_s=BEFORE_S - MARGIN_S))

    assert collect(store) == []


def test_a_blob_that_is_used_again_has_the_later_date_and_the_first_body(store):
    log = Log()
    store.commit(used(log, "e1"))
    again = used(log, "e1", at_s=START_S)
    again.blobs["e1"] = b"sealed anew"
    store.commit(again)

    assert collect(store) == []
    assert store.blob("e1") == b"e1"


def test_a_submit_between_the_search_and_the_dropping_keeps_its_blob(store):
    log = Log()
    store.commit(used(log, "e1", "e2"))
    found = store.unused_blobs(BEFORE_S)

    store.commit(used(log, "e1", at_s=START_S))
    store.drop_blobs(found, BEFORE_S)

    assert (found, store.blob("e1"), store.blob("e2")) == (["e1", "e2"], b"e1", None)


def test_what_the_store_keeps_for_itself_stays(sql_place):
    store, log = sql_place.open(), Log()
    done = [job(n, JobState.COMPLETED, at_s=OLD_S) for n in range(1, 60)]
    store.commit(log.submitted(*done))
    while store.pack(START_S):
        pass
    kept = store.driver.read("SELECT digest FROM blobs")

    found = collect(store)

    assert kept == [("packing/001",)]
    assert found == []
