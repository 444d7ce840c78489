"""The bounds on waiting of docs/how-it-decides.md: how long a job waits at most, by policy."""

import pytest
from hypothesis import given, settings

from rota.core.facts.policy import DEFAULT
from rota.core.words.presets import PRESETS
from rota.testing.stage import Stage, node, spec
from tests.property import sites
from tests.property.test_backfill import feasible

nodes_of_time = sites.nodes(least=1, most=3, plain=True)
queues = sites.submissions(sites.simple_specs(), most=14)


def places(stage: Stage, jobs: list[sites.Submission]) -> dict[int, int]:
    """Play the story; how many jobs stood before each one when it came."""
    for job in jobs:
        stage.submit_later(job.at_s, job.spec, job.runs_s)
    found: dict[int, int] = {}
    more = True
    while more:
        came = [job for job in range(1, stage.cluster.ids.next) if job not in found]
        waiting = len([job for job in stage.waiting if job not in came])
        # Those that came together stand in the order of their ids.
        found |= {job: waiting + len([j for j in came if j < job]) for job in came}
        more = stage.step()
    return found


@pytest.mark.parametrize(
    ("name", "delay_s"),
    [
        *(("fcfs", 0), ("easy", 0), ("easy-sjbf", 0), ("conservative", 0)),
        *(("conservative-rebuild", 0), ("aggressive", 3600)),
    ],
)
@settings(max_examples=25)
@given(nodes=nodes_of_time, jobs=queues)
def test_in_the_order_of_submission_nobody_waits_longer_than_its_place_times_the_longest_limit(
    name, delay_s, nodes, jobs
):
    stage = Stage(nodes, PRESETS[name])
    able = [job for job in jobs if feasible(stage, job.spec)]
    longest_s = max((job.spec.time_limit_s for job in able), default=0)

    before = places(stage, able)

    for job, submission in zip(sorted(before), able, strict=True):
        waited_s = stage.started_s[job] - stage.begin_s - submission.at_s
        assert waited_s <= (before[job] + 1) * (longest_s + delay_s)


def test_under_default_a_shorter_job_passes_only_if_it_is_due_earlier():
    stage = Stage([node("n0"), node("n1")], PRESETS["default"], checked=False)
    for number in range(150):
        # Of the same user and priority: only their length brings them before the wide one.
        stage.submit_later(number * 40.0, spec(cpus=4, time_limit_s=60))
    stage.submit_later(50.0, spec(cpus=4, tasks=2, time_limit_s=100))

    stage.play()

    wide, longest_s = 3, 100.0
    due_later_s = DEFAULT.order.due_factor * (longest_s - 60.0)
    assert stage.started_s[wide] <= stage.begin_s + 50.0 + due_later_s + 2 * longest_s
