"""Accounts are charged what is kept from others: whole nodes, lent CPUs, hours to come."""

import pytest

from rota.controller.commands import commands as cmd
from rota.core.changes import events as ev
from rota.core.changes.compare import differences, fold
from rota.core.changes.invariants import check
from rota.core.facts.errors import Rejected
from rota.core.facts.job import Role
from rota.core.facts.node import Allocation, Device, NodeSpec
from rota.core.facts.placing import Placement
from rota.core.facts.resources import Amount, Request
from rota.core.facts.states import JobState
from rota.core.facts.tenant import Limits, Quota, User
from rota.scheduling.order.fairshare import FairShare
from rota.testing.scene import ADMIN, ALICE, BOB, Scene
from tests.unit.books import Books

ALONE = Placement(exclusive=True)
HOUR_S = 3600.0


def limit(scene: Scene, user: str = "alice", **limits: float) -> None:
    quota = Quota(hard=Limits(**limits))
    scene.ask(cmd.SetUser(actor=ADMIN, user=User(user, quota=quota)))


def used(scene: Scene, user: str = "alice") -> tuple[float, float]:
    """CPU-hours and device-hours on record."""
    spent = scene.cluster.accounts.usage[f"{user}\n"].since(0.0)
    return round(spent.cpu_s / HOUR_S, 6), round(spent.device_s / HOUR_S, 6)


def held(scene: Scene, user: str = "alice") -> Amount:
    return scene.cluster.accounts.holdings.get(("user", user))


def same_after_a_restart(scene: Scene) -> list[str]:
    """Where the Cluster differs from one that is loaded, and from one folded from the log."""
    folded = fold(scene.store.all_events(), scene.cluster.ids.cluster_id)
    found = differences(scene.cluster, folded)
    before = scene.cluster
    scene.restart()
    return found + [
        line
        for line in differences(before, scene.cluster)
        if line.startswith(("/usage", "/holdings", "/lent", "/running"))
    ]


def test_a_job_that_has_a_node_to_itself_counts_with_all_of_the_node():
    scene = Scene(cpus=8, memory_mib=4096, gpus=2)

    scene.submit("alone", cpus=1, placement=ALONE)

    assert held(scene) == Amount(8000, 4096, 10240, 2000)
    scene.pass_time(HOUR_S)
    scene.finish("alone")
    assert used(scene) == (8.0, 2.0)
    assert held(scene) == Amount()


def test_fair_share_sees_the_whole_node():
    scene = Scene(cpus=8, nodes=2)
    scene.submit("alone", cpus=1, placement=ALONE)
    scene.submit("shared", cpus=1, actor=BOB)

    shares = FairShare(scene.cluster, scene.now_s)

    assert shares.ratio("alice", "") == pytest.approx(8 * shares.ratio("bob", ""))


def test_a_broken_card_of_an_own_node_is_kept_from_nobody():
    scene = Scene(cpus=8)
    cards = (Device(0, "a"), Device(1, "b", healthy=False))
    scene.add_node(NodeSpec("gpus", 8000, 16384, 10240, devices=cards))

    scene.submit("alone", cpus=1, placement=Placement(exclusive=True, nodes=("gpus",)))

    assert held(scene).device_milli == 1000


def test_a_node_that_grows_does_not_rewrite_what_a_job_was_given():
    scene = Scene(cpus=8)
    scene.submit("alone", cpus=1, placement=ALONE)
    scene.pass_time(HOUR_S)

    scene.add_node(NodeSpec("box", 16000, 16384, 10240, cpus=tuple(range(16))))
    scene.pass_time(HOUR_S)
    scene.finish("alone")

    assert used(scene) == (16.0, 0.0)


def test_several_tasks_on_a_node_of_their_own_count_it_once_until_the_last_of_them_ends():
    scene = Scene(cpus=8)
    scene.submit("gang", cpus=2, tasks=3, placement=ALONE)
    together = held(scene)

    scene.pass_time(HOUR_S)
    scene.finish("gang", task=0)
    after_one = held(scene)
    unlike = same_after_a_restart(scene)
    scene.pass_time(HOUR_S)
    scene.finish("gang")

    assert together.cpu_milli == after_one.cpu_milli == 8000
    assert unlike == []
    assert used(scene) == (16.0, 0.0)
    assert held(scene) == Amount()


def test_a_log_from_before_that_says_nothing_of_whole_nodes_is_read_as_it_was_meant():
    books = Books(cpus=8, gpus=0)
    job = books.wait(placement=ALONE)
    given = Allocation("box", 1000, 0, exclusive=True)
    uid = books.cluster.jobs[job].attempt_uid(0)

    books.tell(ev.AttemptPlaced(job=job, task=0, uid=uid, allocation=given, incarnation="i"))

    check(books.cluster)
    assert books.cluster.accounts.holdings.get(("user", "alice")) == Amount(1000)


def test_quotas_count_the_whole_node():
    scene = Scene(cpus=8, gpus=2, nodes=3)
    limit(scene, cpu_milli=16000)

    for name in ("one", "two", "three"):
        scene.submit(name, cpus=1, placement=ALONE)

    assert scene.states("one", "two", "three") == ["running", "running", "queued"]
    assert held(scene).cpu_milli == 16000
    assert scene.why("three") == ("user alice holds 16 of at most 16 CPUs, 8 wanted")
    scene.finish("one")
    assert scene.state("three") == "running"


def test_a_node_that_is_too_large_for_a_quota_is_passed_over_and_why_says_so():
    scene = Scene(cpus=8)
    scene.add_node(NodeSpec("large", 64000, 16384, 10240))
    limit(scene, cpu_milli=20000)

    scene.submit("first", cpus=1, placement=ALONE)
    scene.submit("second", cpus=1, placement=ALONE)

    assert scene.job("first").live_attempts[0].allocation.node == "box"
    assert scene.state("second") == "queued"
    assert scene.why("second") == (
        "user alice holds 8 of at most 20 CPUs, 64 wanted for the whole of node large"
    )
    scene.submit("others", cpus=1, placement=ALONE, actor=BOB)
    assert scene.state("others") == "running", "another account may have the large node"
    scene.finish("first")
    assert scene.state("second") == "running"


def test_a_job_that_waits_for_a_small_node_of_its_own_is_promised_one_within_its_quota():
    scene = Scene(cpus=8)
    scene.add_node(NodeSpec("large", 64000, 16384, 10240))
    limit(scene, cpu_milli=20000)
    scene.submit("busy", cpus=8, time_limit_s=600, actor=BOB, placement=Placement(nodes=("box",)))
    scene.submit("alone", cpus=1, time_limit_s=600, placement=ALONE)

    scene.submit("late", cpus=8, time_limit_s=6000, actor=BOB, placement=Placement(nodes=("box",)))
    scene.finish("busy")

    assert scene.states("alone", "late") == ["running", "queued"]
    assert scene.job("alone").live_attempts[0].allocation.node == "box"


def test_a_gang_gets_no_more_nodes_of_its_own_than_its_quota_allows():
    scene = Scene(cpus=8, nodes=4)
    limit(scene, cpu_milli=24000)

    scene.submit("wide", cpus=8, tasks=3, placement=ALONE)
    scene.submit("more", cpus=1, tasks=2, placement=Placement(exclusive=True, node_count=2))

    assert scene.states("wide", "more") == ["running", "queued"]
    assert held(scene).cpu_milli == 24000


def test_an_elastic_job_grows_only_by_nodes_that_its_quota_allows():
    scene = Scene(cpus=8, nodes=4)
    limit(scene, cpu_milli=24000)
    role = Role(count=4, min_count=2, request=Request(cpu_milli=8000))

    scene.submit("elastic", roles=(role,), placement=ALONE)

    assert len(scene.job("elastic").live_attempts) == 3
    assert held(scene).cpu_milli == 24000


def test_nobody_is_evicted_for_a_node_that_is_too_large_for_the_quota():
    scene = Scene(cpus=8)
    rules = {"preempt.min_runtime_s": 0, "preempt.only_willing": False}
    scene.ask(cmd.SetPolicy(actor=ADMIN, preset="preemptive", rules=rules))
    scene.add_node(NodeSpec("small", 4000, 16384, 10240))
    limit(scene, cpu_milli=4000)
    scene.submit("low", cpus=1, priority=10, actor=BOB, placement=Placement(nodes=("box",)))
    scene.submit("mine", cpus=1, placement=Placement(nodes=("small",)), priority=75)

    scene.submit("alone", cpus=1, placement=ALONE, priority=70)

    assert scene.states("low", "mine", "alone") == ["running", "running", "queued"]


def test_a_job_whose_every_node_is_larger_than_its_quota_is_refused_at_submit():
    scene = Scene(cpus=64, gpus=8)
    limit(scene, cpu_milli=4000, device_milli=0)

    with pytest.raises(Rejected, match=r"may not hold a whole node: .* 64 CPUs and 8 devices"):
        scene.submit("alone", cpus=1, placement=ALONE)

    scene.submit("shared", cpus=1)
    assert scene.state("shared") == "running"


def lender_and_borrower(**wishes: int) -> Scene:
    """A job on all CPUs, and a more important one of another user that borrows half of them."""
    scene = Scene(cpus=4, gpus=1)
    rules = {
        "preempt.min_runtime_s": 0,
        "preempt.only_willing": False,
        "preempt.mode": "suspend",
    }
    scene.ask(cmd.SetPolicy(actor=ADMIN, preset="preemptive", rules=rules))
    scene.submit("low", cpus=4, mem=1024, priority=10, actor=ALICE, **wishes)
    scene.pass_time(HOUR_S)
    scene.submit("vip", cpus=2, mem=1024, priority=75, actor=BOB)
    return scene


def test_lent_cpus_are_charged_to_the_borrower_and_not_to_the_lender():
    scene = lender_and_borrower(gpus=1)

    scene.pass_time(2 * HOUR_S)
    unlike = same_after_a_restart(scene)
    scene.finish("vip")
    scene.pass_time(HOUR_S)
    scene.finish("low")

    assert unlike == []
    assert used(scene, "alice") == (4 + 2 * 2 + 4, 4.0)
    assert used(scene, "bob") == (2 * 2, 0.0)
    assert scene.cluster.accounts.usage["alice\n"].attempts == 1


def test_what_is_lent_counts_for_fair_share_where_it_is_used():
    scene = lender_and_borrower()
    scene.ask(cmd.SetPolicy(actor=ADMIN, rules={"share.past_weight": 0}))

    shares = FairShare(scene.cluster, scene.now_s)

    assert shares.ratio("alice", "") == shares.ratio("bob", "") > 0


def test_what_is_lent_stays_in_the_quota_of_the_lender_as_it_comes_back_unasked():
    scene = lender_and_borrower()
    scene.add_node(NodeSpec("other", 4000, 16384, 10240))
    limit(scene, cpu_milli=4000)

    scene.submit("more", cpus=1)

    assert held(scene).cpu_milli == 4000
    assert scene.state("more") == "queued"


def test_a_job_waits_for_the_hours_that_another_may_still_use_and_starts_when_that_ends_early():
    scene = Scene(cpus=8, gpus=8)
    limit(scene, device_hours=12.0)
    scene.submit("first", gpus=4, time_limit_s=7200)
    scene.submit("second", gpus=3, time_limit_s=7200)
    before = scene.why("second")

    scene.pass_time(600)
    scene.finish("first")

    assert before == "user alice has used or spoken for 8 of 12 device-hours, 6 wanted"
    assert scene.state("second") == "running"


def test_what_a_pass_starts_counts_against_a_budget_at_once():
    scene = Scene(cpus=8, gpus=8)
    limit(scene, device_hours=3.0)

    scene.submit("many", gpus=1, time_limit_s=3600, array="0-7")

    assert len(scene.cluster.census.by_state[JobState.RUNNING]) == 3


def test_a_gang_that_may_start_smaller_is_held_against_quotas_with_what_it_starts_with():
    scene = Scene(cpus=4, nodes=2)
    limit(scene, cpu_milli=8000)
    scene.set_policy(gang_partial=0.8)

    scene.submit("gang", cpus=1, tasks=10)

    assert scene.state("gang") == "running"
    assert len(scene.job("gang").live_attempts) == 8


def test_why_tells_of_the_fewest_tasks_that_a_gang_starts_with():
    scene = Scene(cpus=4, nodes=3)
    scene.set_policy(gang_partial=0.8)
    scene.submit("busy", cpus=1, tasks=6, time_limit_s=600)

    scene.submit("gang", cpus=1, tasks=10)

    assert scene.state("gang") == "queued"
    assert scene.why("gang") == "no room for all of its 8 tasks"


def test_spread_tasks_start_together_whatever_the_rule_for_gangs_says():
    scene = Scene(cpus=4, nodes=2)
    limit(scene, cpu_milli=4000)
    scene.set_policy(gang_partial=0.5)

    with pytest.raises(Rejected, match="at most 4 CPUs"):
        scene.submit("spread", cpus=4, tasks=2, placement=Placement(node_count=2))
