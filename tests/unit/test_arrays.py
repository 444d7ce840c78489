"""Arrays: one object, expanded only where something touches an element."""

import tracemalloc

import pytest

from rota.controller.commands import commands as cmd
from rota.core.changes.events import AttemptPlaced, ElementExpanded
from rota.core.facts.errors import Conflict
from rota.core.facts.job import Role
from rota.core.facts.resources import Request
from rota.testing.scene import OPERATOR, Scene


def running(scene: Scene) -> list[int]:
    return sorted({job for job, _ in scene.cluster.live.where.values()})


def test_a_million_elements_cost_little_memory_and_few_events():
    scene = Scene(cpus=4)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()

        array = scene.submit("million", array="0-999999")

        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1_000_000
    assert len(scene.cluster.jobs) == 4
    assert scene.state(array + 1_000_000) == "queued"
    assert scene.cluster.count_states()["queued"] == 999_996
    assert len(scene.log) < 20


def test_elements_start_in_the_order_of_their_indices():
    scene = Scene(cpus=1)
    array = scene.submit("array", array="5,1-2")

    for job in range(array + 1, array + 4):
        scene.finish(job)

    placed = [event.job for event in scene.log if isinstance(event, AttemptPlaced)]
    assert placed == [array + 1, array + 2, array + 3]
    assert [scene.job(job).array_index for job in placed] == [1, 2, 5]


def test_ids_of_elements_follow_the_id_of_their_array_and_the_next_job_comes_after_them():
    scene = Scene(cpus=1)

    array = scene.submit("array", array="0-9")
    later = scene.submit("later")

    assert later == array + 11
    assert scene.job(array + 1).array_id == array


def test_a_cap_limits_how_many_elements_run_at_once():
    scene = Scene(cpus=8)
    array = scene.submit("array", array="0-9%3")
    first = running(scene)

    scene.finish(array + 2)

    assert first == [array + 1, array + 2, array + 3]
    assert running(scene) == [array + 1, array + 3, array + 4]


def test_a_cap_holds_back_its_own_array_and_nobody_else():
    scene = Scene(cpus=8)
    scene.submit("capped", array="0-9%2")

    scene.submit("single")
    scene.submit("free", array="0-3")

    assert len(running(scene)) == 2 + 1 + 4


def test_a_raised_cap_starts_more_at_once_and_a_lowered_one_lets_running_elements_be():
    scene = Scene(cpus=8)
    array = scene.submit("array", array="0-9%2")

    scene.update("array", cap=4)
    raised = len(running(scene))
    scene.update("array", cap=1)
    scene.finish(array + 1)

    assert raised == 4
    assert running(scene) == [array + 2, array + 3, array + 4]


def test_a_cap_given_later_binds_elements_that_were_touched_before():
    scene = Scene(cpus=8)
    scene.submit("hog", cpus=8)
    array = scene.submit("array", array="0-3")
    scene.hold(array + 1)
    scene.release(array + 1)

    scene.update("array", cap=1)
    scene.finish("hog")

    assert running(scene) == [array + 1]


def test_a_cap_survives_a_restart():
    scene = Scene(cpus=8)
    array = scene.submit("array", array="0-5%2")

    scene.restart()
    scene.finish(array + 1)

    assert running(scene) == [array + 2, array + 3]


def test_a_held_array_starts_nothing_until_it_is_released():
    scene = Scene(cpus=8)
    array = scene.submit("array", array="0-3", hold=True)
    held = scene.state(array + 1)

    scene.release("array")

    assert held == "held"
    assert len(running(scene)) == 4


def test_hold_on_an_array_keeps_its_waiting_elements_back_and_lets_running_ones_be():
    scene = Scene(cpus=2)
    array = scene.submit("array", array="0-3")

    scene.hold("array")
    scene.finish(array + 1)

    assert scene.states(*range(array + 1, array + 5)) == ["completed", "running", "held", "held"]


def test_one_element_can_be_held_and_released_by_itself():
    scene = Scene(cpus=1)
    array = scene.submit("array", array="0-2")

    scene.hold(array + 2)
    scene.finish(array + 1)
    passed_over = scene.states(array + 2, array + 3)
    scene.release(array + 2)
    scene.finish(array + 3)

    assert passed_over == ["held", "running"]
    assert scene.is_running(array + 2)


def test_an_element_that_was_held_takes_its_place_among_its_siblings_again():
    scene = Scene(cpus=1)
    array = scene.submit("array", array="0-5")
    scene.hold(array + 2)

    scene.release(array + 2)
    scene.finish(array + 1)

    assert running(scene) == [array + 2]


def test_cancel_of_an_array_ends_waiting_elements_and_stops_running_ones():
    scene = Scene(cpus=2)
    array = scene.submit("array", array="0-99999")

    answer = scene.cancel("array")
    for job in (array + 1, array + 2):
        scene.finish(job, signal=15)

    assert answer.changed == (array, array + 1, array + 2)
    assert scene.cluster.count_states()["cancelled"] == 100_000
    assert not scene.cluster.jobs


def test_cancel_of_one_element_leaves_the_others_alone():
    scene = Scene(cpus=1)
    array = scene.submit("array", array="0-2")

    scene.cancel(array + 2)
    scene.finish(array + 1)

    assert scene.states(array + 1, array + 2, array + 3) == ["completed", "cancelled", "running"]
    assert scene.cause(array + 2) == "cancelled: by alice"


def test_an_update_of_an_array_changes_the_elements_that_nothing_touched():
    scene = Scene(cpus=2)
    array = scene.submit("array", array="0-3", cpus=1)

    scene.update("array", command=("new",), roles=(Role(request=Request(cpu_milli=2000)),))
    scene.finish(array + 1)
    scene.finish(array + 2)

    assert scene.job(array + 1).spec.command == ("true",)
    assert scene.job(array + 3).spec.command == ("new",)
    assert running(scene) == [array + 3]


def test_an_update_of_one_element_changes_that_element_only():
    scene = Scene(cpus=1)
    array = scene.submit("array", array="0-2")

    scene.update(array + 3, priority=60)
    scene.finish(array + 1)

    assert running(scene) == [array + 3]


def test_a_later_begin_given_to_an_array_is_kept():
    scene = Scene(cpus=1)
    scene.submit("hog")
    array = scene.submit("array", array="0-1")

    scene.update("array", begin_s=scene.now_s + 50)
    scene.finish("hog")
    before = scene.state(array + 1)
    scene.pass_time(50)

    assert before == "queued"
    assert scene.is_running(array + 1)


def test_requeue_of_an_array_concerns_its_running_elements():
    scene = Scene(cpus=1)
    array = scene.submit("array", array="0-2")

    answer = scene.requeue("array")
    scene.finish(array + 1, signal=15)

    assert answer.changed == (array, array + 1)
    assert running(scene) == [array + 1]
    assert scene.job(array + 1).requeues == 1


def test_commands_on_an_array_that_has_ended_are_refused():
    scene = Scene(cpus=4)
    array = scene.submit("array", array="0-1")
    scene.finish(array + 1)
    scene.finish(array + 2)

    answer = scene.cancel("array")

    assert [refusal.reason for refusal in answer.refused] == [f"job {array} is completed already"]
    with pytest.raises(Conflict, match="is completed already"):
        scene.update("array", priority=10)


def test_an_element_is_expanded_once_whatever_touches_it():
    scene = Scene(cpus=1)
    array = scene.submit("array", array="0-2")

    for step in (scene.hold, scene.release, scene.hold, scene.release):
        step(array + 2)

    expanded = [e.position for e in scene.log if isinstance(e, ElementExpanded)]
    assert expanded == [0, 1]


def test_a_retried_element_runs_before_elements_that_never_ran():
    scene = Scene(cpus=1)
    array = scene.submit("array", array="0-5", retries=1, backoff_s=0)

    scene.finish(array + 1, code=1)

    assert running(scene) == [array + 1]


def test_cancel_of_everything_names_each_job_once():
    scene = Scene(cpus=2)
    array = scene.submit("array", array="0-9")
    scene.hold(array + 5)
    child = scene.submit("child", after={"array": "after-ok"})

    answer = scene.ask(cmd.Cancel(actor=OPERATOR, of_user="*"))

    assert sorted(answer.changed) == sorted({array, array + 1, array + 2, array + 5, child})
    assert answer.refused == ()


def test_an_array_in_the_order_among_other_jobs_stands_where_it_was_submitted():
    scene = Scene(cpus=1)
    scene.submit("first")
    array = scene.submit("array", array="0-1")
    last = scene.submit("last")

    for job in (scene.names["first"], array + 1, array + 2, last):
        scene.finish(job)

    placed = [event.job for event in scene.log if isinstance(event, AttemptPlaced)]
    assert placed == [scene.names["first"], array + 1, array + 2, last]
