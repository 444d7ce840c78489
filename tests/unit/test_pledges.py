"""Deadlines that are promised at the submit: a yes is room that nothing but a node can break."""

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from rota.controller.commands import commands as cmd
from rota.controller.commands.pledges import Overtaken
from rota.core.changes import events as ev
from rota.core.derived.usage import usage_key
from rota.core.facts.errors import Conflict, Rejected
from rota.core.facts.node import NodeSpec
from rota.core.facts.tenant import Access, Actor, Reservation
from rota.scheduling.answers.pledging import pledge_for, weigh
from rota.testing.scene import ALICE, BOB, Scene

ROOT = Actor("root", Access.ADMIN)
HOUR = 3600


def asked(scene: Scene, name: str, by_s: float, **wishes: Any) -> cmd.Submitted:
    """A submit that wants a promise, and its answer."""
    spec = {"cpus": 4, "time_limit_s": HOUR} | wishes
    made = scene.submission(name, promise=True, deadline_s=scene.now_s + by_s, **spec)
    answer: cmd.Submitted = scene.ask(cmd.Submit(actor=ALICE, submissions=(made,)))
    scene.names[name] = answer.ids[0]
    return answer


def full(**more: Any) -> Scene:
    """A box that one job holds for an hour at most."""
    scene = Scene(**more)
    scene.submit("hog", cpus=4, time_limit_s=HOUR)
    return scene


def told(scene: Scene, kind: type) -> list[Any]:
    return [event for event in scene.log if isinstance(event, kind)]


def counts(scene: Scene) -> tuple[int, int]:
    usage = scene.cluster.accounts.usage.get(usage_key("alice", ""))
    return usage.promises_between(0.0, inf) if usage is not None else (0, 0)


def test_a_job_that_can_be_done_in_time_gets_a_yes_with_its_latest_start():
    scene = full()

    answer = asked(scene, "mine", 3 * HOUR)

    assert answer.promise is not None
    assert answer.promise.chance == 1.0
    assert answer.promise.start_s == pytest.approx(scene.now_s + HOUR, abs=5)
    (made,) = scene.cluster.reservations.values()
    assert (made.job, made.room[0].node) == (answer.ids[0], "box")


def test_jobs_that_were_promised_the_same_moment_both_start_then():
    scene = full()
    answers = [asked(scene, name, 3 * HOUR, cpus=2) for name in ("mine", "ours")]
    hog = scene.job("hog")

    scene.pass_time(hog.started_s + HOUR - scene.now_s)
    scene.finish("hog")

    assert len({answer.promise.start_s for answer in answers}) == 1
    assert scene.is_running("mine")
    assert scene.is_running("ours")


def test_a_job_that_starts_at_once_keeps_no_room_beside_its_own():
    scene = Scene()

    asked(scene, "mine", 2 * HOUR)

    assert scene.state("mine") == "running"
    assert scene.cluster.reservations == {}


def test_what_cannot_be_done_in_time_is_refused_in_one_line_that_says_what_would_help():
    scene = full()

    with pytest.raises(Conflict) as refused:
        asked(scene, "mine", 1.5 * HOUR)

    assert "cannot be promised" in refused.value.detail
    assert "can be promised, or a time limit of 30m" in refused.value.detail
    assert "\n" not in refused.value.detail
    assert len(scene.cluster.jobs) == 1


def test_a_good_chance_is_told_and_nothing_is_kept_for_it():
    scene = full()

    answer = asked(scene, "mine", 1.5 * HOUR, chance=0.8)

    assert answer.promise == cmd.Answered(chance=0.8)
    assert scene.cluster.reservations == {}
    assert scene.job("mine").promise == ""


@pytest.mark.parametrize("preset", ["default", "easy", "conservative", "priority", "fifo"])
def test_no_later_job_breaks_a_promise_however_urgent(preset):
    scene = full()
    scene.ask(cmd.SetPolicy(actor=ROOT, preset=preset))
    asked(scene, "mine", 3 * HOUR)
    for number in range(3):
        scene.submit(f"urgent{number}", actor=BOB, cpus=4, time_limit_s=5 * HOUR, priority=75)

    scene.pass_time(HOUR - 1)
    scene.finish("hog")

    assert scene.state("mine") == "running"
    assert {scene.state(f"urgent{number}") for number in range(3)} == {"queued"}


def test_a_short_job_still_passes_in_front_of_a_promise():
    scene = Scene(nodes=2)
    scene.submit("long", cpus=4, time_limit_s=2 * HOUR)
    scene.submit("hog", cpus=4, time_limit_s=2 * HOUR)
    asked(scene, "mine", 4 * HOUR)

    scene.finish("hog")

    assert scene.state("mine") == "running"


def test_a_promise_outlives_the_controller_and_a_new_scheduler_decides_alike():
    scene = full()
    asked(scene, "mine", 3 * HOUR)

    scene.restart()
    scene.submit("urgent", actor=BOB, cpus=4, time_limit_s=5 * HOUR, priority=75)
    scene.finish("hog")

    assert scene.states("mine", "urgent") == ["running", "queued"]


def test_a_running_job_without_a_limit_lets_nothing_be_promised():
    scene = Scene()
    scene.submit("endless", cpus=4, estimate_s=60)

    with pytest.raises(Conflict, match="nobody can say when the job would start"):
        asked(scene, "mine", 9 * HOUR)


def test_a_promise_overtakes_no_job_that_stands_before_it():
    scene = full()
    scene.submit("before", cpus=4, time_limit_s=5 * HOUR, estimate_s=60, priority=75)

    with pytest.raises(Conflict, match="can be promised"):
        asked(scene, "mine", 4 * HOUR)
    scene.finish("hog")

    assert scene.state("before") == "running"


def test_two_promises_do_not_share_room():
    scene = full()
    first = asked(scene, "first", 3 * HOUR)

    second = asked(scene, "second", 9 * HOUR)

    assert first.promise is not None
    assert second.promise is not None
    assert second.promise.start_s >= first.promise.start_s + HOUR


def test_a_kept_promise_is_counted():
    scene = Scene()
    asked(scene, "mine", 2 * HOUR)

    scene.finish("mine")

    assert counts(scene) == (1, 0)
    assert told(scene, ev.PromiseBroken) == []


def test_the_death_of_the_node_breaks_it_and_that_is_told_and_counted_once():
    scene = full(lease_s=30.0)
    asked(scene, "mine", 2.5 * HOUR)
    scene.disconnect("box")

    scene.pass_time(1.6 * HOUR)
    scene.pass_time(2 * HOUR)

    (broken,) = told(scene, ev.PromiseBroken)
    assert "box" in broken.note
    assert counts(scene) == (0, 1)
    assert scene.cluster.reservations == {}
    assert scene.job("mine").promise == "broken"


def test_a_node_that_dies_under_a_promised_job_breaks_it():
    scene = Scene(nodes=1, lease_s=30.0)
    asked(scene, "mine", 1.2 * HOUR, retries=0)
    scene.pass_time(0.5 * HOUR)

    scene.disconnect("box")
    scene.pass_time(HOUR)

    assert counts(scene) == (0, 1)


def test_a_cancelled_job_has_nothing_to_keep():
    scene = full()
    asked(scene, "mine", 3 * HOUR)

    scene.cancel("mine")

    assert counts(scene) == (0, 0)
    assert scene.cluster.reservations == {}


@pytest.mark.parametrize("how", ["hold", "update"])
def test_changing_what_the_promise_rests_on_gives_it_up(how):
    scene = full()
    asked(scene, "mine", 3 * HOUR)

    if how == "hold":
        scene.hold("mine")
    else:
        job = scene.job("mine").id
        scene.ask(cmd.Update(actor=ALICE, job=job, changes={"time_limit_s": 60}))

    assert scene.job("mine").promise == ""
    assert scene.cluster.reservations == {}


def test_a_name_may_change_and_the_promise_stays():
    scene = full()
    asked(scene, "mine", 3 * HOUR)

    job = scene.job("mine").id
    scene.ask(cmd.Update(actor=ALICE, job=job, changes={"name": "other"}))

    assert scene.cluster.jobs[job].promise == "open"


def test_an_operator_is_refused_the_room_of_a_promise_and_may_take_it_away():
    scene = full()
    answer = asked(scene, "mine", 3 * HOUR)
    (made,) = scene.cluster.reservations.values()
    mine = Reservation(0, "", made.start_s, made.end_s, nodes=("box",))

    with pytest.raises(Conflict, match=f"promised to job {answer.ids[0]}"):
        scene.ask(cmd.AddReservation(actor=ROOT, reservation=mine))
    scene.ask(cmd.RemoveReservation(actor=ROOT, reservation=made.id))

    assert counts(scene) == (0, 1)
    assert told(scene, ev.PromiseBroken)[0].note == "root removed what was kept for it"


@pytest.mark.parametrize(
    ("field", "wishes"),
    [
        ("time_limit_s", {"time_limit_s": 0}),
        ("array", {"array": "0-3"}),
        ("hold", {"hold": True}),
        ("begin_at", {"begin_s": 4e9}),
        ("depends_on", {"after": {"hog": "after-ok"}}),
    ],
)
def test_what_no_promise_can_be_about_is_refused_by_its_field(field, wishes):
    scene = full()

    with pytest.raises(Rejected) as refused:
        asked(scene, "mine", 9 * HOUR, **wishes)

    assert refused.value.field == field


def test_a_promised_job_gives_way_to_nobody():
    scene = Scene()
    scene.ask(
        cmd.SetPolicy(actor=ROOT, rules={"preempt.enabled": True, "preempt.min_runtime_s": 0})
    )
    asked(scene, "mine", 2 * HOUR, preemptible=True, priority=0)
    scene.pass_time(60)

    scene.submit("urgent", actor=ROOT, cpus=4, priority=100, time_limit_s=60)

    assert scene.states("mine", "urgent") == ["running", "queued"]


def test_the_plan_of_a_promise_leaves_no_trace():
    scene = full()
    scene.add_node(NodeSpec("b", 4000, 16384, 10240, cpus=tuple(range(4))))
    before = scene.controller.next_seq
    spec = scene.submission("x", cpus=4, time_limit_s=HOUR).spec

    found = pledge_for(scene.controller.scheduler, spec, scene.now_s)

    assert found is not None
    assert found.room[0].node == "b"
    assert scene.controller.next_seq == before
    assert len(scene.cluster.jobs) == 1


def weighed(scene: Scene, name: str, by_s: float) -> cmd.Submission:
    """A submit whose promise was worked out before."""
    made = scene.submission(
        name, promise=True, deadline_s=scene.now_s + by_s, cpus=4, time_limit_s=HOUR
    )
    found = weigh(scene.controller.scheduler, made.spec, scene.now_s)
    return replace(made, weighed=found)


def handed_in(scene: Scene, made: cmd.Submission) -> cmd.Submitted:
    answer: cmd.Submitted = scene.ask(cmd.Submit(actor=ALICE, submissions=(made,)))
    return answer


def test_a_promise_that_was_worked_out_before_is_given_while_its_room_is_as_it_was():
    scene, other = full(), full()
    made = weighed(scene, "mine", 3 * HOUR)
    scene.submit("behind", cpus=1, time_limit_s=HOUR, actor=BOB)

    answer = handed_in(scene, made)

    expected = asked(other, "mine", 3 * HOUR)
    assert answer.promise is not None
    assert expected.promise is not None
    assert answer.promise.start_s == pytest.approx(expected.promise.start_s, abs=5)


@pytest.mark.parametrize("change", ["another promise", "a longer stay", "a drained node"])
def test_a_promise_whose_room_has_changed_meanwhile_is_worked_out_anew(change: str):
    scene = full()
    made = weighed(scene, "mine", 9 * HOUR)
    if change == "another promise":
        handed_in(scene, weighed(scene, "other", 9 * HOUR))
    elif change == "a longer stay":
        scene.ask(cmd.Update(actor=ROOT, job=1, changes={"time_limit_s": 2 * HOUR}))
    else:
        scene.ask(cmd.DrainNode(actor=ROOT, node="box", drained=True))

    with pytest.raises(Overtaken):
        handed_in(scene, made)

    assert all(job.spec.name != "mine" for job in scene.cluster.jobs.values())


def test_a_promise_that_was_worked_out_too_long_ago_to_be_kept_is_none():
    scene = Scene()
    made = weighed(scene, "mine", HOUR + 60)
    scene.now_s += 120

    with pytest.raises(Conflict, match="cannot be promised"):
        handed_in(scene, made)
