"""Backfill keeps its word: whoever was told when he would start does not start later.

Jobs end at or before their limits and nobody of higher rank arrives; under these conditions the
first promise binds.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rota.core.facts.policy import Backfill
from rota.core.facts.tenant import Reservation
from rota.core.words.presets import PRESETS
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


@settings(max_examples=60)
@given(nodes=sites_of_time, jobs=queues, starts=sites.hosts)
def test_easy_never_starts_the_head_later_than_first_computed(nodes, jobs, starts):
    stage = sites.hosted(nodes, sites.backfilling(Backfill.EASY), starts)

    sites.play(stage, jobs)

    assert lateness(stage) == {}


@settings(max_examples=60)
@given(nodes=sites_of_time, jobs=queues, starts=sites.hosts)
def test_conservative_never_starts_anybody_later_than_first_promised(nodes, jobs, starts):
    stage = sites.hosted(nodes, sites.backfilling(Backfill.CONSERVATIVE), starts)

    sites.play(stage, jobs)

    assert lateness(stage) == {}


@settings(max_examples=60)
@given(
    nodes=sites_of_time,
    jobs=queues,
    delay_s=st.sampled_from([0, 10, 35]),
    starts=sites.hosts,
)
def test_aggressive_delays_the_head_by_no_more_than_it_may(nodes, jobs, delay_s, starts):
    policy = sites.backfilling(Backfill.AGGRESSIVE, delay_max_s=delay_s)
    stage = sites.hosted(nodes, policy, starts)

    sites.play(stage, jobs)

    assert max(lateness(stage).values(), default=0.0) <= delay_s


@settings(max_examples=60)
@given(
    nodes=sites.nodes(),
    jobs=mixed_queues,
    kind=st.sampled_from([Backfill.EASY, Backfill.CONSERVATIVE]),
    starts=sites.hosts,
)
def test_promises_hold_for_every_kind_of_job_and_placement(nodes, jobs, kind, starts):
    stage = sites.hosted(nodes, sites.backfilling(kind), starts)
    alone = [job._replace(spec=sites.without_neighbours(job.spec)) for job in jobs]

    sites.play(stage, alone)

    assert lateness(stage) == {}


def feasible(stage: Stage, spec) -> bool:
    """Whether a job could run on the empty site: it does when it is alone there."""
    empty = Stage([node.spec for node in stage.cluster.nodes.values()], stage.cluster.policy)
    job = empty.submit(spec)
    empty.run()
    return job in empty.started_s


@pytest.mark.parametrize("name", PRESETS)
@settings(max_examples=12)
@given(nodes=sites_of_time, jobs=queues, starts=sites.hosts)
def test_every_feasible_job_starts_in_bounded_time_under_every_policy(name, nodes, jobs, starts):
    stage = sites.hosted(nodes, PRESETS[name], starts)
    able = [job for job in jobs if feasible(stage, job.spec)]

    ids = sites.play(stage, able)

    # While anybody waits somebody runs, so nobody waits longer than all others together run.
    work_s = sum(job.runs_s for job in able)
    for number, job in zip(ids, able, strict=True):
        assert stage.started_s[number] <= stage.begin_s + max(j.at_s for j in able) + work_s, job


#: Policies in whose order small jobs do not come before a wide one for ever.
PATIENT = {
    "default": 1000.0,
    "fcfs": 600.0,
    "easy": 600.0,
    "conservative": 600.0,
    "fairshare-easy": 600.0,
    "wfp3": 600.0,
    "unicef": 600.0,
    "multifactor": 600.0,
    "gang": 600.0,
    "preemptive": 600.0,
    "aggressive": 3600.0 + 600.0,
}


@pytest.mark.parametrize(("name", "bound_s"), PATIENT.items())
def test_a_wide_job_starts_although_small_ones_keep_coming(name, bound_s):
    stage = Stage([node("n0"), node("n1")], PRESETS[name], checked=False)
    for number in range(100):
        # At three quarters of the load there is never a moment with both nodes free by itself.
        stage.submit_later(number * 40.0, spec(cpus=4, time_limit_s=60, user="bob"))
    stage.submit_later(50.0, spec(cpus=4, tasks=2, time_limit_s=100))

    stage.play()

    third = 3
    assert stage.started_s[third] <= stage.begin_s + 50.0 + bound_s


@pytest.mark.parametrize("name", PRESETS)
def test_whoever_has_waited_too_long_is_passed_no_more_under_any_policy(name):
    chosen = PRESETS[name]
    order = replace(chosen.order, wait_max_s=600)
    stage = Stage([node("n0"), node("n1")], replace(chosen, order=order), checked=False)
    for number in range(100):
        stage.submit_later(number * 40.0, spec(cpus=4, time_limit_s=60, user="bob"))
    stage.submit_later(50.0, spec(cpus=4, tasks=2, time_limit_s=100))

    stage.play()

    third = 3
    assert stage.started_s[third] <= stage.begin_s + 50.0 + 600.0 + 200.0


spans = st.tuples(st.integers(0, 8), st.integers(1, 6)).map(lambda s: (s[0] * 10, s[1] * 10))


@settings(max_examples=60)
@given(
    nodes=sites_of_time,
    jobs=queues,
    span=spans,
    kind=st.sampled_from(list(Backfill)),
    starts=sites.hosts,
    data=st.data(),
)
def test_nobody_else_is_where_a_reservation_holds_while_it_holds(
    nodes, jobs, span, kind, starts, data
):
    stage = sites.hosted(nodes, sites.backfilling(kind), starts)
    start_s, end_s = stage.begin_s + span[0], stage.begin_s + span[0] + span[1]
    cards = sum(len(node.devices) for node in nodes)
    count = data.draw(st.integers(0, cards), "devices")
    what = {"device_count": count} if count else {"nodes": (nodes[0].name,)}
    stage.reserve(Reservation(1000, "bob", start_s, end_s, **what))
    for job in jobs:
        stage.submit_later(job.at_s, job.spec, job.runs_s)
    stage.run()

    while stage.step():
        if not start_s <= stage.now_s < end_s:
            continue
        held = [
            (name, len(allocation.devices), allocation)
            for name, node in stage.cluster.nodes.items()
            for uid, allocation in node.live.items()
            if stage.cluster.jobs[stage.cluster.live.where[uid][0]].spec.user != "bob"
        ]
        if count:
            busy = {(name, index) for name, _, held_by in held for index in held_by.devices}
            assert len(busy) <= cards - count
        else:
            assert not [name for name, _, _ in held if name == nodes[0].name]
