"""Backfill keeps its word: whoever was told when he would start does not start later.

Jobs end at or before their limits and nobody of higher rank arrives; under these conditions the
first promise binds.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.policy import Backfill, Policy
from rota.core.presets import PRESETS
from rota.core.tenant import Reservation
from rota.testing.stage import Stage, node, spec
from tests.property import sites

sites_of_time = sites.nodes(least=1, most=4, plain=True)
queues = sites.submissions(sites.simple_specs(), most=14)
mixed_queues = sites.submissions(sites.specs(), most=12)


def lateness(stage: Stage) -> dict[int, float]:
    """By how much each job that was promised something started too late."""
    return {
        job: stage.started_s[job] - promised_s
        for job, promised_s in stage.promised_s.items()
        if job in stage.started_s and stage.started_s[job] > promised_s
    }


@settings(max_examples=150)
@given(nodes=sites_of_time, jobs=queues)
def test_easy_never_starts_the_head_later_than_first_computed(nodes, jobs):
    stage = Stage(nodes, sites.backfilling(Backfill.EASY))

    sites.play(stage, jobs)

    assert lateness(stage) == {}


@settings(max_examples=150)
@given(nodes=sites_of_time, jobs=queues)
def test_conservative_never_starts_anybody_later_than_first_promised(nodes, jobs):
    stage = Stage(nodes, sites.backfilling(Backfill.CONSERVATIVE))

    sites.play(stage, jobs)

    assert lateness(stage) == {}


@settings(max_examples=150)
@given(nodes=sites_of_time, jobs=queues, delay_s=st.sampled_from([0, 10, 35]))
def test_aggressive_delays_the_head_by_no_more_than_it_may(nodes, jobs, delay_s):
    stage = Stage(nodes, sites.backfilling(Backfill.AGGRESSIVE, delay_max_s=delay_s))

    sites.play(stage, jobs)

    assert max(lateness(stage).values(), default=0.0) <= delay_s


@settings(max_examples=100)
@given(
    nodes=sites.nodes(),
    jobs=mixed_queues,
    kind=st.sampled_from([Backfill.EASY, Backfill.CONSERVATIVE]),
)
def test_promises_hold_for_every_kind_of_job_and_placement(nodes, jobs, kind):
    stage = Stage(nodes, sites.backfilling(kind))
    alone = [job._replace(spec=without_neighbours(job.spec)) for job in jobs]

    sites.play(stage, alone)

    assert lateness(stage) == {}


def without_neighbours(spec):
    """Whom it waits for may never come: no promise can be made about that."""
    placement = msgspec.structs.replace(spec.placement, affinities=())
    return msgspec.structs.replace(spec, placement=placement)
