"""Giving way without leaving: victims stand still, lend their CPUs and go on afterwards."""

from typing import Any

from rota.controller.commands import commands as cmd
from rota.core.changes import events as ev
from rota.core.changes.compare import differences, fold
from rota.core.facts.job import Role, ServiceClass
from rota.core.facts.node import NodeSpec
from rota.core.facts.placing import Placement
from rota.core.facts.policy import Policy, PreemptMode, PreemptRules
from rota.core.facts.resources import Amount, Request
from rota.scheduling.answers.whatif import JobGone, WhatIf
from rota.testing.scene import ADMIN, ALICE, BOB, Scene
from rota.testing.stage import Stage, node, spec

RULES = {"preempt.min_runtime_s": 0, "preempt.only_willing": False}


def scene_with(mode: str = "suspend", *, rules: dict[str, Any] | None = None, **site: Any) -> Scene:
    scene = Scene(**({"cpus": 4} | site))
    changed = {**RULES, "preempt.mode": mode, **(rules or {})}
    scene.ask(cmd.SetPolicy(actor=ADMIN, preset="preemptive", rules=changed))
    return scene


def standing(scene: Scene) -> list[str]:
    """The jobs whose processes are stopped, by name."""
    return [
        name
        for name, job in scene.names.items()
        if job in scene.cluster.jobs
        and any(attempt.uid in scene.suspended for attempt in scene.job(name).live_attempts)
    ]


def low_and_vip(**site: Any) -> Scene:
    """A job on all CPUs, and a more important one that wants half of them."""
    scene = scene_with(**site)
    scene.submit("low", cpus=4, mem=1024, priority=10)
    scene.submit("vip", cpus=2, mem=1024, priority=75)
    return scene


def test_a_victim_stands_still_while_the_other_runs_on_its_cpus_and_goes_on_afterwards():
    scene = low_and_vip()
    during = (scene.states("low", "vip"), standing(scene), set(scene.stopping))

    scene.finish("vip")

    assert during == (["running", "running"], ["low"], set())
    assert (scene.state("vip"), scene.state("low"), standing(scene)) == ("completed", "running", [])
    scene.finish("low")
    assert scene.state("low") == "completed"
    assert len(scene.job("low").tasks[0].attempts) == 1, "nothing of its work was lost"


def test_a_lender_keeps_its_memory_and_lends_no_more_than_is_taken():
    scene = low_and_vip()

    low = scene.job("low").live_attempts[0]
    vip = scene.job("vip").live_attempts[0]
    box = scene.cluster.nodes["box"]

    assert vip.borrows[0].lender == low.uid
    assert set(vip.allocation.cpus) == set(vip.borrows[0].cpus) < set(low.allocation.cpus)
    assert box.live[low.uid].cpu_milli == 2000
    assert box.headroom() == Amount(0, 16384 - 2048, 10240)


def test_freed_cpus_go_back_to_the_lender_before_anybody_else_gets_them():
    scene = low_and_vip()
    scene.submit("next", cpus=1, priority=10)

    scene.finish("vip")

    assert scene.states("low", "next") == ["running", "queued"]
    assert scene.cluster.nodes["box"].headroom().cpu_milli == 0


def test_who_lacks_more_than_cpus_makes_the_victim_leave():
    scene = scene_with()
    scene.submit("low", cpus=4, mem=16000, priority=10)

    scene.submit("vip", cpus=2, mem=1024, priority=75)

    assert scene.stopping == {scene.job("low").live_attempts[0].uid}
    assert standing(scene) == []


def test_who_wants_a_node_to_himself_makes_the_victim_leave():
    scene = scene_with()
    scene.submit("low", cpus=4, priority=10)

    scene.submit("vip", cpus=2, priority=75, placement=Placement(exclusive=True))

    assert (standing(scene), len(scene.stopping)) == ([], 1)


def test_a_job_may_choose_to_stand_still_where_the_policy_says_otherwise():
    scene = scene_with("requeue")
    scene.submit("low", cpus=4, priority=10, preempt_mode=PreemptMode.SUSPEND)

    scene.submit("vip", cpus=2, priority=75)

    assert standing(scene) == ["low"]


def test_a_lender_lends_more_to_the_next_and_goes_on_after_the_last():
    scene = low_and_vip()
    scene.submit("second", cpus=2, priority=75)
    both = (scene.states("low", "vip", "second"), standing(scene))

    scene.finish("vip")
    after_one = standing(scene)
    scene.finish("second")

    assert both == (["running"] * 3, ["low"])
    assert after_one == ["low"]
    assert standing(scene) == []
    assert scene.job("low").preemptions == 1


def test_a_job_that_stands_still_already_lends_before_one_that_runs_must_stop():
    scene = scene_with(cpus=8)
    scene.submit("low", cpus=4, priority=10)
    scene.submit("other", cpus=4, priority=10)
    scene.submit("vip", cpus=2, priority=75)
    (first,) = standing(scene)

    scene.submit("second", cpus=2, priority=75)

    assert standing(scene) == [first]
    assert scene.states("vip", "second") == ["running", "running"]


def test_a_job_that_gave_way_as_often_as_it_may_lends_on_while_it_stands_and_not_again():
    scene = scene_with(rules={"preempt.max_per_job": 1})
    scene.submit("low", cpus=4, priority=10)
    scene.submit("vip", cpus=2, priority=75)
    scene.submit("second", cpus=2, priority=75)
    during = (scene.states("vip", "second"), standing(scene))

    scene.finish("vip")
    scene.finish("second")
    scene.submit("third", cpus=2, priority=75)

    assert during == (["running", "running"], ["low"])
    assert scene.states("low", "third") == ["running", "queued"]
    assert standing(scene) == []


def test_who_sends_two_borrowers_away_takes_the_loans_of_both_over():
    scene = scene_with(rules={"preempt.gap": 0})
    scene.submit("low", cpus=4, priority=10)
    scene.submit("one", cpus=2, priority=50)
    scene.submit("two", cpus=2, priority=50)
    scene.submit("top", cpus=4, priority=75)
    scene.finish("one", signal=15)
    scene.finish("two", signal=15)

    (attempt,) = scene.job("top").live_attempts

    assert scene.states("low", "one", "two", "top") == [
        *("running", "preempted", "preempted", "running")
    ]
    assert [loan.cpu_milli for loan in attempt.borrows] == [4000]


def test_who_sends_a_borrower_away_takes_its_loans_over():
    scene = scene_with(rules={"preempt.gap": 0})
    scene.submit("low", cpus=4, priority=10)
    scene.submit("vip", cpus=4, priority=50)
    scene.submit("top", cpus=2, priority=75)
    waiting = (scene.state("top"), standing(scene), set(scene.stopping))
    vip = scene.job("vip").live_attempts[0].uid

    scene.finish("vip", signal=15)
    during = (scene.states("low", "vip", "top"), standing(scene), scene.why("low"))
    scene.finish("top")

    assert waiting == ("scheduled", ["low"], {vip})
    assert during == (
        ["running", "preempted", "running"],
        ["low"],
        "running on box: suspended: lends its CPUs to job 3 until that is gone",
    )
    assert scene.cluster.nodes["box"].headroom().cpu_milli == 0


def test_a_successor_that_is_cancelled_while_it_waits_leaves_the_lender_to_the_first():
    scene = scene_with(rules={"preempt.gap": 0})
    scene.submit("low", cpus=4, priority=10)
    scene.submit("vip", cpus=4, priority=50)
    scene.submit("top", cpus=4, priority=75)

    scene.cancel("top")
    during = standing(scene)
    scene.cancel("vip")
    scene.finish("vip", signal=15)

    assert during == ["low"]
    assert (standing(scene), scene.state("low")) == ([], "running")


def test_the_tasks_of_a_gang_stand_still_together_and_go_on_together():
    scene = scene_with(nodes=2)
    scene.submit("gang", cpus=4, tasks=2, priority=10)
    scene.submit("vip", cpus=1, priority=75)
    uids = {attempt.uid for attempt in scene.job("gang").live_attempts}
    during = set(scene.suspended)

    scene.finish("vip")

    assert during == uids
    assert scene.suspended == set()


def test_a_gang_goes_on_when_the_only_task_that_lends_something_has_ended():
    scene = scene_with(nodes=2)
    scene.submit("gang", cpus=4, tasks=2, priority=10)
    scene.submit("vip", cpus=1, priority=75)
    during = standing(scene)
    lender = scene.job("vip").live_attempts[0].borrows[0].lender

    # Its process was over before it could be stopped.
    scene.end(lender, 0, 0)

    assert during == ["gang"]
    assert (standing(scene), scene.states("gang", "vip")) == ([], ["running", "running"])
    scene.finish("gang")
    assert scene.state("gang") == "completed"


def test_a_gang_gives_cpus_back_task_by_task_and_its_lender_waits_for_all():
    scene = scene_with(nodes=2)
    scene.submit("low", cpus=4, tasks=2, priority=10)
    scene.submit("vip", cpus=4, tasks=2, priority=75)

    scene.finish("vip", task=0)
    half = (standing(scene), [n.headroom().cpu_milli for n in scene.cluster.nodes.values()])
    scene.submit("small", cpus=1, priority=10)
    waits = scene.state("small")
    scene.finish("vip", task=1)

    assert half == (["low"], [0, 0])
    assert waits == "queued"
    assert standing(scene) == []


def test_a_restart_in_between_changes_nothing():
    scene = low_and_vip()

    scene.restart()
    during = (scene.states("low", "vip"), standing(scene))
    scene.finish("vip")

    assert during == (["running", "running"], ["low"])
    assert standing(scene) == []
    log = list(scene.store.all_events())
    assert differences(fold(log, scene.cluster.ids.cluster_id), scene.cluster) == []


def test_a_lender_that_is_cancelled_hears_of_it_and_the_borrower_runs_on():
    scene = low_and_vip()

    scene.cancel("low")
    told = (standing(scene), set(scene.stopping))
    uid = scene.job("low").live_attempts[0].uid
    scene.finish("low", signal=15)

    assert told == ([], {uid})
    assert scene.states("low", "vip") == ["cancelled", "running"]
    assert scene.cluster.nodes["box"].headroom().cpu_milli == 2000
    scene.finish("vip")
    assert scene.cluster.nodes["box"].headroom().cpu_milli == 4000


def test_the_time_limit_of_a_lender_stands_still_with_it():
    scene = scene_with()
    scene.submit("low", cpus=4, priority=10, time_limit_s=60)
    scene.pass_time(30)
    scene.submit("vip", cpus=2, priority=75)

    scene.pass_time(500)
    scene.finish("vip")
    scene.pass_time(29)
    before = set(scene.stopping)
    scene.pass_time(1)

    assert before == set()
    assert len(scene.stopping) == 1


def test_nobody_can_resume_a_lender_but_its_owner_may_keep_it_suspended():
    scene = low_and_vip()
    ids = (scene.names["low"],)

    refused = scene.ask(cmd.Resume(actor=ALICE, ids=ids)).refused
    scene.ask(cmd.Suspend(actor=ALICE, ids=ids))
    scene.finish("vip")

    assert [refusal.reason for refusal in refused] == [
        "job 1 lends its CPUs to job 2, and goes on by itself when that one is gone"
    ]
    assert standing(scene) == ["low"]
    scene.ask(cmd.Resume(actor=ALICE, ids=ids))
    assert standing(scene) == []


def test_a_lender_whose_owner_resumes_it_goes_on_when_its_cpus_are_back():
    scene = low_and_vip()
    ids = (scene.names["low"],)
    scene.ask(cmd.Suspend(actor=ALICE, ids=ids))

    scene.ask(cmd.Resume(actor=ALICE, ids=ids))
    during = standing(scene)
    scene.finish("vip")

    assert (during, standing(scene)) == (["low"], [])


def test_a_job_that_somebody_suspended_does_not_lend():
    scene = scene_with()
    scene.submit("low", cpus=4, priority=10)
    scene.ask(cmd.Suspend(actor=ALICE, ids=(scene.names["low"],)))

    scene.submit("vip", cpus=2, priority=75, actor=BOB)

    assert len(scene.stopping) == 1, "it is asked to leave instead"


def test_why_and_the_log_say_to_whom_a_job_lends():
    scene = low_and_vip()

    assert scene.why("low") == (
        "running on box: suspended: lends its CPUs to job 2 until that is gone"
    )
    told = [event for event in scene.log if isinstance(event, ev.JobSuspended)]
    assert [(event.job, event.by, event.yields_to) for event in told] == [(1, "job 2", 2)]


def test_a_guaranteed_job_never_stands_still_for_another():
    scene = scene_with()
    scene.submit("firm", cpus=4, priority=10, service=ServiceClass.GUARANTEED)

    scene.submit("vip", cpus=2, priority=75)

    assert (standing(scene), scene.state("vip")) == ([], "queued")


def test_promises_count_on_the_lender_coming_back():
    rules = PreemptRules(
        enabled=True, mode=PreemptMode.SUSPEND, min_runtime_s=0, only_willing=False
    )
    stage = Stage([node("a", cpus=4)], Policy(preempt=rules))
    low = stage.submit(spec(cpus=4, priority=10, time_limit_s=100), runs_s=100)
    stage.run()
    stage.now_s += 10
    vip = stage.submit(spec(cpus=4, priority=75, time_limit_s=50), runs_s=50)
    stage.run()
    third = stage.submit(spec(cpus=4, priority=10, time_limit_s=10), runs_s=10)

    first = stage.run()
    stage.play()

    assert [(one.job, one.start_s) for one in first.promises] == [(third, stage.begin_s + 150)]
    assert stage.ended_s[vip] == stage.begin_s + 60
    assert stage.ended_s[low] == stage.begin_s + 150
    assert stage.promised_s[third] == stage.started_s[third] == stage.begin_s + 150


def test_an_elastic_borrower_and_shares_of_a_cpu_keep_the_sums_right():
    scene = scene_with(cpus=3)
    scene.submit("low", cpus=1.5, tasks=2, priority=10)
    role = Role(count=3, min_count=1, request=Request(cpu_milli=750))

    scene.submit("vip", priority=75, roles=(role,))
    lent = scene.cluster.nodes["box"].headroom().cpu_milli
    scene.finish("vip")

    assert lent >= 0
    assert (standing(scene), scene.cluster.nodes["box"].headroom().cpu_milli) == ([], 0)


def loose(**box: int) -> Scene:
    """A node that gives CPUs by the amount: no single ones belong to a job."""
    scene = scene_with(nodes=0, rules={"preempt.gap": 0})
    scene.add_node(NodeSpec("box", **({"cpu_milli": 4000, "memory_mib": 16384} | box)))
    return scene


def lent_to(scene: Scene, job: str) -> list[int]:
    """What each task of a job has borrowed."""
    return [sum(n.cpu_milli for n in a.borrows) for a in scene.job(job).live_attempts]


def test_what_is_free_is_used_before_anything_is_lent():
    scene = loose()
    scene.submit("low", cpus=3, priority=10)

    scene.submit("vip", cpus=2, priority=75)

    assert (scene.states("low", "vip"), standing(scene)) == (["running"] * 2, ["low"])
    assert lent_to(scene, "vip") == [1000]


def test_of_the_tasks_of_a_gang_only_those_borrow_for_which_nothing_is_free():
    scene = loose()
    scene.submit("low", cpus=3, priority=10)

    scene.submit("vip", cpus=1, tasks=3, priority=75)

    assert lent_to(scene, "vip") == [0, 1000, 1000]


def test_who_sends_a_borrower_away_borrows_no_more_than_its_own_room_leaves_missing():
    scene = loose()
    scene.submit("low", cpus=2, priority=10)
    scene.submit("vip", cpus=4, priority=50)
    before = lent_to(scene, "vip")
    scene.submit("top", cpus=3, priority=75)

    scene.finish("vip", signal=15)

    assert before == [2000]
    assert (lent_to(scene, "top"), standing(scene)) == ([1000], ["low"])


def test_a_lender_that_is_sent_away_with_its_borrower_lends_to_nobody():
    scene = loose()
    scene.submit("low", cpus=4, mem=12000, priority=10)
    scene.submit("vip", cpus=4, priority=50)
    scene.submit("top", cpus=4, mem=12000, priority=75)

    for name in ("vip", "low"):
        scene.finish(name, signal=15)

    assert scene.states("low", "vip", "top") == ["preempted", "preempted", "running"]
    assert lent_to(scene, "top") == [0]


def test_a_lender_has_all_its_cpus_where_a_borrower_is_supposed_gone():
    scene = low_and_vip()
    (low,) = scene.job("low").live_attempts

    with WhatIf(scene.controller.scheduler, scene.now_s) as world:
        before = scene.cluster.nodes["box"].live[low.uid].cpu_milli
        world.make(JobGone(scene.names["vip"]))
        held = scene.cluster.nodes["box"].live[low.uid].cpu_milli

    assert (before, held) == (2000, 4000)
