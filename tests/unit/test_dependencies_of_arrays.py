"""Arrays as parents and as children; elements that wait for elements."""

import pytest

from rota.controller.recover import recover
from rota.core.changes.compare import differences, fold
from rota.core.facts.states import JobState
from rota.testing.scene import Scene


def finish_all(scene: Scene, ids, **how) -> None:
    for job in ids:
        scene.finish(job, **how)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_child_of_an_array_starts_when_the_last_element_completed(restarted):
    scene = Scene(cpus=8)
    array = scene.submit("array", array="0-3")
    scene.submit("child", after={"array": "after-ok"})
    finish_all(scene, range(array + 1, array + 4))
    if restarted:
        scene.restart()
    before = scene.state("child")

    scene.finish(array + 4)

    assert before == "queued"
    assert scene.is_running("child")


def test_one_failed_element_fails_the_array_for_its_children():
    scene = Scene(cpus=8)
    array = scene.submit("array", array="0-1")
    scene.submit("child", after={"array": "after-ok"})
    scene.submit("cleanup", after={"array": "after-not-ok"})
    scene.submit("report", after={"array": "after-any"})

    scene.finish(array + 1, code=1)
    between = scene.states("child", "cleanup", "report")
    scene.finish(array + 2)

    assert between == ["queued", "queued", "queued"]
    assert scene.states("child", "cleanup", "report") == ["cancelled", "running", "running"]
    assert scene.cause("child") == f"dependency: job {array} ended failed"


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        ((0, 0, 0), "completed"),
        ((0, None, 0), "cancelled"),
        ((None, None, None), "cancelled"),
        ((0, None, 1), "failed"),
    ],
)
def test_an_array_ends_as_the_worst_of_its_elements(ends, state):
    scene = Scene(cpus=4)
    array = scene.submit("array", array="0-2")

    for job, code in enumerate(ends, start=array + 1):
        if code is None:
            scene.cancel(job)
        scene.finish(job, code)

    assert scene.state("array") == state


def test_a_cancelled_array_settles_those_who_wait_for_it_or_for_one_element():
    scene = Scene(cpus=1)
    scene.submit("runs")
    array = scene.submit("array", array="0-9")
    scene.submit("child", after={"array": "after-ok"})
    scene.submit("of one", after={str(array + 5): "after-ok"})
    scene.submit("whatever", after={"array": "after-any"})

    scene.cancel("array")
    scene.finish("runs")

    assert scene.states("child", "of one", "whatever") == ["cancelled", "cancelled", "running"]


def test_a_child_of_one_element_waits_for_that_element_only():
    scene = Scene(cpus=2)
    array = scene.submit("array", array="0-3%1")
    scene.submit("child", after={str(array + 1): "after-ok"})

    scene.finish(array + 1)

    assert scene.is_running("child")


def test_after_an_array_means_after_the_start_of_its_last_element():
    scene = Scene(cpus=8)
    array = scene.submit("array", array="0-2%1")
    scene.submit("child", after={"array": "after"})
    scene.hold(array + 3)
    finish_all(scene, (array + 1, array + 2))
    before = scene.state("child")

    scene.release(array + 3)

    assert before == "queued"
    assert scene.is_running("child")


@pytest.mark.parametrize("restarted", [False, True])
def test_an_array_that_ended_long_ago_is_still_known_as_a_parent(restarted):
    scene = Scene(cpus=8)
    array = scene.submit("array", array="0-2")
    finish_all(scene, range(array + 1, array + 4))
    if restarted:
        scene.restart()

    scene.submit("child", after={"array": "after-ok"})

    assert scene.is_running("child")


def test_a_child_array_waits_as_a_whole_and_then_starts_in_order():
    scene = Scene(cpus=2)
    scene.submit("parent")
    array = scene.submit("array", array="0-9", after={"parent": "after-ok"})
    before = scene.states(array + 1, array + 10)

    scene.finish("parent")

    assert before == ["queued", "queued"]
    assert scene.states(array + 1, array + 2, array + 3) == ["running", "running", "queued"]


def test_a_failed_parent_settles_every_element_of_a_child_array_at_once():
    scene = Scene()
    parent = scene.submit("parent")
    array = scene.submit("array", array="0-999", after={"parent": "after-ok"})

    scene.finish("parent", code=1)

    assert set(scene.states(*range(array + 1, array + 1001))) == {"cancelled"}
    stored = scene.store.array(array)
    assert stored is not None
    assert stored.cut_outcome is not None
    assert stored.cut_outcome.detail == f"job {parent} ended failed"


@pytest.mark.parametrize("restarted", [False, True])
def test_elements_tied_to_elements_wait_one_by_one(restarted):
    scene = Scene(cpus=8)
    first = scene.submit("first", array="0-2")
    second = scene.submit("second", array="0-2", after={"first": "after-ok element"})
    if restarted:
        scene.restart()

    scene.finish(first + 2)

    assert scene.states(second + 1, second + 2, second + 3) == ["queued", "running", "queued"]


def test_a_failed_element_settles_only_its_twin():
    scene = Scene(cpus=8)
    first = scene.submit("first", array="0-1")
    second = scene.submit("second", array="0-1", after={"first": "after-ok element"})

    scene.finish(first + 1, code=1)
    scene.finish(first + 2)

    assert scene.states(second + 1, second + 2) == ["cancelled", "running"]
    assert scene.cause(second + 1) == f"dependency: job {first + 1} ended failed"


def test_twins_are_found_by_index_not_by_position():
    scene = Scene(cpus=8)
    first = scene.submit("first", array="0-9:3")
    second = scene.submit("second", array="3,9", after={"first": "after-ok element"})

    scene.finish(first + 4)

    assert scene.states(second + 1, second + 2) == ["queued", "running"]


def test_other_parents_given_to_a_waiting_array_hold_its_untouched_elements_back():
    scene = Scene(cpus=1)
    scene.submit("runs")
    array = scene.submit("array", array="0-3")
    scene.submit("gate", hold=True)

    scene.update("array", after={"gate": "after-any"})
    scene.finish("runs")
    before = scene.state(array + 1)
    scene.cancel("gate")

    assert before == "queued"
    assert scene.is_running(array + 1)


def ended_array(scene: Scene, *codes: int) -> int:
    """An array whose elements have all ended with these codes; the Cluster let it go."""
    array = scene.submit("first", array=f"0-{len(codes) - 1}")
    for job, code in enumerate(codes, start=array + 1):
        scene.finish(job, code=code)
    assert array not in scene.cluster.arrays
    return array


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    ("codes", "states"),
    [((0, 0), ["running", "cancelled", "running"]), ((0, 1), ["cancelled", "running", "running"])],
)
def test_an_array_that_left_the_memory_still_answers_as_a_parent(restarted, codes, states):
    scene = Scene(cpus=8)
    array = ended_array(scene, *codes)
    if restarted:
        scene.restart()

    for kind in ("after-ok", "after-not-ok", "after-any"):
        scene.submit(kind, after={"first": kind})

    assert scene.states("after-ok", "after-not-ok", "after-any") == states
    assert scene.state("first") == ("completed" if codes == (0, 0) else "failed")
    assert scene.store.array(array) is not None


@pytest.mark.parametrize("restarted", [False, True])
def test_elements_are_tied_to_those_of_an_array_that_left_the_memory(restarted):
    scene = Scene(cpus=8)
    first = ended_array(scene, 0, 1, 0)
    if restarted:
        scene.restart()

    second = scene.submit("second", array="1-2", after={"first": "after-ok element"})

    assert scene.states(second + 1, second + 2) == ["cancelled", "running"]
    assert scene.cause(second + 1) == f"dependency: job {first + 2} ended failed"


def test_a_waiting_job_may_be_given_an_array_that_left_the_memory_as_a_parent():
    scene = Scene(cpus=8)
    ended_array(scene, 0)
    scene.submit("child", hold=True)

    scene.update("child", after={"first": "after-ok"})
    scene.release("child")

    assert scene.is_running("child")


def test_a_job_that_waits_for_more_than_an_ended_array_is_the_same_after_a_restart():
    scene = Scene(cpus=8)
    ended_array(scene, 0)
    scene.submit("gate", hold=True)
    scene.submit("child", after={"first": "after-ok", "gate": "after-any"})

    loaded, folded = recover(scene.store.load()), fold(scene.store.all_events())

    folded.ids.cluster_id = loaded.ids.cluster_id
    assert differences(loaded, folded) == []


def test_arrays_that_ended_are_counted_by_their_elements_only():
    scene = Scene(cpus=8)

    ended_array(scene, 0, 1)

    counts = scene.cluster.count_states()
    assert (counts[JobState.COMPLETED], counts[JobState.FAILED]) == (1, 1)
