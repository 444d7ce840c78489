"""The value that a pass filed a lane under is part of the answer, and agrees with its reason."""

import pytest

from rota.controller.commands import commands as cmd
from rota.core.facts.placing import Affinity, Placement
from rota.core.facts.policy import (
    BackfillRules,
    OrderRules,
    Policy,
    PreemptRules,
    ShareRules,
)
from rota.core.facts.states import QueueState
from rota.core.facts.tenant import Limits, Queue, Quota, Reservation, User
from rota.scheduling.answers import reasons as why
from rota.scheduling.answers.explain import Explanation, code_of, explain
from rota.scheduling.outcomes import Barred, Behind, Capped, ClaimedRoom, NoRoom, Vetoed
from rota.testing.scene import BOB, OPERATOR, Scene


def set_policy(scene: Scene, policy: Policy) -> None:
    scene.cluster.policy = policy
    scene.cluster.rules_changed()


def no_room(scene: Scene) -> None:
    scene.submit("hog", cpus=3)
    scene.submit("job", cpus=2)


def no_room_for_all_tasks(scene: Scene) -> None:
    scene.submit("hog", cpus=2)
    scene.submit("job", tasks=3)


def no_node_suits(scene: Scene) -> None:
    scene.submit("job", cpus=9, scheduling_timeout_s=60)


def a_promise_to_another(scene: Scene) -> None:
    scene.submit("hog", cpus=3, time_limit_s=3600)
    scene.submit("big", cpus=4, time_limit_s=3600)
    scene.submit("job", cpus=1, time_limit_s=7200)


def a_promise_that_nothing_may_outlast(scene: Scene) -> None:
    set_policy(scene, Policy(backfill=BackfillRules(spare=False)))
    scene.submit("hog", cpus=2, time_limit_s=3600)
    scene.submit("big", cpus=3, time_limit_s=3600)
    scene.submit("job", cpus=1, time_limit_s=7200)


def no_room_and_a_promise_that_nothing_may_outlast(scene: Scene) -> None:
    # Where jobs may give way, no job is passed over.
    rules = Policy(backfill=BackfillRules(spare=False), preempt=PreemptRules(enabled=True))
    set_policy(scene, rules)
    scene.submit("hog", cpus=2, time_limit_s=3600)
    scene.submit("big", cpus=3, time_limit_s=3600)
    scene.submit("job", cpus=3, time_limit_s=7200)


def a_reservation(scene: Scene) -> None:
    made = Reservation(1, "bob", scene.now_s + 60, scene.now_s + 600, nodes=("box",))
    scene.cluster.reservations[made.id] = made
    scene.cluster.rules_changed()
    scene.submit("job", cpus=1)


def a_neighbour(scene: Scene) -> None:
    scene.submit("web", labels={"app": "web"})
    scene.submit("job", placement=Placement(affinities=(Affinity("app", "web", apart=True),)))


def no_room_beside_whatever_neighbour(scene: Scene) -> None:
    scene.submit("hog", cpus=3)
    wish = Placement(affinities=(Affinity("app", "web", apart=True),))
    scene.submit("job", cpus=2, placement=wish)


def its_turn(scene: Scene) -> None:
    set_policy(scene, Policy(order=OrderRules(strict=True)))
    scene.submit("hog", cpus=3)
    scene.submit("big", cpus=4)
    scene.submit("job", cpus=1)


def its_turn_without_room(scene: Scene) -> None:
    set_policy(scene, Policy(order=OrderRules(strict=True)))
    scene.submit("hog", cpus=3)
    scene.submit("big", cpus=4)
    scene.submit("job", cpus=2)


def a_group(scene: Scene) -> None:
    scene.submit("first", group="g", group_cap=1)
    scene.submit("job", group="g")


def a_queue_per_user(scene: Scene) -> None:
    scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="side", max_per_user=1)))
    scene.submit("first", queue="side")
    scene.submit("job", queue="side")


def a_quota(scene: Scene) -> None:
    quota = Quota(hard=Limits(cpu_milli=2000))
    scene.cluster.accounts.users["alice"] = User("alice", quota=quota)
    scene.cluster.rules_changed()
    scene.submit("first", cpus=1)
    scene.submit("job", cpus=2)


def a_queue_that_is_shut(scene: Scene) -> None:
    scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="side", state=QueueState.PAUSED)))
    scene.submit("job", queue="side")


def a_share(scene: Scene) -> None:
    set_policy(scene, Policy(share=ShareRules(hard_ratio=0.5)))
    scene.submit("hog", cpus=3)
    scene.submit("big", cpus=4, actor=BOB)
    scene.submit("job", cpus=1)


#: What a lane may be filed under, the code of the reason that is named first, and the words.
KINDS = [
    (no_room, NoRoom, "room", "room", "room on node box"),
    (no_room_for_all_tasks, NoRoom, "room", "tasks", "room on node box"),
    (no_node_suits, NoRoom, "room", "filter", "a node that suits it"),
    (no_room_beside_whatever_neighbour, NoRoom, "room", "room", "room on node box"),
    (a_promise_to_another, ClaimedRoom, "claim", "backfill", "a claim on node box to move or end"),
    (
        a_promise_that_nothing_may_outlast,
        *(ClaimedRoom, "claim", "backfill", "a claim on node box to move or end"),
    ),
    (no_room_and_a_promise_that_nothing_may_outlast, NoRoom, "room", "room", "room on node box"),
    (a_reservation, ClaimedRoom, "claim", "reserved", "a claim on node box to move or end"),
    (
        a_neighbour,
        *(Vetoed, "neighbours", "neighbours"),
        "a node that neighbours, quotas and plug-ins let it have",
    ),
    (its_turn, Behind, "turn", "order", "its turn"),
    (its_turn_without_room, Behind, "turn", "order", "its turn"),
    (a_group, Capped, "limit", "quota", "a place under group g"),
    (a_queue_per_user, Capped, "limit", "quota", "a place under alice in queue side"),
    (a_quota, Capped, "limit", "quota", "a place under user alice"),
    (a_queue_that_is_shut, Capped, "limit", "queue", "its queue to start jobs"),
    (
        a_share,
        *(Barred, "share", "share"),
        "its account to be within its share; looked at again in 20s",
    ),
]


def story(scene: Scene, job: str = "job") -> Explanation:
    return explain(scene.controller.scheduler, scene.names[job], scene.now_s)


@pytest.mark.parametrize(("arrange", "filed", "kind", "code", "words"), KINDS)
def test_the_reason_named_first_is_of_the_kind_that_the_lane_is_filed_under(
    arrange, filed, kind, code, words
):
    scene = Scene(cpus=4)
    arrange(scene)

    told = story(scene)

    lane = scene.cluster.lanes.where[scene.names["job"]]
    assert isinstance(scene.controller.scheduler.waits.of(lane.number), filed)
    assert told.tree.waits.kind == kind
    assert code_of(told.tree.reason) == code
    assert f"waits for: {words}" in told.lines


def test_every_kind_of_wait_is_told():
    known = {NoRoom, ClaimedRoom, Vetoed, Behind, Capped, Barred}

    assert {filed for _, filed, *_ in KINDS} == known


def test_a_job_that_is_held_or_runs_is_filed_under_nothing():
    scene = Scene(cpus=4)
    scene.submit("runs")
    scene.submit("held", hold=True)

    assert story(scene, "runs").tree.waits is None
    assert story(scene, "held").tree.waits is None


def test_a_job_behind_the_first_without_room_of_its_own_says_both():
    scene = Scene(cpus=4)
    its_turn_without_room(scene)

    told = story(scene)

    assert told.lines[0] == f"nothing passes job {scene.names['big']}, which waits first"
    assert isinstance(told.tree.unsatisfied[1], why.Scarce)


def test_a_job_that_is_out_of_one_limit_and_in_another_starts_when_the_other_lets_it():
    scene = Scene(cpus=4)
    scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="side", max_per_user=1)))
    scene.submit("first", queue="side")
    scene.submit("other", group="g", group_cap=1)
    scene.submit("job", queue="side", group="g")
    limits = [story(scene).tree.waits.counters]

    scene.finish("first")
    limits.append(story(scene).tree.waits.counters)
    scene.finish("other")

    assert limits == [("alice in queue side",), ("group g",)]
    assert scene.is_running("job")
