"""The life of jobs that give way: evicted, shrunk, put back, and those that wait for their room."""

from collections.abc import Callable
from typing import Any

import pytest

from rota.controller.commands import commands as cmd
from rota.controller.launches.launch import is_withheld, wanted
from rota.controller.recover import recover
from rota.controller.tick import lifecycle
from rota.controller.tick.scribe import Scribe
from rota.core.changes import events as ev
from rota.core.changes.compare import differences, fold
from rota.core.changes.invariants import check
from rota.core.facts.job import Role
from rota.core.facts.node import Allocation
from rota.core.facts.policy import (
    BackfillRules,
    GangRules,
    Overrun,
    Policy,
    PreemptMode,
    PreemptRules,
)
from rota.core.facts.resources import Request
from rota.core.facts.states import Cause
from rota.rpc.messages import Wanted
from rota.scheduling.api import Eviction
from rota.store.api import Batch
from rota.testing.scene import ALICE, Scene

BY = 99


def save(scene: Scene, job: str) -> None:
    """The job says that its work is saved."""
    scene.ask(cmd.ReportCheckpoint(actor=ALICE, job=scene.names[job]))


def decide(scene: Scene, deed: Callable[[Scribe], None]) -> list[ev.AnyEvent]:
    """What a pass would decide, committed and told to the agents; gives what happened."""
    happened = commit(scene, deed)
    for node in sorted(scene.online):
        scene.connect(node)
    return happened


def commit(scene: Scene, deed: Callable[[Scribe], None]) -> list[ev.AnyEvent]:
    """The same without telling the agents."""
    cluster = scene.cluster
    scribe = Scribe(cluster, scene.now_s, scene.controller.next_seq)
    deed(scribe)
    check(cluster)
    scene.controller.next_seq = scribe.next_seq
    dirty = cluster.take_dirty()
    batch = Batch(
        events=scribe.recorded,
        jobs=list(dirty.jobs.values()),
        nodes={name: cluster.nodes[name] for name in dirty.nodes},
        settings=dict.fromkeys(dirty.settings, cluster.policy),
    )
    scene.store.commit(batch)
    scene.log += [record.event for record in scribe.recorded]
    return [record.event for record in scribe.recorded]


def evict(
    scene: Scene, name: str, mode: PreemptMode = PreemptMode.REQUEUE, tasks: tuple[int, ...] = ()
) -> list[ev.AnyEvent]:
    eviction = Eviction(scene.names[name], mode, BY, tasks)
    return decide(scene, lambda scribe: lifecycle.evict(scribe, eviction))


def set_policy(scene: Scene, **rules: Any) -> None:
    decide(scene, lambda scribe: scribe.emit(ev.PolicySet(policy=Policy(**rules))))


def keep_out(scene: Scene) -> None:
    """Nothing starts from here on, so that whoever comes back can be seen waiting."""
    for node in scene.cluster.nodes:
        decide(scene, lambda s, node=node: s.emit(ev.NodeDrained(node=node, drained=True)))


def elastic(scene: Scene, name: str = "gang", count: int = 4, least: int = 2) -> None:
    """A running elastic gang that keeps the size it is given."""
    set_policy(scene, gang=GangRules(grow=False), preempt=scene.cluster.policy.preempt)
    roles = (Role(count=count, min_count=least, request=Request()),)
    scene.submit(name, roles=roles)


def test_an_evicted_job_is_stopped_and_waits_in_its_old_place_once_it_has_gone():
    scene = Scene()
    job = scene.submit("low", cpus=2)
    keep_out(scene)

    told = evict(scene, "low")
    during = scene.state("low")
    scene.finish("low", signal=15)

    uid = scene.job("low").tasks[0].attempts[0].uid
    assert told == [
        ev.StopPlanned(job=job, then="preempt"),
        ev.AttemptStopAsked(
            job=job, task=0, uid=uid, cause=Cause.PREEMPTED, detail=f"gave way to job {BY}"
        ),
    ]
    assert during == "running"
    assert scene.state("low") == "preempted"
    assert (scene.job("low").preemptions, scene.job("low").retries_used) == (1, 0)
    assert scene.job("low").tasks[0].attempts[0].cause is Cause.PREEMPTED
    assert job in scene.cluster.lanes.where


def test_an_evicted_job_starts_again_as_its_next_attempt_and_is_told_to_resume():
    scene = Scene()
    scene.submit("low", cpus=2)
    save(scene, "low")

    evict(scene, "low")
    scene.finish("low", signal=15)

    assert scene.state("low") == "running"
    assert scene.launch("low").environment["ROTA_RESUME"] == "1"
    assert scene.launch("low").environment["ROTA_ATTEMPT"] == "2"


def test_an_evicted_job_whose_mode_is_cancel_ends():
    scene = Scene()
    scene.submit("low", retries=5)

    evict(scene, "low", PreemptMode.CANCEL)
    scene.finish("low", signal=15)

    assert scene.state("low") == "cancelled"
    assert scene.cause("low") == f"preempted: gave way to job {BY}"


def test_a_job_that_saves_its_state_comes_back():
    scene = Scene()
    scene.submit("low")
    keep_out(scene)

    evict(scene, "low", PreemptMode.CHECKPOINT)
    scene.finish("low", signal=15)

    assert scene.state("low") == "preempted"


def test_a_cancel_during_the_grace_wins():
    scene = Scene()
    scene.submit("low")

    evict(scene, "low")
    scene.cancel("low")
    scene.finish("low", signal=15)

    assert scene.state("low") == "cancelled"
    assert scene.cause("low") == "cancelled: while it was giving way"


@pytest.mark.parametrize("mode", [PreemptMode.REQUEUE, PreemptMode.CANCEL])
def test_a_requeue_during_the_grace_wins(mode: PreemptMode):
    scene = Scene()
    scene.submit("low")

    evict(scene, "low", mode)
    scene.requeue("low", hold=True)
    scene.finish("low", signal=15)

    assert scene.state("low") == "held"
    assert scene.job("low").preemptions == 0


def test_a_job_that_finishes_its_work_during_the_grace_has_completed():
    scene = Scene()
    scene.submit("low")

    evict(scene, "low")
    scene.finish("low", 0)

    assert scene.state("low") == "completed"


def test_a_job_that_saves_its_state_and_leaves_with_zero_comes_back():
    scene = Scene()
    scene.submit("low", checkpoint_signal="USR1")
    keep_out(scene)

    evict(scene, "low")
    scene.finish("low", 0)

    assert scene.state("low") == "preempted"


def test_a_gang_of_which_only_some_finished_comes_back_as_a_whole():
    scene = Scene()
    scene.submit("gang", tasks=3)
    keep_out(scene)

    evict(scene, "gang")
    scene.finish("gang", 0, task=1)
    between = scene.state("gang")
    scene.finish("gang", signal=15)

    assert between == "running"
    assert scene.state("gang") == "preempted"


def test_a_victim_whose_node_is_lost_during_the_grace_comes_back():
    scene = Scene()
    scene.submit("low")
    keep_out(scene)

    evict(scene, "low")
    scene.disconnect("box")
    scene.connect("box", boot_id="b2")

    assert scene.state("low") == "preempted"


def test_an_eviction_of_a_job_that_has_just_ended_is_moot():
    scene = Scene()
    scene.submit("low")
    scene.finish("low")

    assert evict(scene, "low") == []


def test_an_eviction_survives_a_restart_of_the_controller():
    scene = Scene()
    scene.submit("low")
    keep_out(scene)
    evict(scene, "low")

    scene.restart()
    scene.finish("low", signal=15)

    assert scene.state("low") == "preempted"


def test_a_task_that_an_elastic_job_gives_up_does_not_fail_its_peers():
    scene = Scene()
    elastic(scene)

    told = evict(scene, "gang", tasks=(2, 3))
    asked = len(scene.stopping)
    for task in (2, 3):
        scene.finish("gang", signal=15, task=task)
    shrunk = (scene.state("gang"), len(scene.job("gang").live_attempts), len(scene.stopping))
    scene.finish("gang", 0)

    assert all(isinstance(event, ev.AttemptStopAsked) for event in told)
    assert asked == 2
    assert shrunk == ("running", 2, 0)
    assert scene.state("gang") == "completed"
    assert scene.job("gang").preemptions == 0
    assert scene.job("gang").tasks[3].attempts[0].cause is Cause.SHRUNK


def test_a_shrunk_job_fails_by_its_other_tasks():
    scene = Scene()
    elastic(scene)

    evict(scene, "gang", tasks=(3,))
    scene.finish("gang", signal=15, task=3)
    scene.finish("gang", 7, task=0)
    scene.finish("gang", signal=15)

    assert scene.cause("gang") == "exit: exit code 7"


def test_a_task_that_joins_again_gets_a_name_of_its_own():
    scene = Scene()
    elastic(scene)
    evict(scene, "gang", tasks=(3,))
    scene.finish("gang", signal=15, task=3)
    job = scene.job("gang")

    again, peer_number = job.attempt_uid(3), job.tasks[0].attempts[0].number

    assert again == f"{job.tasks[3].attempts[0].uid}-2"
    assert job.next_number == peer_number


def test_a_shrunk_gang_grows_again_when_there_is_room():
    scene = Scene(cpus=4)
    scene.submit("gang", roles=(Role(count=4, min_count=2, request=Request()),))

    evict(scene, "gang", tasks=(3,))
    scene.finish("gang", signal=15, task=3)

    assert len(scene.job("gang").live_attempts) == 4
    assert scene.job("gang").live_attempts[3].uid.endswith("-2")


def test_an_elastic_gang_starts_with_what_fits_and_grows_when_others_leave():
    scene = Scene(cpus=4)
    scene.submit("other", cpus=2)
    scene.submit("gang", roles=(Role(count=4, min_count=2, request=Request()),))
    small = len(scene.job("gang").live_attempts)

    scene.finish("other")

    assert (small, len(scene.job("gang").live_attempts)) == (2, 4)


def test_a_gang_that_is_suspended_does_not_grow():
    scene = Scene(cpus=4)
    scene.submit("other", cpus=2)
    scene.submit("gang", roles=(Role(count=4, min_count=2, request=Request()),))
    scene.ask(cmd.Suspend(actor=ALICE, ids=(scene.names["gang"],)))

    scene.finish("other")

    assert len(scene.job("gang").live_attempts) == 2


def test_a_gang_does_not_grow_into_room_that_somebody_waits_for():
    scene = Scene(cpus=4)
    scene.submit("other", cpus=1)
    scene.submit("gang", roles=(Role(count=4, min_count=1, request=Request()),), priority=25)
    scene.submit("next", cpus=1)

    scene.finish("other")

    assert scene.is_running("next")
    assert len(scene.job("gang").live_attempts) == 3


def test_an_elastic_job_is_told_its_size():
    scene = Scene()
    elastic(scene)

    environment = scene.launch("gang").environment

    sizes = [environment[f"ROTA_{key}_TASKS"] for key in ("NUM", "MIN", "MAX")]
    assert sizes == ["4", "2", "4"]


def order_of(scene: Scene, name: str) -> Wanted:
    job = scene.job(name)
    return wanted(scene.cluster, job, 0, lambda digest: b"", {})


@pytest.mark.parametrize(
    ("mode", "own_s", "granted_s"),
    [
        (PreemptMode.REQUEUE, 30, 30),
        (PreemptMode.REQUEUE, 600, 60),
        (PreemptMode.CHECKPOINT, 30, 60),
        (PreemptMode.CHECKPOINT, 600, 600),
    ],
)
def test_the_grace_is_the_policys_unless_the_jobs_own_fits(mode, own_s, granted_s):
    scene = Scene()
    set_policy(scene, preempt=PreemptRules(mode=mode))
    scene.submit("low", grace_s=own_s, checkpoint_signal="USR1")

    evict(scene, "low", mode)

    order = order_of(scene, "low")
    assert (order.stop, order.signal, order.grace_s) == (Cause.PREEMPTED, "USR1", granted_s)


def test_the_grace_before_an_eviction_can_be_set():
    scene = Scene()
    set_policy(scene, preempt=PreemptRules(mode=PreemptMode.CHECKPOINT, grace_s=300))
    scene.submit("low")

    evict(scene, "low", PreemptMode.CHECKPOINT)

    assert order_of(scene, "low").grace_s == 300
    assert PreemptRules().grace_s == 60


def test_a_job_that_gives_way_has_the_grace_that_it_was_launched_with():
    scene = Scene()
    scene.submit("low", grace_s=7)
    scene.update("low", grace_s=50)

    evict(scene, "low")

    assert order_of(scene, "low").grace_s == 7


def test_a_job_that_is_cancelled_gets_no_checkpoint_signal():
    scene = Scene()
    scene.submit("job", checkpoint_signal="USR1")

    scene.cancel("job")

    order = order_of(scene, "job")
    assert (order.stop, order.signal, order.grace_s) == (Cause.CANCELLED, "", -1.0)


def take_over(scene: Scene, name: str, victim: str) -> str:
    """Place a waiting job on the room of a victim; gives the uid of its attempt."""
    job, low = scene.job(name), scene.job(victim)
    leaving = low.live_attempts[0]
    uid = job.attempt_uid(0)
    placed = ev.AttemptPlaced(
        job=job.id,
        task=0,
        uid=uid,
        allocation=leaving.allocation,
        incarnation=leaving.incarnation,
        after=(leaving.uid,),
    )

    def swap(scribe: Scribe) -> None:
        lifecycle.evict(scribe, Eviction(low.id, PreemptMode.REQUEUE, job.id))
        scribe.emit(placed)

    commit(scene, swap)
    return uid


def bound() -> tuple[Scene, str]:
    """A job that was given the room of another, which is still there; and its attempt."""
    scene = Scene(cpus=4)
    scene.submit("low", cpus=4)
    scene.submit("vip", cpus=4)
    uid = take_over(scene, "vip", "low")
    scene.restart()
    return scene, uid


def test_the_launch_of_a_preemptor_is_withheld_until_the_victim_has_gone():
    scene, uid = bound()
    before = (is_withheld(scene.cluster, uid), uid in scene.launches, scene.state("vip"))

    scene.finish("low", signal=15)

    assert before == (True, False, "scheduled")
    assert not is_withheld(scene.cluster, uid)
    assert scene.is_running("vip")
    assert scene.state("low") == "preempted"


def test_a_withheld_job_that_is_cancelled_ends_at_once_and_no_agent_is_asked():
    scene, uid = bound()

    scene.cancel("vip")

    asked = [event.uid for event in scene.log if isinstance(event, ev.AttemptStopAsked)]
    assert scene.state("vip") == "cancelled"
    assert scene.cause("vip") == "cancelled: by alice"
    assert uid not in scene.cluster.live.where
    assert uid not in asked
    assert uid not in scene.launches


def test_a_withheld_job_that_is_requeued_waits_again_at_once():
    scene, uid = bound()

    scene.requeue("vip", hold=True)

    assert scene.state("vip") == "held"
    assert uid not in scene.cluster.live.where


def test_a_victim_that_was_waited_for_in_vain_still_comes_back():
    scene, _ = bound()
    scene.cancel("vip")

    scene.finish("low", signal=15)

    assert scene.job("low").preemptions == 1
    assert scene.state("low") in ("preempted", "running", "scheduled")


def test_a_withheld_job_starts_on_the_next_boot_if_its_node_restarts():
    scene, uid = bound()

    scene.disconnect("box")
    scene.connect("box", boot_id="b2")

    assert scene.state("low") == "preempted"
    assert scene.is_running("vip")
    assert scene.job("vip").live_attempts[0].uid == uid
    assert scene.job("vip").live_attempts[0].incarnation == "i1/b2"


def test_a_withheld_job_stays_withheld_over_another_restart_of_the_controller():
    scene, uid = bound()

    scene.restart()
    before = uid in scene.launches
    scene.finish("low", signal=15)

    assert not before
    assert scene.is_running("vip")


def window(scene: Scene, name: str, window_s: float) -> None:
    """Start a held job on the first node as a backfilled one."""
    job = scene.job(name)
    node = scene.cluster.nodes["box"]

    def place(scribe: Scribe) -> None:
        scribe.emit(
            ev.AttemptPlaced(
                job=job.id,
                task=0,
                uid=job.attempt_uid(0),
                allocation=Allocation("box", 1000, 0),
                incarnation=f"{node.incarnation}/{node.boot_id}",
                window_s=window_s,
            )
        )

    decide(scene, place)


def backfilled(overrun: Overrun) -> Scene:
    scene = Scene(cpus=4)
    set_policy(scene, backfill=BackfillRules(overrun=overrun))
    scene.submit("model", cpus=3)
    decide(scene, lambda s: s.emit(ev.NodeDrained(node="box", drained=True)))
    scene.submit("short", cpus=1, retries=1)
    window(scene, "short", scene.now_s + 100)
    return scene


def test_a_backfilled_job_that_outlives_its_window_is_put_back_without_using_a_retry():
    scene = backfilled(Overrun.STOP)

    scene.pass_time(99)
    before = set(scene.stopping)
    scene.pass_time(1)
    scene.finish("short", signal=15)

    attempt = scene.job("short").tasks[0].attempts[0]
    assert before == set()
    assert attempt.cause is Cause.BACKFILL_WINDOW
    assert scene.state("short") == "queued"
    assert (scene.job("short").retries_used, scene.job("short").preemptions) == (0, 0)


def test_a_backfilled_job_may_be_let_run_on():
    scene = backfilled(Overrun.EXTEND)

    scene.pass_time(1000)

    assert scene.stopping == set()
    assert scene.is_running("short")


def test_the_window_is_remembered_over_a_restart():
    scene = backfilled(Overrun.STOP)

    scene.tick()
    scene.restart()
    scene.pass_time(100)

    assert len(scene.stopping) == 1


def assembling(**wishes: Any) -> Scene:
    """A gang of which only the first task has started."""
    scene = Scene(cpus=4, starts=False)
    set_policy(scene, gang=GangRules(assembly_timeout_s=60, grow=False))
    scene.submit("gang", **wishes)
    scene.start_placed(scene.job("gang").live_attempts[:1])
    return scene


def test_a_gang_that_does_not_assemble_in_time_goes_back_as_one():
    scene = assembling(tasks=3, retries=1)
    first = scene.job("gang").live_attempts[0].uid
    scene.pass_time(59)
    before = scene.job("gang").live_attempts[0].stop_cause
    keep_out(scene)

    scene.pass_time(1)
    scene.end(first, None, 15)

    causes = {task.attempts[0].cause for task in scene.job("gang").tasks}
    assert before is None
    assert causes == {Cause.ASSEMBLY_TIMEOUT}
    assert scene.state("gang") == "queued"
    assert scene.job("gang").retries_used == 0


def test_a_gang_that_assembled_in_time_is_left_alone():
    scene = assembling(tasks=2)
    scene.start("gang")

    scene.pass_time(1000)

    assert scene.is_running("gang")
    assert scene.stopping == set()


def test_a_job_of_one_task_has_all_the_time_to_start():
    scene = assembling(tasks=1)

    scene.pass_time(1000)

    assert scene.stopping == set()


def test_an_elastic_gang_goes_on_without_the_members_that_did_not_start():
    scene = assembling(roles=(Role(count=3, min_count=1, request=Request()),))

    scene.pass_time(60)

    assert scene.is_running("gang")
    assert len(scene.job("gang").live_attempts) == 1


def test_a_reservation_that_begins_makes_the_next_pass_look_again():
    scene = Scene()
    scene.submit("huge", cpus=4)
    before = scene.cluster.agenda.rules_version
    scene.cluster.agenda.push(scene.now_s + 10, "reservation", 1)

    scene.pass_time(9)
    early = scene.cluster.agenda.rules_version
    scene.pass_time(1)

    assert (early, scene.cluster.agenda.rules_version) == (before, before + 1)


def test_a_pass_can_ask_to_be_woken():
    scene = Scene()
    scene.cluster.agenda.push(scene.now_s + 10, "pass", 0)

    due_s = scene.controller.next_due_s()
    scene.pass_time(10)

    assert due_s == 1010
    assert scene.controller.next_due_s() is None


def test_replay_and_restart_lead_to_the_same_place_at_every_step():
    scene, _ = bound()
    elastic(scene, count=2, least=1)
    steps: list[Callable[[], object]] = [
        lambda: scene.cancel("vip"),
        lambda: scene.finish("low", signal=15),
        lambda: scene.finish("low"),
        lambda: evict(scene, "gang", tasks=(1,)),
        lambda: scene.finish("gang", signal=15, task=1),
        lambda: evict(scene, "gang"),
        lambda: scene.finish("gang", signal=15),
    ]

    for step in steps:
        step()
        log = list(scene.store.all_events())
        assert differences(fold(log, scene.cluster.ids.cluster_id), scene.cluster) == []
        assert differences(recover(scene.store.load()), scene.cluster) == []


def preempting(**rules: Any) -> Scene:
    """A node of four CPUs under rules that let a pass evict jobs after a minute."""
    scene = Scene(cpus=4)
    set_policy(scene, preempt=PreemptRules(**({"enabled": True, "min_runtime_s": 60} | rules)))
    return scene


def test_a_pass_evicts_a_job_of_lower_priority_and_starts_the_other_when_it_has_gone():
    scene = preempting()
    low = scene.submit("low", cpus=4, priority=10, preemptible=True)
    scene.pass_time(60)

    vip = scene.submit("vip", cpus=3, priority=75)
    decided = (scene.states("low", "vip"), len(scene.stopping))
    scene.pass_time(10)
    scene.finish("low", signal=15)

    assert decided == (["running", "scheduled"], 1)
    assert scene.states("low", "vip") == ["preempted", "running"]
    kinds = [type(event) for event in scene.log if getattr(event, "job", 0) in (low, vip)]
    at = kinds.index(ev.StopPlanned)
    assert kinds[at : at + 3] == [ev.StopPlanned, ev.AttemptStopAsked, ev.AttemptPlaced]


def test_a_preempted_job_comes_back_when_the_other_has_finished():
    scene = preempting()
    scene.submit("low", cpus=4, priority=10, preemptible=True)
    scene.pass_time(60)
    save(scene, "low")
    scene.submit("vip", cpus=3, priority=75)
    scene.finish("low", signal=15)

    scene.finish("vip")

    assert scene.is_running("low")
    assert scene.launch("low").environment["ROTA_RESUME"] == "1"


def test_a_job_gives_way_so_often_and_no_more():
    scene = preempting(max_per_job=2)
    scene.submit("low", cpus=4, priority=10, preemptible=True)
    evicted = []

    for number in range(3):
        scene.pass_time(60)
        scene.submit(f"vip {number}", cpus=4, priority=75)
        evicted.append(bool(scene.stopping))
        if scene.stopping:
            scene.finish("low", signal=15)
            scene.finish(f"vip {number}")

    assert evicted == [True, True, False]
    assert scene.job("low").preemptions == 2


def test_nobody_is_evicted_unless_the_policy_says_so():
    scene = Scene(cpus=4)
    scene.submit("low", cpus=4, priority=10, preemptible=True)
    scene.pass_time(1000)

    scene.submit("vip", cpus=4, priority=75)

    assert scene.states("low", "vip") == ["running", "queued"]


def test_a_young_job_is_evicted_as_soon_as_it_has_run_its_least_time():
    scene = preempting()
    scene.submit("low", cpus=4, priority=10, preemptible=True)
    scene.submit("vip", cpus=4, priority=75)
    young = scene.states("low", "vip")

    scene.pass_time(60)

    assert young == ["running", "queued"]
    assert scene.state("vip") == "scheduled"


def test_two_jobs_share_the_room_that_one_victim_leaves():
    scene = preempting()
    scene.submit("low", cpus=4, priority=10, preemptible=True)
    scene.pass_time(60)
    scene.submit("one", cpus=2, priority=75)
    scene.submit("two", cpus=2, priority=75)
    bound_to_it = scene.states("one", "two")

    scene.finish("low", signal=15)

    assert bound_to_it == ["scheduled", "scheduled"]
    assert scene.states("one", "two", "low") == ["running", "running", "preempted"]


def test_an_elastic_job_shrinks_for_another_and_goes_on():
    scene = preempting()
    elastic(scene)
    scene.update("gang", priority=10)
    scene.pass_time(60)

    scene.submit("vip", cpus=2, priority=75)
    asked = len(scene.stopping)
    for task in (2, 3):
        scene.finish("gang", signal=15, task=task)

    assert asked == 2
    assert len(scene.job("gang").live_attempts) == 2
    assert scene.states("gang", "vip") == ["running", "running"]
    assert scene.job("gang").preemptions == 0
