"""Jobs through the whole core on a virtual clock: start times that can be worked out by hand."""

import msgspec
import pytest

from rota.core.changes import events as ev
from rota.core.changes.invariants import check
from rota.core.facts.parents import Dependency, DependencyKind
from rota.core.facts.policy import PreemptMode
from rota.core.facts.resources import Request
from rota.core.facts.states import JobState
from rota.core.facts.tenant import Queue
from rota.core.words.presets import preset
from rota.sim.cluster.run import Particulars, play
from rota.sim.trace import TraceJob
from rota.testing.stage import node, spec

FOUR_CPUS = (node("a", cpus=4),)


def job(number, submit_s, run_s, cpus, estimate_s=0, **words):
    return TraceJob(number, submit_s, run_s, cpus, estimate_s=estimate_s or run_s, **words)


def starts(run):
    return {job.id: start_s for job, start_s in zip(run.jobs, run.start_s, strict=True)}


def test_strict_order_lets_nothing_pass_a_job_that_does_not_fit():
    jobs = [job(1, 0, 100, 3), job(2, 1, 50, 4), job(3, 2, 10, 1)]

    run = play(jobs, FOUR_CPUS, preset("fcfs"))

    assert starts(run) == {1: 0, 2: 100, 3: 150}
    assert run.end_s == [100, 150, 160]


def test_easy_lets_a_short_job_pass_and_holds_a_long_one_back():
    jobs = [job(1, 0, 100, 3), job(2, 1, 50, 4), job(3, 2, 90, 1), job(4, 3, 98, 1)]

    run = play(jobs, FOUR_CPUS, preset("easy"))

    assert starts(run) == {1: 0, 2: 100, 3: 2, 4: 150}


def test_whole_numbers_stay_whole():
    run = play([job(1, 3, 7, 4), job(2, 4, 5, 4)], FOUR_CPUS, preset("fcfs"))

    assert [type(start_s) for start_s in (*run.start_s, *run.end_s)] == [int] * 4


def test_a_job_that_outstays_its_estimate_is_killed_or_goes_on():
    jobs = [job(1, 0, 100, 4, estimate_s=60), job(2, 1, 10, 4)]

    killed = play(jobs, FOUR_CPUS, preset("easy"))
    extended = play(jobs, FOUR_CPUS, preset("easy"), overrun="extend")

    assert (starts(killed)[2], killed.killed) == (60, [0])
    assert (starts(extended)[2], extended.killed) == (100, [])


def test_jobs_larger_than_the_machine_are_left_out_and_counted():
    run = play([job(1, 0, 10, 5), job(2, 0, 10, 4)], FOUR_CPUS, preset("fcfs"))

    assert (run.too_large, starts(run)) == (1, {2: 0})


def test_a_gang_starts_on_several_nodes_at_once():
    nodes = (node("a", gpus=2), node("b", gpus=2))
    pair = Request(cpu_milli=1000, device="gpu", device_count=2)
    jobs = [
        TraceJob(1, 0, 10, 2, request=pair, tasks=1),
        TraceJob(2, 1, 10, 4, request=pair, tasks=2),
    ]

    run = play(jobs, nodes, preset("fcfs"))

    assert starts(run) == {1: 0, 2: 10}
    assert sorted(run.nodes[1].split(",")) == ["a", "b"]
    assert (run.capacity, run.unit) == (4, "GPUs")


def test_one_pass_per_event_starts_who_came_first_although_a_better_one_comes_at_that_instant():
    jobs = [job(1, 5, 100, 4), job(2, 5, 1, 4)]

    together = play(jobs, FOUR_CPUS, preset("sjf"))
    one_by_one = play(jobs, FOUR_CPUS, preset("sjf"), events="single")

    assert starts(together) == {1: 6, 2: 5}
    assert starts(one_by_one) == {1: 5, 2: 105}


def preemptive(mode):
    policy = preset("preemptive")
    rules = msgspec.structs.replace(
        policy.preempt, mode=mode, min_runtime_s=0, only_willing=False, grace_s=0
    )
    return msgspec.structs.replace(policy, preempt=rules)


@pytest.mark.parametrize(
    ("mode", "lost_s", "end_s"),
    [(PreemptMode.REQUEUE, 4 * 30, 140), (PreemptMode.CHECKPOINT, 0, 110)],
)
def test_who_gives_way_begins_again_unless_his_work_is_saved(mode, lost_s, end_s):
    jobs = [job(1, 0, 100, 4, priority=10), job(2, 30, 10, 4, priority=90)]

    run = play(jobs, FOUR_CPUS, preemptive(mode))

    assert starts(run) == {1: 40, 2: 30}
    assert run.end_s[0] == end_s
    assert (run.lost_s, run.preemptions) == (lost_s, [1, 0])
    assert run.pieces == [(0, 0, 30), (0, 40, end_s)]


def test_whoever_is_cancelled_by_an_eviction_does_not_come_back():
    jobs = [job(1, 0, 100, 4, priority=10), job(2, 30, 10, 4, priority=90)]

    run = play(jobs, FOUR_CPUS, preemptive(PreemptMode.CANCEL))

    assert dict(zip([job.id for job in run.jobs], run.end_s, strict=True)) == {1: 30, 2: 40}


def test_who_stands_still_for_another_loses_nothing_and_goes_on_afterwards():
    jobs = [job(1, 0, 100, 4, priority=10), job(2, 30, 10, 4, priority=90)]

    run = play(jobs, FOUR_CPUS, preemptive(PreemptMode.SUSPEND))

    assert starts(run) == {1: 0, 2: 30}
    assert (run.end_s, run.lost_s) == ([110, 40], 0)
    assert run.pieces == [(0, 0, 30), (0, 40, 110)]


def known(wish, **words):
    return Particulars(spec=msgspec.structs.replace(wish, grace_s=0), **words)


def test_a_child_waits_for_its_parent_and_goes_with_it_when_it_fails():
    after_ok = (Dependency(DependencyKind.AFTER_OK, 1),)
    after_any = (Dependency(DependencyKind.AFTER_ANY, 1),)
    jobs = [job(1, 0, 20, 1), job(2, 1, 5, 1), job(3, 1, 5, 1)]
    details = {
        1: known(spec(), ends=JobState.FAILED),
        2: known(spec(dependencies=after_ok)),
        3: known(spec(dependencies=after_any)),
    }

    run = play(jobs, FOUR_CPUS, preset("fifo"), particulars=details)

    assert starts(run) == {1: 0, 3: 20}
    assert run.extra["never_started"] == 1


def test_a_job_waits_for_its_begin_and_leaves_when_it_is_cancelled():
    jobs = [job(1, 0, 50, 4), job(2, 1, 10, 4), job(3, 2, 10, 4), job(4, 3, 10, 4)]
    details = {
        2: known(spec(cpus=4), cancel_s=30.0),
        3: known(spec(cpus=4), eligible_s=200.0),
        4: known(spec(cpus=4), cancel_s=55.0),
    }

    run = play(jobs, FOUR_CPUS, preset("fcfs"), particulars=details)

    assert starts(run) == {1: 0, 3: 200, 4: 50}
    assert dict(zip([job.id for job in run.jobs], run.end_s, strict=True))[4] == 55


def test_a_limit_of_a_known_job_stops_it_or_is_only_what_it_said():
    jobs = [job(1, 0, 100, 4), job(2, 1, 10, 4)]
    details = {1: known(spec(cpus=4, time_limit_s=60))}

    killed = play(jobs, FOUR_CPUS, preset("easy"), particulars=details)
    extended = play(jobs, FOUR_CPUS, preset("easy"), particulars=details, overrun="extend")

    assert (starts(killed)[2], killed.killed) == (60, [0])
    assert (starts(extended)[2], extended.end_s[0]) == (100, 100)


def test_facts_of_the_site_hold_for_what_is_played():
    jobs = [job(1, 0, 10, 1, queue="one"), job(2, 0, 10, 1, queue="one"), job(3, 0, 10, 1)]
    site = [ev.QueueSet(queue=Queue(name="one", max_running=1))]

    run = play(jobs, FOUR_CPUS, preset("fifo"), site=site)

    assert starts(run) == {1: 0, 2: 10, 3: 0}


def test_fair_share_lets_whoever_used_less_go_first():
    jobs = [
        job(1, 0, 100, 4, user="ann"),
        job(2, 1, 10, 4, user="ann"),
        job(3, 2, 10, 4, user="bo"),
    ]

    run = play(jobs, FOUR_CPUS, preset("fairshare-easy"))

    assert starts(run) == {1: 0, 2: 110, 3: 100}


def test_the_invariants_hold_at_every_moment_and_a_second_run_is_the_same():
    jobs = [
        job(n, n * 3, 5 + n * 7 % 40, 1 + n % 4, user=f"u{n % 3}", priority=10 * (n % 10))
        for n in range(1, 60)
    ]

    first = play(
        jobs, FOUR_CPUS, preemptive(PreemptMode.REQUEUE), watch=lambda _, cluster: check(cluster)
    )
    second = play(jobs, FOUR_CPUS, preemptive(PreemptMode.REQUEUE))

    assert len(first.jobs) == len(jobs)
    assert (first.start_s, first.end_s) == (second.start_s, second.end_s)
