"""Questions leave no trace: a site that is asked why its jobs wait decides as one that is not."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.facts.tenant import Reservation
from rota.core.words.presets import PRESETS
from rota.scheduling.answers.advice import explain_and_advise
from rota.scheduling.answers.explain import Inquiry, explain
from rota.testing.stage import Stage
from tests.property import sites

rules = st.one_of(sites.policies(), st.sampled_from(sorted(PRESETS)).map(PRESETS.__getitem__))


def a_site(nodes, policy, jobs, kept_s: int) -> Stage:
    """As the controller runs it: a promise that binds nobody is worked out when it is asked for."""
    stage = Stage(nodes, policy)
    for job in jobs:
        stage.submit_later(job.at_s, job.spec, job.runs_s)
    if kept_s:
        start_s = stage.begin_s + kept_s
        stage.reserve(Reservation(1, "", start_s, start_s + 30, nodes=("n0",)))
    return stage


def all_told(stage: Stage) -> list[object]:
    """What was decided and promised, when to look again, and how many looks it took."""
    scheduler = stage.scheduler
    return [*stage.plans, scheduler.waits.next_s, scheduler.looks]


@settings(max_examples=60)
@given(
    nodes=sites.nodes(most=3),
    policy=rules,
    jobs=sites.submissions(sites.specs(), most=12),
    kept_s=st.sampled_from([0, 0, 25]),
)
def test_a_site_that_is_asked_why_between_passes_decides_as_one_that_is_not(
    nodes, policy, jobs, kept_s
):
    asked, left_alone = (a_site(nodes, policy, jobs, kept_s) for _ in range(2))

    more = True
    while more:
        for job in asked.waiting:
            explain(asked.scheduler, job, asked.now_s)
            Inquiry(asked.scheduler, asked.now_s).reason(job)
        for job in asked.waiting[:1]:
            explain_and_advise(asked.scheduler, job, asked.now_s)
        more = asked.step()

        assert left_alone.step() == more
        assert all_told(asked) == all_told(left_alone)
