"""Listings by when jobs ended: what accounting asks for."""

import msgspec

from rota.core.facts.states import JobState
from rota.store.api import Batch, JobFilter
from tests.store.builders import job


def test_only_what_ended_since_a_moment_or_has_not_ended_is_listed(store):
    early, late = (
        msgspec.structs.replace(job(number, JobState.COMPLETED), ended_s=at_s)
        for number, at_s in ((1, 100.0), (2, 200.0))
    )
    store.commit(Batch(jobs=[early, late, job(3, JobState.RUNNING)]))

    since = store.list_jobs(JobFilter(ended_since_s=150.0))
    ended = store.list_jobs(JobFilter(states=(JobState.COMPLETED,), ended_since_s=150.0))

    assert [one.id for one in since] == [2, 3]
    assert [one.id for one in ended] == [2]
