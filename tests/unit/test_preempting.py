"""Preemption by whole passes: who may search, what one search says about others, and how far."""

from typing import Any

from rota.core.changes import events as ev
from rota.core.facts.placing import Affinity, Placement
from rota.core.facts.policy import OrderRules, Policy, PreemptRules
from rota.core.facts.tenant import Limits, Project, Quota, Reservation
from rota.testing.stage import Stage, node, spec

HOUR_S = 3600


def stage_of(*nodes: Any, order: OrderRules | None = None, **rules: Any) -> Stage:
    """A site on which everybody may be evicted at once."""
    rules = {"enabled": True, "min_runtime_s": 0, "only_willing": False} | rules
    return Stage(nodes, Policy(preempt=PreemptRules(**rules), order=order or OrderRules()))


def lend(stage: Stage, **cpus: int) -> None:
    """Projects with so many CPUs of their own; what is idle beyond that is lent."""
    for name, count in cpus.items():
        quota = Quota(soft=Limits(cpu_milli=count * 1000), borrow=True)
        stage.tell(ev.ProjectSet(project=Project(name=name, quota=quota)))


def run_each(stage: Stage, *cpus: int, **wishes: Any) -> list[int]:
    """Jobs of these sizes that run."""
    wishes = {"time_limit_s": 100 * HOUR_S} | wishes
    jobs = [stage.submit(spec(cpus=count, **wishes)) for count in cpus]
    stage.run()
    assert all(stage.cluster.jobs[job].started_s for job in jobs)
    stage.now_s += 10
    return jobs


def evicted(stage: Stage) -> list[int]:
    return [eviction.job for _, plan in stage.plans for eviction in plan.evictions]


def test_a_long_job_that_may_evict_nobody_does_not_keep_a_short_one_from_evicting():
    stage = stage_of(node("a", cpus=4))
    (low,) = run_each(stage, 4, priority=10)
    begin_s = stage.now_s + HOUR_S
    stage.reserve(Reservation(1, "bob", begin_s, begin_s + HOUR_S, nodes=("a",)))
    stage.submit(spec(cpus=4, priority=95, time_limit_s=10 * HOUR_S))
    short = stage.submit(spec(cpus=4, priority=90, time_limit_s=600))

    stage.run()

    assert evicted(stage) == [low]
    assert stage.started_s[short] == stage.now_s


def test_a_borrower_that_may_reclaim_nothing_does_not_keep_an_account_from_reclaiming():
    stage = stage_of(node("a", cpus=8), order=OrderRules(wait_max_s=100))
    lend(stage, owner=4, borrower=4, overdue=0)
    run_each(stage, *[1] * 8, priority=50, project="borrower")
    stage.submit(spec(cpus=1, priority=50, project="overdue"))
    stage.now_s += 200
    claims = stage.submit(spec(cpus=1, priority=50, project="owner", time_limit_s=60))

    stage.run()

    assert len(evicted(stage)) == 1
    assert stage.started_s[claims] == stage.now_s


def test_room_that_a_victim_leaves_over_is_open_to_those_who_may_evict_nobody():
    stage = stage_of(node("a", cpus=4), order=OrderRules(primary="fifo"))
    (low,) = run_each(stage, 4, priority=10)
    stage.submit(spec(cpus=2, priority=10, user="ann"))
    stage.submit(spec(cpus=2, priority=90, user="ann"))
    late = stage.submit(spec(cpus=2, priority=10, user="bob"))

    stage.run()

    assert evicted(stage) == [low]
    assert stage.started_s[late] == stage.now_s


def test_room_that_a_victim_leaves_over_is_open_to_a_job_that_had_its_turn_before():
    stage = stage_of(node("a", cpus=4), order=OrderRules(primary="fifo"))
    (low,) = run_each(stage, 4, priority=10)
    first = stage.submit(spec(cpus=2, priority=10, user="ann"))
    stage.submit(spec(cpus=2, priority=90, user="ann"))

    stage.run()

    assert evicted(stage) == [low]
    assert stage.started_s[first] == stage.now_s


def test_no_more_is_reclaimed_than_was_lent():
    stage = stage_of(node("a", cpus=8))
    lend(stage, owner=4, borrower=4)
    run_each(stage, 3, project="owner", user="ann", priority=50)
    run_each(stage, 1, 1, 1, 1, 1, project="borrower", user="bob", priority=50)
    lend(stage, owner=7)
    stage.submit(spec(cpus=4, project="owner", user="ann", priority=50))

    stage.run()

    assert evicted(stage) == []


def test_what_was_lent_is_reclaimed_though_the_last_victim_is_larger_than_the_rest_of_the_loan():
    stage = stage_of(node("a", cpus=8))
    lend(stage, owner=4, borrower=4)
    small, large = run_each(stage, 1, 7, project="borrower", user="bob", priority=50)
    stage.submit(spec(cpus=4, project="owner", user="ann", priority=50))

    stage.run()

    assert evicted(stage) == [large]
    assert stage.cluster.jobs[small].live_attempts[0].stop_cause is None


def test_two_claimants_of_one_pass_reclaim_no_more_than_was_lent():
    stage = stage_of(node("a", cpus=4), node("b", cpus=4))
    lend(stage, owner=4, other=4, borrower=5)
    run_each(stage, 2, 2, 2, 2, project="borrower", user="bob", priority=50)
    first = stage.submit(spec(cpus=2, project="owner", user="ann", priority=50))
    stage.submit(spec(cpus=2, project="other", user="eve", priority=50))
    stage.submit(spec(cpus=2, project="owner", user="ann", priority=50))

    stage.run()

    assert len(evicted(stage)) == 2, "three CPUs were lent"
    assert first in stage.started_s


def test_a_later_pass_does_not_reclaim_again_what_is_being_given_back():
    stage = stage_of(node("a", cpus=4), node("b", cpus=4))
    lend(stage, owner=4, other=4, borrower=6)
    run_each(stage, 2, 2, 2, 2, project="borrower", user="bob", priority=50)
    stage.submit(spec(cpus=2, project="owner", user="ann", priority=50))
    stage.run()
    stage.now_s += 1

    stage.submit(spec(cpus=2, project="other", user="eve", priority=50))
    stage.run()

    assert len(evicted(stage)) == 1


def test_the_owner_of_a_reservation_evicts_a_job_of_lower_priority_inside_it():
    stage = stage_of(node("a", cpus=4))
    made = Reservation(1, "ann", stage.now_s, stage.now_s + 100 * HOUR_S, nodes=("a",))
    stage.reserve(made)
    (low,) = run_each(stage, 4, priority=10, user="ann")
    stage.submit(spec(cpus=4, priority=95, user="bob", time_limit_s=600))
    urgent = stage.submit(spec(cpus=4, priority=90, user="ann", time_limit_s=600))

    stage.run()

    assert evicted(stage) == [low]
    assert urgent in stage.started_s


def test_a_gang_may_have_more_victims_than_a_pass_looks_for():
    names = [f"n{number:02}" for number in range(20)]
    stage = stage_of(*(node(name, cpus=2) for name in names))
    low = run_each(stage, *[2] * 20, priority=10)
    gang = stage.submit(spec(cpus=2, tasks=20, priority=90))

    stage.run()

    assert sorted(evicted(stage)) == low
    assert gang in stage.started_s


def test_spread_tasks_may_have_more_victims_than_a_pass_looks_for():
    names = [f"n{number:02}" for number in range(40)]
    stage = stage_of(*(node(name, cpus=2) for name in names))
    run_each(stage, *[1] * 80, priority=10)
    gang = stage.submit(spec(cpus=1, tasks=40, priority=90, placement=Placement(node_count=20)))

    stage.run()

    assert len(evicted(stage)) == 40
    assert len(set(stage.nodes_of(gang))) == 20


def test_tasks_that_lie_two_by_two_empty_whole_nodes_and_evict_nobody_elsewhere():
    names = [f"n{number}" for number in range(6)]
    stage = stage_of(*(node(name, cpus=4) for name in names))
    lies = {}
    for _ in range(2):
        for name in names:
            wish = spec(cpus=2, priority=10, preemptible=True, placement=Placement(nodes=(name,)))
            lies[stage.submit(wish)] = name
        stage.run()
        # The first ones have more to lose: one task for each of the others would be cheapest.
        stage.now_s += 3600
    gang = stage.submit(spec(cpus=2, tasks=4, priority=90, placement=Placement(node_count=2)))

    stage.run()

    used = stage.nodes_of(gang)
    assert sorted(map(used.count, used)) == [2, 2, 2, 2]
    assert sorted(evicted(stage)) == [job for job in lies if lies[job] in used]


def test_a_job_that_may_shrink_gives_up_its_first_task_and_keeps_the_others():
    stage = stage_of(node("a", cpus=2), node("b", cpus=2))
    gang = stage.submit(spec(cpus=2, tasks=2, at_least=1, priority=10, time_limit_s=HOUR_S))
    stage.run()
    stage.now_s += 10
    first = Placement(nodes=(stage.nodes_of(gang)[0],))

    vip = stage.submit(spec(cpus=2, priority=90, placement=first, time_limit_s=HOUR_S))
    plan = stage.run()

    assert [(gone.job, gone.tasks) for gone in plan.evictions] == [(gang, (0,))]
    assert vip in stage.started_s
    assert gang not in stage.ended_s


def test_a_pass_that_has_evicted_its_share_leaves_the_next_claimants_to_a_pass_soon_after():
    stage = stage_of(node("a", cpus=4), max_per_pass=2, min_runtime_s=300)
    low = run_each(stage, 1, 1, 1, 1, priority=10)
    stage.now_s += 300
    for _ in range(4):
        stage.submit(spec(cpus=1, priority=90))

    plan = stage.run()
    at_once, waits_s = evicted(stage), plan.wake_s - stage.now_s
    stage.now_s = plan.wake_s
    stage.run()

    assert len(at_once) == 2
    assert 0 < waits_s < 60
    assert sorted(evicted(stage)) == low


def test_jobs_that_must_not_be_neighbours_do_not_meet_on_the_room_of_victims():
    stage = stage_of(node("a", cpus=4), node("b", cpus=4))
    run_each(stage, 4, 4, priority=10)
    apart = Placement(affinities=(Affinity("app", "web", apart=True),))
    wish = spec(cpus=1, priority=90, labels={"app": "web"}, placement=apart)
    jobs = [stage.submit(wish), stage.submit(wish)]

    stage.run()

    assert sorted(name for job in jobs for name in stage.nodes_of(job)) == ["a", "b"]
