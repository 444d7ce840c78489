"""Capacity is never exceeded: in no dimension, on no device, at no time, for no kind of job."""

from hypothesis import given, settings

from tests.property import sites


@settings(max_examples=80)
@given(
    nodes=sites.nodes(),
    policy=sites.policies(),
    jobs=sites.submissions(sites.specs(), most=16),
    starts=sites.hosts,
)
def test_no_story_of_mixed_jobs_ever_takes_more_than_there_is(nodes, policy, jobs, starts):
    stage = sites.hosted(nodes, policy, starts)

    sites.play(stage, jobs)

    assert stage.cluster.live.where == {}
