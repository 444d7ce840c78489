"""Jobs that wait for other jobs: kinds, several parents, failures, cycles, restarts."""

import pytest

from rota.core.facts.errors import Rejected
from rota.testing.scene import Scene


@pytest.mark.parametrize(
    ("kind", "while_queued", "while_running"),
    [
        ("after", "queued", "running"),
        ("after-ok", "queued", "queued"),
        ("after-any", "queued", "queued"),
        ("after-not-ok", "queued", "queued"),
    ],
)
def test_a_child_waits_for_the_start_or_the_end_of_its_parent(kind, while_queued, while_running):
    scene = Scene(starts=False)
    scene.submit("parent")
    scene.starts = True
    scene.submit("child", after={"parent": kind})
    placed = scene.state("child")

    scene.start("parent")

    assert placed == while_queued
    assert scene.state("child") == while_running


@pytest.mark.parametrize(
    ("kind", "code", "child"),
    [
        ("after-ok", 0, "running"),
        ("after-ok", 1, "cancelled"),
        ("after-any", 0, "running"),
        ("after-any", 1, "running"),
        ("after-not-ok", 0, "cancelled"),
        ("after-not-ok", 1, "running"),
    ],
)
def test_a_child_starts_or_is_settled_by_how_its_parent_ended(kind, code, child):
    scene = Scene()
    scene.submit("parent")
    scene.submit("child", after={"parent": kind})

    scene.finish("parent", code=code)

    assert scene.state("child") == child


@pytest.mark.parametrize(
    ("kind", "code", "child"),
    [
        ("after", 0, "running"),
        ("after-ok", 0, "running"),
        ("after-ok", 1, "cancelled"),
        ("after-any", 1, "running"),
        ("after-not-ok", 1, "running"),
        ("after-not-ok", 0, "cancelled"),
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_parent_that_ended_before_the_submit_counts(kind, code, child, restarted):
    scene = Scene()
    scene.submit("parent")
    scene.finish("parent", code=code)
    if restarted:
        scene.restart()

    scene.submit("child", after={"parent": kind})

    assert scene.state("child") == child


def test_a_failed_parent_is_named_in_the_end_of_its_child():
    scene = Scene()
    parent = scene.submit("parent")
    scene.submit("child", after={"parent": "after-ok"})

    scene.finish("parent", code=3)

    assert scene.cause("child") == f"dependency: job {parent} ended failed"


def test_a_failure_settles_the_whole_chain_each_naming_its_own_parent():
    scene = Scene()
    scene.submit("first")
    second = scene.submit("second", after={"first": "after-ok"})
    scene.submit("third", after={"second": "after-ok"})

    scene.finish("first", code=1)

    assert scene.cause("third") == f"dependency: job {second} ended cancelled"


def test_a_very_long_chain_is_settled_in_one_go():
    scene = Scene()
    jobs = [scene.submit()]
    for _ in range(300):
        jobs.append(scene.submit(after={str(jobs[-1]): "after-ok"}))

    scene.finish(jobs[0], code=1)

    assert set(scene.states(*jobs[1:])) == {"cancelled"}


def test_a_cancelled_parent_settles_its_child():
    scene = Scene(cpus=1)
    scene.submit("runs")
    scene.submit("parent")
    scene.submit("child", after={"parent": "after-ok"})

    scene.cancel("parent")

    assert scene.state("child") == "cancelled"


def test_a_parent_that_times_out_or_loses_its_node_has_not_completed():
    scene = Scene()
    scene.submit("parent", time_limit_s=10)
    scene.submit("child", after={"parent": "after-ok"})
    scene.submit("cleanup", after={"parent": "after-not-ok"})

    scene.pass_time(10)
    scene.finish("parent", signal=15)

    assert scene.states("parent", "child", "cleanup") == ["timeout", "cancelled", "running"]


def test_a_child_asked_to_keep_waiting_survives_the_failure_of_its_parent():
    scene = Scene()
    parent = scene.submit("parent")
    scene.submit("child", after={"parent": "after-ok"}, keep_waiting=True)

    scene.finish("parent", code=1)

    assert scene.state("child") == "queued"
    assert scene.why("child") == f"job {parent} failed: can never start"


def test_a_child_that_keeps_waiting_can_be_given_another_parent():
    scene = Scene()
    scene.submit("broken")
    scene.submit("child", after={"broken": "after-ok"}, keep_waiting=True)
    scene.finish("broken", code=1)
    scene.submit("good")

    scene.update("child", after={"good": "after-ok"})
    scene.finish("good")

    assert scene.is_running("child")


def test_all_parents_must_be_met():
    scene = Scene()
    scene.submit("one")
    scene.submit("two")
    scene.submit("child", after={"one": "after-ok", "two": "after-any"})

    scene.finish("one")
    between = scene.state("child")
    scene.finish("two", code=1)

    assert between == "queued"
    assert scene.is_running("child")


def test_one_hopeless_parent_of_several_settles_the_child_at_once():
    scene = Scene()
    one = scene.submit("one")
    scene.submit("two")
    scene.submit("child", after={"one": "after-ok", "two": "after-ok"})

    scene.finish("one", code=1)

    assert scene.cause("child") == f"dependency: job {one} ended failed"


def test_any_of_several_parents_is_enough_if_asked():
    scene = Scene()
    scene.submit("one")
    scene.submit("two")
    scene.submit("child", after={"one": "after-ok", "two": "after-ok"}, any_dependency=True)

    scene.finish("two")

    assert scene.is_running("child")


def test_with_any_of_the_child_ends_only_when_the_last_hope_is_gone():
    scene = Scene()
    scene.submit("one")
    scene.submit("two")
    scene.submit("child", after={"one": "after-ok", "two": "after-ok"}, any_dependency=True)

    scene.finish("one", code=1)
    between = scene.state("child")
    scene.finish("two", code=1)

    assert between == "queued"
    assert scene.state("child") == "cancelled"


def test_a_parent_that_never_existed_is_refused():
    scene = Scene()

    with pytest.raises(Rejected, match="there is no job 99") as refusal:
        scene.submit("child", after={"99": "after-ok"})

    assert refusal.value.field == "depends_on"
    assert scene.cluster.ids.next == 1


def test_a_job_cannot_wait_for_the_id_that_it_is_about_to_get():
    scene = Scene()

    with pytest.raises(Rejected, match="there is no job 1"):
        scene.submit("myself", after={str(scene.cluster.ids.next): "after-ok"})


def test_an_update_that_closes_a_circle_is_refused_and_changes_nothing():
    scene = Scene(cpus=1)
    scene.submit("runs")
    scene.submit("a")
    scene.submit("b", after={"a": "after-ok"})
    scene.submit("c", after={"b": "after-ok"})

    with pytest.raises(Rejected, match="would wait for itself"):
        scene.update("a", after={"c": "after-ok"})

    assert scene.job("a").spec.dependencies == ()


def test_a_job_cannot_be_made_to_wait_for_itself():
    scene = Scene(cpus=1)
    scene.submit("runs")
    scene.submit("a")

    with pytest.raises(Rejected, match="would wait for itself"):
        scene.update("a", after={"a": "after-any"})


def test_a_circle_through_an_array_is_refused_from_either_side():
    scene = Scene(cpus=1)
    scene.submit("runs")
    array = scene.submit("array", array="0-3")
    scene.submit("after all", after={"array": "after-any"})
    scene.submit("after one", after={str(array + 2): "after-any"})

    with pytest.raises(Rejected, match="would wait for itself"):
        scene.update(array + 1, after={"after all": "after-ok"})
    with pytest.raises(Rejected, match="would wait for itself"):
        scene.update("array", after={"after one": "after-ok"})


def test_an_element_may_wait_for_a_sibling():
    scene = Scene(cpus=1)
    scene.submit("runs")
    array = scene.submit("array", array="0-1")

    scene.update(array + 1, after={str(array + 2): "after-ok"})
    scene.finish("runs")
    scene.finish(array + 2)

    assert scene.is_running(array + 1)


def test_a_child_that_is_retried_does_not_wait_for_its_parents_again():
    scene = Scene()
    scene.submit("parent")
    scene.submit("child", after={"parent": "after"}, retries=1, backoff_s=0)
    scene.requeue("parent", hold=True)
    scene.finish("parent", signal=15)

    scene.finish("child", code=1)

    assert scene.state("parent") == "held"
    assert scene.is_running("child")


def test_a_child_released_after_its_parent_failed_was_settled_while_held():
    scene = Scene()
    scene.submit("parent")
    scene.submit("child", after={"parent": "after-ok"}, hold=True)

    scene.finish("parent", code=1)

    assert scene.state("child") == "cancelled"


def test_a_restart_while_a_child_waits_forgets_neither_side():
    scene = Scene()
    scene.submit("parent")
    scene.submit("child", after={"parent": "after-ok"})
    scene.submit("loser", after={"parent": "after-not-ok"})

    scene.restart()
    scene.finish("parent")

    assert scene.states("child", "loser") == ["running", "cancelled"]
