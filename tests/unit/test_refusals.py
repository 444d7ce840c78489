"""Who is not asked again because the answer is known, and who is asked all the same."""

from rota.core.changes import events as ev
from rota.core.facts.job import Outcome
from rota.core.facts.states import Cause, JobState
from rota.core.facts.tenant import Queue
from rota.scheduling.later import promising
from rota.testing.stage import Stage, node, spec

CANCELLED = Outcome(JobState.CANCELLED, Cause.CANCELLED)


def promised(stage: Stage) -> list[int]:
    return [promise.job for promise in stage.run().promises]


def test_a_job_at_a_cap_takes_no_promise_from_the_one_behind_it():
    stage = Stage([node("a", cpus=6)])
    stage.tell(ev.QueueSet(queue=Queue("side", max_running=1)))
    stage.submit(spec(cpus=1, queue="side", time_limit_s=9000))
    stage.submit(spec(cpus=4, time_limit_s=1000))
    stage.run()
    first = stage.submit(spec(cpus=5, priority=75))
    stage.submit(spec(cpus=5, priority=60, queue="side"))
    behind = stage.submit(spec(cpus=5, priority=50))
    assert promised(stage) == [first]

    stage.tell(ev.JobSettled(job=first, outcome=CANCELLED))
    small = stage.submit(spec(cpus=1, priority=25, time_limit_s=5000))

    assert promised(stage) == [behind]
    assert small in stage.waiting


def test_a_shorter_job_fits_before_a_promise_that_keeps_a_longer_one_of_its_shape_out():
    stage = Stage([node("a", cpus=4)])
    stage.submit(spec(cpus=3, time_limit_s=1000))
    stage.run()
    stage.submit(spec(cpus=4, priority=75))
    long = stage.submit(spec(cpus=1, priority=50, time_limit_s=5000))
    longer = stage.submit(spec(cpus=1, priority=45, time_limit_s=9000))
    short = stage.submit(spec(cpus=1, priority=40, time_limit_s=500))

    stage.run()

    assert short in stage.running
    assert {long, longer} <= set(stage.waiting)


def test_a_shorter_job_that_comes_later_fits_before_the_promise_too():
    stage = Stage([node("a", cpus=4)])
    stage.submit(spec(cpus=3, time_limit_s=1000))
    stage.run()
    stage.submit(spec(cpus=4, priority=75))
    long = stage.submit(spec(cpus=1, priority=50, time_limit_s=5000))
    stage.run()
    short = stage.submit(spec(cpus=1, priority=40, time_limit_s=500))

    stage.run()

    assert short in stage.running
    assert long in stage.waiting


def test_on_a_large_site_whom_a_claim_kept_out_starts_when_the_claim_goes(monkeypatch):
    # Any number of lanes counts as many here: promises stand for a second.
    monkeypatch.setattr(promising, "MANY_FULL", 0)
    stage = Stage([node("a", cpus=4), node("b", cpus=4)])
    stage.submit(spec(cpus=3, time_limit_s=1000))
    stage.submit(spec(cpus=4, time_limit_s=9000))
    stage.run()
    elsewhere = next(job for job in stage.running if stage.nodes_of(job) == ["b"])
    large = stage.submit(spec(cpus=4, priority=75))
    beside = stage.submit(spec(cpus=1, priority=50, time_limit_s=5000))
    stage.run()
    assert stage.waiting == [large, beside]

    stage.now_s += 0.5
    stage.end(elsewhere)
    stage.run()

    assert stage.waiting == []
