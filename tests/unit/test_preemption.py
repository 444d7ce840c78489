"""Who gives way to whom: the search for victims, case by case."""

from itertools import combinations
from typing import Any

import pytest

from rota.core.changes import events as ev
from rota.core.facts.job import Role, ServiceClass
from rota.core.facts.node import Allocation
from rota.core.facts.placing import Placement
from rota.core.facts.policy import PreemptMode
from rota.core.facts.resources import Amount, Request
from rota.core.facts.states import Cause
from rota.core.facts.tenant import Queue
from rota.scheduling.api import Eviction, Victim
from rota.scheduling.evict.cheapest_set import CheapestSet
from rota.scheduling.evict.lending import Lenders
from rota.scheduling.evict.search import Takeover
from rota.scheduling.evict.unit import Unit, fits_in_set
from rota.scheduling.evict.victims import LostWork
from tests.support.running import NOW_S, Lent, Site


def find(site: Site, name: str = "vip", **more: Any) -> Takeover | None:
    return site.find(name, sorted(site.cluster.nodes), **more)


def victims(site: Site, name: str = "vip", **more: Any) -> list[str]:
    """The names of those who give way."""
    takeover = find(site, name, **more)
    assert takeover is not None
    known = {number: label for label, number in site.names.items()}
    return [known[eviction.job] for eviction in takeover.evictions]


def box(**rules: Any) -> Site:
    site = Site(**rules)
    site.add_node(gpus=4)
    return site


def test_a_job_of_higher_priority_gets_the_room_of_one_of_lower():
    site = box()
    low = site.run("low", gpus=4)
    vip = site.submit("vip", gpus=2, priority=90)

    takeover = find(site)

    assert takeover is not None
    assert takeover.evictions == (Eviction(low.id, PreemptMode.REQUEUE, vip.id),)
    assert takeover.after == (low.live_attempts[0].uid,)
    assert [(a.node, a.devices) for a in takeover.allocations] == [("box", (0, 1))]


@pytest.mark.parametrize(("priority", "found"), [(50, False), (59, False), (60, True)])
def test_the_priority_must_be_higher_by_the_gap(priority: int, found: bool):
    site = box()
    site.run("low", gpus=4)
    site.submit("vip", gpus=1, priority=priority)

    assert (find(site) is not None) is found


def test_without_a_gap_the_priority_must_still_be_strictly_higher():
    site = box(gap=0)
    site.run("low", gpus=4)
    site.submit("equal", gpus=1, priority=50)
    site.submit("higher", gpus=1, priority=51)

    assert find(site, "equal") is None
    assert victims(site, "higher") == ["low"]


def test_a_job_that_is_not_preemptible_is_spared_unless_the_policy_says_otherwise():
    willing_only, anybody = box(), box(only_willing=False)
    for site in (willing_only, anybody):
        site.run("low", gpus=4, preemptible=False)
        site.submit("vip", gpus=1, priority=90)

    assert find(willing_only) is None
    assert victims(anybody) == ["low"]


def test_a_guaranteed_job_is_never_evicted():
    site = box(only_willing=False)
    site.run("safe", gpus=4, service=ServiceClass.GUARANTEED)
    site.submit("vip", gpus=1, priority=100)

    assert find(site) is None


def test_a_best_effort_job_gives_way_to_any_other_class_whatever_the_priorities():
    site = box()
    site.run("cheap", gpus=4, preemptible=False, service=ServiceClass.BEST_EFFORT, priority=90)
    site.submit("vip", gpus=1, priority=10)
    site.submit("another", gpus=1, priority=95, service=ServiceClass.BEST_EFFORT)

    assert victims(site) == ["cheap"]
    assert find(site, "another") is None


def test_a_best_effort_job_takes_nothing_from_jobs_with_a_claim():
    site = box()
    site.run("low", gpus=4, priority=1)
    site.submit("vip", gpus=1, priority=100, service=ServiceClass.BEST_EFFORT)

    assert find(site) is None


def test_best_effort_jobs_go_before_others_however_much_they_lose():
    site = box()
    site.run("young", gpus=2, start_s=NOW_S - 10)
    site.run("old", gpus=2, service=ServiceClass.BEST_EFFORT)
    site.submit("vip", gpus=2, priority=90)

    assert victims(site) == ["old"]


def test_a_job_that_started_only_just_now_is_spared():
    site = box(min_runtime_s=300)
    site.run("young", gpus=2, start_s=NOW_S - 299)
    site.submit("vip", gpus=3, priority=90)

    assert find(site) is None
    site.run("grown", gpus=2, start_s=NOW_S - 300)
    assert find(site) is None
    site.submit("smaller", gpus=2, priority=90)
    assert victims(site, "smaller") == ["grown"]


def test_it_is_known_when_the_first_of_the_young_no_longer_is():
    site = box(min_runtime_s=300)
    site.run("younger", gpus=2, start_s=NOW_S - 10)
    site.run("young", gpus=2, start_s=NOW_S - 200)
    site.submit("vip", gpus=2, priority=90)
    preemption = site.preemption()

    assert site.find("vip", ["box"], preemption) is None
    assert preemption.candidates.ripe_s == NOW_S + 100


def test_an_attempt_that_did_not_start_yet_is_spared():
    site = box()
    job = site.submit("placed", gpus=4, preemptible=True)
    site.place(job, 0, site.rooms()["box"].choose(job.spec.request))
    site.submit("vip", gpus=1, priority=90)

    assert find(site) is None


def test_a_job_that_gave_way_often_enough_is_spared():
    site = box(max_per_job=2)
    job = site.run("often", gpus=4)
    job.preemptions = 1
    site.submit("vip", gpus=1, priority=90)
    before = victims(site)

    job.preemptions = 2

    assert before == ["often"]
    assert find(site) is None


def test_queues_can_be_kept_out_on_both_sides():
    site = box()
    site.apply(ev.QueueSet(queue=Queue(name="meek", preempts=False)))
    site.apply(ev.QueueSet(queue=Queue(name="safe", preemptible=False)))
    site.run("low", gpus=2)
    site.run("kept", gpus=2, queue="safe")
    site.submit("vip", gpus=3, priority=90)
    site.submit("modest", gpus=1, priority=90, queue="meek")

    assert find(site) is None
    assert find(site, "modest") is None


def test_the_job_that_loses_least_work_goes():
    site = box()
    site.run("old", gpus=2)
    site.run("young", gpus=2, start_s=NOW_S - 60)
    site.submit("vip", gpus=2, priority=90)

    assert victims(site) == ["young"]


def test_saved_work_is_not_lost():
    site = box()
    old = site.run("old", gpus=2)
    site.run("young", gpus=2, start_s=NOW_S - 60)
    site.apply(ev.CheckpointReported(job=old.id, saved_s=NOW_S - 5))
    site.submit("vip", gpus=2, priority=90)

    assert victims(site) == ["old"]


def test_a_costly_restart_counts_as_lost_work():
    site = box()
    site.run("slow to start", gpus=2, start_s=NOW_S - 60, restart_cost_s=600)
    site.run("quick to start", gpus=2, start_s=NOW_S - 300)
    site.submit("vip", gpus=2, priority=90)

    assert victims(site) == ["quick to start"]


def test_whoever_gave_way_before_is_dearer():
    site = box()
    site.run("again", gpus=2, start_s=NOW_S - 300).preemptions = 2
    site.run("never", gpus=2, start_s=NOW_S - 500)
    site.submit("vip", gpus=2, priority=90)

    assert victims(site) == ["never"]


def test_lost_work_is_weighed_by_the_largest_share_of_the_cluster():
    rule = LostWork(Amount(10_000, 100_000, 0, 4000), nodes=10)
    victim = Victim(1, "ann", 50.0, 200.0, 99.0, Amount(1000, 50_000, 0, 1000), 1, 100.0)

    assert rule.cost(victim) == pytest.approx((0.5 * 200 + 60 / 10) * 2)


def test_of_two_sets_that_lose_as_much_work_the_one_with_fewer_victims_goes():
    site = box()
    site.run("big", gpus=2, start_s=NOW_S - 500)
    site.run("small one", gpus=1, start_s=NOW_S - 499)
    site.run("small two", gpus=1, start_s=NOW_S - 499)
    site.submit("vip", gpus=2, priority=90)

    assert victims(site) == ["big"]


def test_two_small_jobs_go_rather_than_a_dearer_big_one():
    site = box()
    site.run("big", on="box", gpus=2)
    site.run("small one", gpus=1, start_s=NOW_S - 10)
    site.run("small two", gpus=1, start_s=NOW_S - 10)
    site.submit("vip", gpus=2, priority=90)

    assert victims(site) == ["small one", "small two"]


def test_no_victim_is_taken_that_is_not_needed():
    site = box()
    site.run("one", gpus=1, start_s=NOW_S - 10)
    site.run("three", gpus=3)
    site.submit("vip", gpus=3, priority=90)

    assert victims(site) == ["three"]


def test_a_rule_of_a_site_decides_who_is_cheap():
    class OldestFirst:
        name = "oldest-first"

        def cost(self, victim: Victim) -> float:
            return 1e6 - victim.ran_s

    site = box()
    site.run("old", gpus=2)
    site.run("young", gpus=2, start_s=NOW_S - 60)
    site.submit("vip", gpus=2, priority=90)

    takeover = site.find("vip", ["box"], site.preemption(rule=OldestFirst()))

    assert takeover is not None
    assert [eviction.job for eviction in takeover.evictions] == [site.names["old"]]


def test_a_gang_gives_way_as_a_whole_and_only_its_attempts_nearby_are_waited_for():
    site = Site()
    for name in ("a", "b"):
        site.add_node(name, gpus=4)
    gang = site.run("gang", on=("a", "b"), gpus=4)
    site.submit("vip", gpus=1, priority=90)

    takeover = find(site)

    assert takeover is not None
    assert [(e.job, e.tasks) for e in takeover.evictions] == [(gang.id, ())]
    assert takeover.after == (gang.tasks[0].attempts[0].uid,)


def test_a_gang_gets_room_on_several_nodes_or_nobody_is_evicted():
    site = Site()
    for name in ("a", "b", "c"):
        site.add_node(name, gpus=2)
        site.run(f"low {name}", on=name, gpus=2)
    site.run("kept", on="c", gpus=0, cpus=1, preemptible=False)
    site.submit("three", tasks=3, gpus=2, priority=90)
    site.submit("four", tasks=4, gpus=2, priority=90)

    assert victims(site, "three") == ["low a", "low b", "low c"]
    assert find(site, "four") is None


def test_a_gang_uses_free_room_first():
    site = Site()
    for name in ("a", "b", "c"):
        site.add_node(name, gpus=2)
    site.run("low a", on="a", gpus=2)
    site.run("low b", on="b", gpus=2, start_s=NOW_S - 10)
    site.submit("vip", tasks=2, gpus=2, priority=90)

    takeover = find(site)

    assert takeover is not None
    assert [eviction.job for eviction in takeover.evictions] == [site.names["low b"]]
    assert sorted(a.node for a in takeover.allocations) == ["b", "c"]


def test_an_elastic_job_shrinks_before_anybody_is_evicted_whole():
    site = box()
    elastic = site.run("elastic", on=("box",) * 4, gpus=1, min_tasks=2, preemptible=False)
    site.submit("vip", gpus=2, priority=90)

    takeover = find(site)

    assert takeover is not None
    assert [(e.job, e.tasks) for e in takeover.evictions] == [(elastic.id, (2, 3))]


def test_an_elastic_job_keeps_its_least_size_unless_it_is_preemptible():
    stubborn, willing = box(), box()
    stubborn.run("elastic", on=("box",) * 4, gpus=1, min_tasks=2, preemptible=False)
    willing.run("elastic", on=("box",) * 4, gpus=1, min_tasks=2)
    for site in (stubborn, willing):
        site.submit("vip", gpus=3, priority=90)

    assert find(stubborn) is None
    takeover = find(willing)
    assert takeover is not None
    assert [e.tasks for e in takeover.evictions] == [()]


def test_room_that_is_being_left_anyway_is_waited_for_before_anybody_is_evicted():
    site = box()
    leaver = site.run("leaver", gpus=2)
    site.run("low", gpus=2, start_s=NOW_S - 1)
    site.stop("leaver")
    site.submit("vip", gpus=2, priority=90)

    takeover = find(site)

    assert takeover is not None
    assert takeover.evictions == ()
    assert takeover.after == (leaver.tasks[0].attempts[0].uid,)


def test_the_room_of_a_leaver_is_not_promised_twice():
    site = box()
    leaver = site.run("leaver", gpus=4)
    site.stop("leaver", Cause.PREEMPTED)
    first = site.submit("first", gpus=3, priority=90)
    held = site.rooms()["box"]
    held.give_back(leaver.tasks[0].attempts[0].allocation)
    site.place(first, 0, held.choose(first.spec.request), (leaver.live_attempts[0].uid,))
    site.submit("small", gpus=1, priority=90)
    site.submit("large", gpus=2, priority=90)

    small = find(site, "small")

    assert small is not None
    assert small.evictions == ()
    assert small.allocations[0].devices == (3,)
    assert not set(small.allocations[0].cpus) & set(first.live_attempts[0].allocation.cpus)
    assert find(site, "large") is None


def test_jobs_of_one_pass_share_what_a_big_victim_leaves():
    site = box()
    site.run("big", gpus=4)
    preemption = site.preemption()
    decided = []
    for number in range(5):
        name = f"vip {number}"
        site.submit(name, gpus=1, priority=90)
        takeover = site.find(name, ["box"], preemption)
        if takeover is not None:
            preemption.commit(takeover)
            for allocation in takeover.allocations:
                preemption.rooms[allocation.node].take(allocation)
        decided.append(takeover)

    assert [len(t.evictions) for t in decided if t is not None] == [1, 0, 0, 0]
    assert decided[4] is None
    granted = [t.allocations[0] for t in decided if t is not None]
    assert sorted(a.devices for a in granted) == [(0,), (1,), (2,), (3,)]
    assert len({cpu for a in granted for cpu in a.cpus}) == 4


def test_room_that_one_shape_makes_free_is_found_by_the_next_job_of_another():
    site = Site()
    site.add_node("a", gpus=8)
    site.add_node("b", gpus=8)
    site.run("big", on="a", gpus=8)
    for number in range(4):
        site.run(f"small {number}", on="b", gpus=2, start_s=NOW_S - 10 - number)
    preemption = site.preemption()
    found = []
    for name, gpus, nodes in (("one", 2, "ab"), ("wide", 4, "a"), ("two", 2, "ab")):
        site.submit(name, gpus=gpus, priority=90)
        takeover = site.find(name, list(nodes), preemption)
        assert takeover is not None
        preemption.commit(takeover)
        for allocation in takeover.allocations:
            preemption.rooms[allocation.node].take(allocation)
        found.append([eviction.job for eviction in takeover.evictions])

    assert found == [[site.names["small 0"]], [site.names["big"]], []]


def test_borrowed_room_is_reclaimed_whatever_the_priorities_and_wishes():
    site = box()
    site.run("borrower", gpus=4, priority=90, preemptible=False, user="bob")
    site.submit("owner", gpus=1, priority=10)

    assert find(site, "owner") is None
    assert victims(site, "owner", lent=Lent(bob=1)) == ["borrower"]


@pytest.mark.parametrize(("lent", "found"), [(1, None), (2, ["one", "two"]), (3, ["one", "two"])])
def test_a_set_of_victims_reclaims_no_more_than_was_lent(lent: int, found: list[str] | None):
    site = box()
    for name in ("one", "two"):
        site.run(name, gpus=2, priority=90, user="bob")
    site.submit("owner", gpus=4, priority=10)

    takeover = find(site, "owner", lent=Lent(bob=lent))

    assert (takeover is None) == (found is None)
    if found is not None:
        assert victims(site, "owner", lent=Lent(bob=lent)) == found


def test_a_gang_on_many_nodes_reclaims_no_more_than_was_lent():
    site = Site()
    for number in range(40):
        site.add_node(f"n{number:02}", gpus=2)
        site.run(f"bob's {number}", on=f"n{number:02}", gpus=2, priority=90, user="bob")
    site.submit("three", tasks=3, gpus=2)

    assert find(site, "three", lent=Lent(bob=2)) is None
    assert len(victims(site, "three", lent=Lent(bob=3))) == 3


def test_a_job_never_evicts_itself():
    site = box()
    site.run("elastic", on=("box",) * 4, gpus=1, min_tasks=1)
    site.submit("same shape", tasks=4, gpus=1, min_tasks=1)

    assert site.find("elastic", ["box"], priority=90) is None
    assert site.find("same shape", ["box"], priority=90) is not None


def test_a_job_says_itself_how_it_gives_way():
    site = box(mode=PreemptMode.CHECKPOINT)
    site.run("own", gpus=2, preempt_mode=PreemptMode.CANCEL)
    site.run("default", gpus=2)
    site.submit("vip", gpus=4, priority=90)

    takeover = find(site)

    assert takeover is not None
    assert [e.mode for e in takeover.evictions] == [PreemptMode.CANCEL, PreemptMode.CHECKPOINT]


def test_shared_devices_are_freed_by_as_many_sharers_as_it_takes():
    site = Site()
    site.add_node(gpus=1)
    for name in ("one", "two", "three"):
        site.run(name, gpus=1, gpu_mem=12000, shared=True)
    site.submit("alone", gpus=1, priority=90)
    site.submit("beside", gpus=1, gpu_mem=20000, shared=True, priority=90)

    assert victims(site, "alone") == ["one", "two", "three"]
    assert len(victims(site, "beside")) == 2


def test_a_job_that_wants_the_node_for_itself_evicts_all_of_it_or_nobody():
    site = Site()
    for name in ("a", "b"):
        site.add_node(name)
    site.run("low a", on="a", start_s=NOW_S - 10)
    site.run("kept", on="a", preemptible=False)
    site.run("low b", on="b")
    site.submit("vip", priority=90, placement=Placement(exclusive=True))

    assert victims(site) == ["low b"]


def test_many_victims_on_one_node_are_pruned_to_those_needed():
    site = Site()
    site.add_node(cpus=16)
    for number in range(14):
        site.run(f"low {number}", start_s=NOW_S - number)
    site.submit("vip", cpus=6, priority=90)

    found = victims(site)

    assert found == [f"low {number}" for number in range(4)]


def test_the_cheapest_of_many_nodes_is_found():
    site = Site()
    for number in range(40):
        site.add_node(f"n{number:02}", gpus=2)
        site.run(f"low {number}", on=f"n{number:02}", gpus=2, start_s=NOW_S - 100 - number % 17)
    site.job("low 23").checkpoint_s = NOW_S - 1
    site.submit("vip", gpus=2, priority=90)

    assert victims(site) == ["low 23"]


def test_a_gang_on_many_nodes_takes_the_cheapest_of_them():
    site = Site()
    for number in range(40):
        site.add_node(f"n{number:02}", gpus=2)
        site.run(f"low {number}", on=f"n{number:02}", gpus=2, start_s=NOW_S - 100 - number)
    site.submit("vip", tasks=3, gpus=2, priority=90)

    assert victims(site) == ["low 0", "low 1", "low 2"]


def test_a_gang_does_not_go_to_a_node_that_it_may_not_have_though_its_victim_leaves_it():
    site = Site()
    for number in range(40):
        site.add_node(f"n{number:02}", gpus=2)
    site.run("pair", on=("n00", "n01"), gpus=2, start_s=NOW_S - 100)
    for number in range(2, 40):
        site.run(f"low {number}", on=f"n{number:02}", gpus=2, start_s=NOW_S - 5000 - number)
    site.submit("vip", tasks=2, gpus=2, priority=90)
    search, entry, names = site.preemption(), site.entry("vip"), sorted(site.cluster.nodes)

    found = search.find(entry, search.claimant(entry, 90.0), names, frozenset({"n00"}))

    assert found is not None
    assert sorted(held.node for held in found.allocations) == ["n01", "n02"]


def test_a_gang_takes_what_its_victim_leaves_elsewhere_before_it_waits_for_one_more_to_leave():
    site = Site()
    for number in range(40):
        site.add_node(f"n{number:02}", gpus=4)
    site.run("pair", on=("n00", "n01"), gpus=3, start_s=NOW_S - 100)
    site.run("leaver", on="n00", gpus=1)
    site.run("stays", on="n01", gpus=1, priority=90)
    for number in range(2, 40):
        site.run(f"low {number}", on=f"n{number:02}", gpus=4, start_s=NOW_S - 5000)
    site.stop("leaver")
    site.submit("vip", tasks=2, gpus=2, priority=90)

    found = find(site)

    assert found is not None
    assert [eviction.job for eviction in found.evictions] == [site.names["pair"]]
    assert [held.node for held in found.allocations] == ["n00", "n01"]


def test_a_gang_gets_a_device_whose_other_holder_it_evicts_already():
    site = Site()
    site.add_node(cpus=32, gpus=2)
    site.run("both", gpus=2, gpu_mem=10000, shared=True)
    site.run("one", gpus=1, gpu_mem=10000, shared=True)
    for number in range(12):
        site.run(f"beside {number}")
    site.submit("vip", tasks=2, gpus=1, priority=90)

    assert victims(site) == ["both", "one"]


def test_roles_of_different_size_are_placed_together():
    site = Site()
    site.add_node("a", gpus=4)
    site.add_node("b", gpus=4)
    site.run("low a", on="a", gpus=4)
    site.run("low b", on="b", gpus=3)
    driver = Role(name="driver", request=Request(cpu_milli=1000))
    worker = Role(
        name="worker", count=2, request=Request(cpu_milli=1000, device="gpu", device_count=2)
    )
    site.submit("vip", priority=90, roles=(driver, worker))

    takeover = find(site)

    assert takeover is not None
    assert [len(a.devices) for a in takeover.allocations] == [0, 2, 2]
    assert len(takeover.evictions) == 1


def test_the_cheapest_node_is_found_behind_many_that_only_look_cheaper():
    site = Site()
    for number in range(30):
        site.add_node(f"n{number:02}", cpus=4)
        for half in "ab":
            site.run(f"half {number}{half}", cpus=2, on=f"n{number:02}", start_s=NOW_S - 500)
    site.add_node("last", cpus=4)
    site.run("whole", cpus=3, on="last", start_s=NOW_S - 600)
    site.run("kept", cpus=1, on="last", priority=90)
    site.submit("vip", cpus=3, priority=90)

    assert victims(site) == ["whole"]


def test_each_role_keeps_the_node_that_was_made_free_for_it():
    site = Site()
    for name in ("large", "small", *(f"kept {number:02}" for number in range(33))):
        site.add_node(name, cpus=1 if name == "small" else 4)
        site.run(f"on {name}", cpus=1 if name == "small" else 4, on=name,
                 priority=90 if name.startswith("kept") else 10)  # fmt: skip
    roles = tuple(
        Role(name=name, request=Request(cpu_milli=cpus * 1000))
        for name, cpus in (("a", 1), ("b", 4))
    )
    site.submit("vip", roles=roles, priority=90)

    takeover = find(site)

    assert takeover is not None
    assert [allocation.node for allocation in takeover.allocations] == ["small", "large"]


def test_a_job_that_gives_up_tasks_lends_no_cpus_in_the_same_pass():
    site = Site(mode=PreemptMode.SUSPEND)
    site.add_node(cpus=3, mem=3000)
    site.run("low", on=("box",) * 3, cpus=1, mem=1000, min_tasks=1, priority=10)
    site.submit("needs memory", cpus=0.5, mem=1000, priority=90)
    site.submit("needs cpus", cpus=2, priority=90)
    leave = site.preemption()
    lend = site.preemption(candidates=Lenders)
    lend.rooms = leave.rooms
    takeover = find(site, "needs memory", preemption=leave)
    assert takeover is not None

    for search in (leave, lend):
        search.commit(takeover)
    leave.rooms["box"].take(takeover.allocations[0])

    assert find(site, "needs cpus", preemption=lend) is None


def test_an_elastic_job_evicts_nobody_beyond_its_least_size():
    site = box()
    site.run("low", gpus=2)
    site.run("lower", gpus=1, priority=10)
    site.submit("vip", tasks=4, min_tasks=2, gpus=1, priority=90)

    takeover = find(site)

    assert takeover is not None
    assert [eviction.job for eviction in takeover.evictions] == [site.names["lower"]]
    assert (len(takeover.allocations), takeover.tasks) == (2, (0, 1))


def test_all_nodes_of_a_gang_lie_in_one_group_where_it_says_so():
    site = Site()
    for name, rack in (("a", "r1"), ("b", "r2"), ("c", "r2")):
        site.add_node(name, gpus=2)
        site.apply(ev.NodeMarked(node=name, labels={"rack": rack}))
        site.run(f"low {name}", on=name, gpus=2, start_s=NOW_S - ord(name))
    site.submit("vip", tasks=2, gpus=2, priority=90, placement=Placement(topology="rack"))
    site.submit("lost", tasks=3, gpus=2, priority=90, placement=Placement(topology="rack"))

    assert victims(site) == ["low b", "low c"]
    assert find(site, "lost") is None


def test_tasks_are_spread_over_as_many_nodes_as_were_asked_for():
    site = Site()
    for name in ("a", "b", "c"):
        site.add_node(name, gpus=4)
        site.run(f"low {name}", on=name, gpus=3, start_s=NOW_S - ord(name))
    site.submit("vip", tasks=4, gpus=1, priority=90, placement=Placement(node_count=2))

    takeover = find(site)

    assert takeover is not None
    assert [allocation.node for allocation in takeover.allocations] == ["a", "a", "b", "b"]
    assert victims(site) == ["low a", "low b"]


def test_a_gang_with_nodes_of_its_own_keeps_its_tasks_together():
    site = Site()
    site.add_node("a", cpus=4)
    site.add_node("b", cpus=4)
    site.run("low a", on="a")
    site.run("low b", on="b", start_s=NOW_S - 10)
    site.submit("vip", tasks=3, cpus=1, priority=90, placement=Placement(exclusive=True))

    takeover = find(site)

    assert takeover is not None
    assert [allocation.node for allocation in takeover.allocations] == ["b", "b", "b"]
    assert victims(site) == ["low b"]


def test_a_job_is_evicted_whole_or_shrunk_and_never_below_its_least_size():
    whole = Unit(1, 5.0, 0.0, False, True)
    first, second, third = (whole._replace(task=task, spare=2) for task in range(3))
    leaver = Unit(0, 0.0, 0.0, True, True, (("u", Allocation("box", 1000, 0)),))

    assert fits_in_set(second, [first])
    assert fits_in_set(first, [second])
    assert not fits_in_set(first, [first])
    assert not fits_in_set(third, [first, second])
    assert fits_in_set(third._replace(role=1), [first, second])
    assert not fits_in_set(first, [whole])
    assert not fits_in_set(whole, [first])
    assert fits_in_set(whole._replace(job=2), [first, whole])
    assert fits_in_set(leaver, [whole])
    assert not fits_in_set(leaver, [whole, leaver])


def test_a_gang_on_many_nodes_may_have_an_elastic_job_whole_where_its_spare_tasks_are_too_few():
    site = Site()
    names = tuple(f"n{number:02}" for number in range(40))
    for name in names:
        site.add_node(name, cpus=1)
    for name in names[3:]:
        site.run(f"firm {name}", on=name, preemptible=False)
    elastic = site.run("elastic", on=names[:3], min_tasks=2)
    site.submit("vip", tasks=2, priority=90)

    takeover = find(site)

    assert takeover is not None
    assert [(e.job, e.tasks) for e in takeover.evictions] == [(elastic.id, ())]


@pytest.mark.parametrize(
    ("wish", "gone"),
    [
        ({"cpus": 4, "gpus": 1}, ["cpus", "devices"]),
        ({"cpus": 1, "gpus": 3}, ["devices"]),
        ({"cpus": 2}, ["cpus"]),
    ],
)
def test_on_a_node_whose_devices_have_parts_whatever_is_short_is_freed(wish, gone):
    site = Site()
    site.add_parted_node("box", cpus=5)
    site.run("cpus", cpus=4)
    site.run("devices", cpus=0, gpus=2)
    site.submit("vip", **wish, priority=90)

    assert victims(site) == gone


def test_of_best_effort_jobs_on_two_nodes_the_one_that_loses_least_goes():
    site = Site()
    for name in ("a", "b"):
        site.add_node(name, cpus=5)
    words = {"service": ServiceClass.BEST_EFFORT, "priority": 10}
    site.run("large", on="a", cpus=5, start_s=NOW_S - 900, **words)
    site.run("small", on="b", cpus=1, start_s=NOW_S - 1500, **words)
    site.run("firm", on="b", cpus=4, preemptible=False)
    site.submit("vip", cpus=1, priority=90)

    assert victims(site) == ["small"]


def test_of_ten_victims_every_set_is_looked_at():
    units = [Unit(job, float(job), 0.0, False, True) for job in range(1, 11)]
    looked: list[list[Unit]] = []

    def fits(chosen: list[Unit]) -> bool:
        looked.append(chosen)
        return chosen == units[-1:]

    found = CheapestSet(units, fits, lambda unit, chosen: True).find()

    assert found == units[-1:]
    assert len(looked) == 2**10


def test_what_a_job_may_not_have_is_found_by_the_next_that_may():
    site = Site()
    for name, priority in (("a", 10), ("b", 65)):
        site.add_node(name, cpus=4)
        site.run(f"on {name}", on=name, cpus=4, priority=priority)
    known = site.preemption()
    found = []
    for number, priority in enumerate((90, 70, 90)):
        site.submit(f"vip {number}", cpus=4, priority=priority)
        takeover = site.find(f"vip {number}", ("a", "b"), known)
        found.append(takeover and [one.job for one in takeover.evictions])
        if takeover is not None:
            known.commit(takeover)
            for allocation in takeover.allocations:
                known.rooms[allocation.node].take(allocation)

    assert found == [[site.names["on a"]], None, [site.names["on b"]]]


HOGS = {"cpus": 7, "mem": 60_000, "disk": 900, "gpus": 3}


@pytest.mark.parametrize("short", [*combinations(HOGS, 1), *combinations(HOGS, 2), tuple(HOGS)])
def test_whatever_is_short_is_freed_by_the_jobs_that_hold_it_and_by_no_others(short):
    site = Site()
    site.add_node(gpus=4, disk=1000)
    for name, amount in HOGS.items():
        site.run(name, **({"cpus": 0} | {name: amount}))
    wish = {"cpus": 2, "mem": 6_000, "disk": 101, "gpus": 2}
    site.submit("vip", **({"cpus": 0} | {name: wish[name] for name in short}), priority=90)

    assert victims(site) == [*short]
