"""Facts on disk: jobs, arrays, nodes and events come back as they were written."""

import msgspec
import pytest

from rota.core.facts.array import Array
from rota.core.facts.job import Job
from rota.core.facts.node import Node
from rota.core.facts.states import FINAL, JobState
from rota.store import rows
from rota.store.api import JobFilter
from tests.unit.story import stage, steps


def back(value: object) -> object:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type(value))


@pytest.fixture(scope="module")
def scene():
    scene = stage()
    for step in steps(scene):
        step()
    return scene


@pytest.mark.parametrize("kind", [Job, Array, Node])
def test_records_round_trip_in_whatever_state_they_are(scene, kind):
    cluster = scene.cluster
    finished = [scene.store.job(i) for i in range(1, cluster.ids.next) if cluster.ids.ended.get(i)]
    records = [
        *cluster.jobs.values(),
        *cluster.arrays.values(),
        *cluster.nodes.values(),
        *(job for job in finished if job is not None),
    ]

    chosen = [record for record in records if isinstance(record, kind)]

    assert len(chosen) >= 2
    assert [back(record) for record in chosen] == chosen


def test_every_kind_of_event_that_happened_round_trips(scene):
    log = list(scene.store.all_events())

    again = [rows.recorded((*row[:3], row[5])) for row in map(rows.event_row, log)]

    assert again == log
    assert [record.seq for record in log] == list(range(1, len(log) + 1))


def test_an_event_cannot_be_changed_after_it_happened(scene):
    event = scene.log[0]

    with pytest.raises(AttributeError):
        event.incarnation = "forged"


def test_only_unfinished_jobs_stay_in_memory_and_how_the_others_ended_is_known(scene):
    cluster = scene.cluster

    ended = [i for i in range(1, cluster.ids.next) if cluster.ids.ended.get(i)]

    assert ended
    assert not set(ended) & set(cluster.jobs)
    assert {cluster.state_of(i) for i in ended} <= FINAL
    assert cluster.state_of(cluster.ids.next) is None


def test_the_end_on_record_is_the_end_that_is_remembered(scene):
    stored = {job.id: job.state for job in scene.store.list_jobs(JobFilter()) if job.outcome}

    remembered = {i: scene.cluster.ids.ended.get(i) for i in stored}

    assert remembered == stored
    assert JobState.COMPLETED in stored.values()
